//! Opens the local store and a tenant for a command, and starts a gateway on them.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use herma_config::{Config, Overrides};
use herma_gateway::access::DEFAULT_TENANT;
use herma_gateway::{Conflict, Gateway, GatewayError, now, rows};
use herma_model::{Alias, KeyScope, Principal, TenantId, TurnId};
use herma_store::{ConversationRow, Scope, Store};

use crate::arguments::Common;
use crate::{logging, output, setup};

/// How long turns and writes get to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a command that needs only the store.
pub(super) fn on_store(
    common: Common,
    tenant: &str,
    work: impl AsyncFnOnce(&dyn Store, &Scope) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let (store, operator) = open(&config, tenant).await?;
        let outcome = work(&*store, &Scope::of(&operator)).await;
        store.close().await;
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

/// Opens the store, which must exist, and finds the tenant. The terminal may use all session keys of the tenant.
pub(super) async fn open(config: &Config, tenant_name: &str) -> anyhow::Result<(Arc<dyn Store>, Principal)> {
    let Some(store) = setup::open_existing_store(config)? else {
        bail!("there is no store at {} yet, and so no conversation; check --data and --store", config.store.url);
    };
    let tenant = tenant(&*store, tenant_name).await?;
    let tenant_name = Arc::from(tenant_name);
    let operator = Principal { tenant, tenant_name, key: None, session_keys: KeyScope::All };
    Ok((store, operator))
}

/// The id of a tenant that exists. A misspelt name is an error, because `ensure_tenant` would make that tenant.
pub(crate) async fn tenant(store: &dyn Store, name: &str) -> anyhow::Result<TenantId> {
    if name != DEFAULT_TENANT && !store.keys().await?.iter().any(|key| &*key.tenant_name == name) {
        bail!("there is no tenant {name}; `herma keys list` shows them");
    }
    Ok(store.ensure_tenant(name, now()).await?)
}

/// Starts a gateway on the store, for commands that call a model.
pub(super) fn gateway(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Arc<Gateway>> {
    Ok(Gateway::start(store, setup::model_server(config)?, setup::gateway_settings(config)))
}

/// Stops a gateway.
pub(super) async fn leave(gateway: &Gateway) {
    gateway.drain(DRAIN_TIMEOUT).await;
}

/// Says what to do about an error, in terms of the terminal.
pub(super) fn explain(alias: &Alias, error: &GatewayError) -> anyhow::Error {
    match error {
        GatewayError::NotFound(_) => unknown(alias),
        GatewayError::Busy { running, .. } => {
            anyhow!("another turn ({running}) of {alias} is running, and it took too long; try again when it has ended")
        }
        GatewayError::Conflict(Conflict::NothingToCompact) => anyhow!("{error}; nothing was changed"),
        _ => anyhow!("{error}"),
    }
}

/// Prints a row as one line of JSON, in the form of the HTTP API.
pub(super) fn print_row(row: &ConversationRow) -> anyhow::Result<()> {
    output::answer(&serde_json::to_string(&rows::session(row))?)?;
    Ok(())
}

/// Another turn prevents a change.
pub(super) fn busy(alias: &Alias, running: TurnId) -> anyhow::Error {
    anyhow!("a turn ({running}) of {alias} is running or waiting; nothing was changed, try again when it has ended")
}

/// The name leads to no conversation.
pub(super) fn unknown(alias: &Alias) -> anyhow::Error {
    anyhow!("no conversation is known by {alias}; check the id, --tenant, --data and --store")
}
