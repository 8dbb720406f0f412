//! Builds the configuration, the store, the model servers and the gateway's settings, in this order.
//!
//! If one of them cannot be built, its error says in one sentence what to do.

mod directory;
mod environment;
mod gateway;
mod model_servers;
mod store;
mod tools;
mod weak_key;

use std::future::Future;

use anyhow::Context;
use herma_config::{Loaded, Overrides};

use crate::arguments::Common;

pub(crate) use directory::make_private;
pub(crate) use gateway::{gateway_settings, honcho_settings, http_settings, window_line};
pub(crate) use model_servers::{ConfiguredServers, OtherServer, key_setting};
pub(crate) use store::{open_existing_store, open_store, sqlite_path};
pub(crate) use tools::{servers as tool_servers, tool_settings};
pub(crate) use weak_key::weak_key;

/// Reads the configuration.
pub(crate) fn load(common: Common, flags: Overrides) -> anyhow::Result<Loaded> {
    Ok(herma_config::load(environment::variables()?, common.over(flags))?)
}

/// Runs a command on the current thread, for commands that are no server.
pub(crate) fn on_this_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}
