//! Opens the local store and a tenant for a command: as the conversations of that tenant, or with a gateway.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use herma_config::{Config, Overrides};
use herma_gateway::access::DEFAULT_TENANT;
use herma_gateway::{Gateway, Memories, Sessions, now, rows};
use herma_model::{Alias, Principal, TenantId};
use herma_store::{ConversationRow, Store};

use super::explain::explained;
use super::id_prefix;
use crate::arguments::{Common, SessionName};
use crate::{logging, next_command, output, setup, short_id};

/// How long turns and writes get to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a command that reads or changes conversations without a turn.
pub(super) fn on_sessions(
    common: Common,
    tenant: &str,
    work: impl AsyncFnOnce(&Sessions<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    on_store(common, tenant, async |store, operator| work(&Sessions::of(store, operator)).await)
}

/// Runs a command that reads or changes facts in long-term memory.
pub(crate) fn on_memories(
    common: Common,
    tenant: &str,
    work: impl AsyncFnOnce(&Memories<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    on_store(common, tenant, async |store, operator| work(&Memories::of(store, operator)).await)
}

/// Runs a command on one conversation. The beginning of its id is enough to name it.
pub(super) fn on_session(
    common: Common,
    named: &SessionName,
    work: impl AsyncFnOnce(&Sessions<'_>, &Alias) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    on_sessions(common, &named.shared.tenant, async |sessions| {
        let alias = id_prefix::complete(sessions, &named.id).await?;
        let outcome = work(sessions, &alias).await;
        outcome.map_err(|error| error.downcast().map_or_else(|error| error, explained(&alias)))
    })
}

/// Runs a command that needs the store itself.
pub(super) fn on_store(
    common: Common,
    tenant: &str,
    work: impl AsyncFnOnce(&dyn Store, &Principal) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let (store, operator) = open(&config, tenant).await?;
        let outcome = work(&*store, &operator).await;
        store.close().await;
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

/// Opens the store, which must exist, and finds the tenant. The terminal may use all session keys of the tenant.
pub(super) async fn open(config: &Config, tenant_name: &str) -> anyhow::Result<(Arc<dyn Store>, Principal)> {
    let Some(store) = setup::open_existing_store(config)? else {
        bail!("there is no store at {} yet, and so no conversation. {}", config.store.url, first_steps());
    };
    let tenant = tenant(&*store, tenant_name).await?;
    let tenant_name = Arc::from(tenant_name);
    let operator = Principal::operator(tenant, tenant_name);
    Ok((store, operator))
}

/// What to do where there is no store: a first conversation makes it. Or the flags point to the wrong place.
fn first_steps() -> String {
    format!("To begin one: {}. If there should be one, check --data and --store", next_command::of(&["chat"]))
}

/// The id of a tenant that exists. A misspelt name is an error, because `ensure_tenant` would make that tenant.
pub(crate) async fn tenant(store: &dyn Store, name: &str) -> anyhow::Result<TenantId> {
    if name != DEFAULT_TENANT && !store.keys().await?.iter().any(|key| &*key.tenant_name == name) {
        bail!("there is no tenant {name}; to list them: {}", next_command::of(&["tenants", "list"]));
    }
    Ok(store.ensure_tenant(name, now()).await?)
}

/// Starts a gateway on the store, for commands that call a model.
pub(super) fn gateway(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Arc<Gateway>> {
    let servers = setup::ConfiguredServers::of(config)?;
    let settings = setup::gateway_settings(config, &servers);
    Ok(Gateway::start(store, servers.servers, settings))
}

/// Stops a gateway.
pub(super) async fn leave(gateway: &Gateway) {
    gateway.drain(DRAIN_TIMEOUT).await;
}

/// Prints how a conversation is after a change.
pub(super) fn print_change(session: &SessionName, row: &ConversationRow, state: &str) -> anyhow::Result<()> {
    if session.shared.json {
        return print_row(row);
    }
    let name = row.facts.name().map_or_else(|| short_id::of(row.facts.id), output::printable);
    output::note(&format!("{name} {state}"));
    Ok(())
}

/// Prints a row as one line of JSON, in the form of the HTTP API.
pub(super) fn print_row(row: &ConversationRow) -> anyhow::Result<()> {
    output::answer(&serde_json::to_string(&rows::session(row))?)?;
    Ok(())
}
