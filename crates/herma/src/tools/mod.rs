//! `herma tools`: one file per verb. They need no server.
//!
//! - [`start`]: starts the MCP servers and waits for them.
//! - [`list`], [`call`]: use the servers, without a store.
//! - [`grants`], [`revoke`]: what people allowed, in the local store.

mod call;
mod grants;
mod list;
mod revoke;
mod start;

use std::process::ExitCode;

use herma_config::Overrides;

use crate::arguments::{Common, ToolsCommand};
use crate::{logging, output, setup};

/// Runs a verb.
pub(crate) fn run(common: Common, command: ToolsCommand) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    logging::of_tools(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    let config = &loaded.config;
    setup::on_this_thread(async {
        match command {
            ToolsCommand::List(flags) => list::run(config, &flags).await,
            ToolsCommand::Call(flags) => call::run(config, &flags).await,
            ToolsCommand::Grants(flags) => grants::run(config, &flags).await,
            ToolsCommand::Revoke(flags) => revoke::run(config, &flags).await,
        }
    })
}
