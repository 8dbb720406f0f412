//! `herma sessions compact`: replaces old messages by a summary, or previews that.

use std::process::ExitCode;
use std::sync::Arc;

use herma_config::{Config, Overrides};
use herma_gateway::{CompactionRequest, Gateway, Sessions};
use herma_model::{Alias, Principal, Provenance};
use herma_store::Compacted;
use herma_telemetry::Trace;
use herma_wire::resource::CompactionRow;

use super::{explain, id_prefix, local_store, preview};
use crate::arguments::{Common, CompactFlags};
use crate::failure::Misuse;
use crate::{logging, next_command, output, setup};

/// Compacts a conversation, or previews a compaction.
pub(crate) fn run(common: Common, flags: CompactFlags) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    logging::of_command(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    setup::on_this_thread(compact(loaded.config, flags))
}

async fn compact(config: Config, mut flags: CompactFlags) -> anyhow::Result<ExitCode> {
    let servers = setup::ConfiguredServers::of(&config)?;
    let settings = setup::gateway_settings(&config, &servers);
    if flags.model.is_none() && settings.default_model.is_empty() {
        return Err(Misuse("no model is set; name one with --model or HERMA_MODEL".to_owned()).into());
    }
    let (store, principal) = local_store::open(&config, &flags.session.shared.tenant).await?;
    flags.session.id = id_prefix::complete(&Sessions::of(&*store, &principal), &flags.session.id).await?;
    let model = settings.resolve_model(settings.compaction.model.as_deref().or(flags.model.as_deref()));
    let server = servers.servers.of(model.server).describe();
    output::note(&format!("{server} is making a summary; that can take a while"));
    let gateway = Gateway::start(store, servers.servers, settings);
    let outcome = ask(&gateway, principal, &flags).await;
    local_store::leave(&gateway).await;
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn ask(gateway: &Arc<Gateway>, principal: Principal, flags: &CompactFlags) -> anyhow::Result<()> {
    let CompactFlags { session, dry_run, mode, model } = flags;
    let request = CompactionRequest {
        principal,
        alias: session.id.clone(),
        mode: *mode,
        model: model.clone(),
        expected: None,
        begun: None,
        cancelled: None,
        trace: Trace::none(),
    };
    let explained = explain::explained(&session.id);
    if *dry_run {
        let seen = gateway.preview_compaction(request).await.map_err(explained)?;
        return preview::print(&seen, session.shared.json);
    }
    print(&session.id, &gateway.compact(request).await.map_err(explained)?, session.shared.json)
}

fn print(alias: &Alias, done: &Compacted, json: bool) -> anyhow::Result<()> {
    let record = &done.record;
    if json {
        return print_json(done);
    }
    output::answer(&format!(
        "{}: messages {} to {} of {alias} are now a summary ({}), about {} → {} tokens",
        record.id,
        record.first.0,
        record.through.0,
        record.mode.as_str(),
        record.sizes.before,
        record.sizes.after
    ))?;
    if record.session_after != record.session_before {
        output::note(&format!("the conversation goes on in {}; {alias} still leads to it", record.session_after));
    }
    let back = next_command::of(&["sessions", "undo", alias.as_str(), &record.id.to_string()]);
    output::note(&format!("to take it back: {back}"));
    Ok(())
}

/// Prints a row of the ledger with the head after it, in the form of the HTTP API.
pub(super) fn print_json(done: &Compacted) -> anyhow::Result<()> {
    let session = Provenance::of(&done.facts, &done.facts.head);
    output::answer(&serde_json::to_string(&CompactionRow::from(&done.record).led_to(session))?)?;
    Ok(())
}
