//! `herma sessions undo`: gives the model back the messages that a compaction replaced.

use std::process::ExitCode;

use anyhow::anyhow;
use herma_config::{Config, Overrides};
use herma_gateway::{GatewayError, Sessions, UndoRequest};
use herma_store::Compacted;

use super::{compact, explain, id_prefix, local_store};
use crate::arguments::{Common, UndoFlags};
use crate::{logging, output, setup};

/// Undoes a compaction.
pub(crate) fn run(common: Common, flags: UndoFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(undo(config, flags))
}

async fn undo(config: Config, mut flags: UndoFlags) -> anyhow::Result<ExitCode> {
    let (store, principal) = local_store::open(&config, &flags.session.shared.tenant).await?;
    flags.session.id = id_prefix::complete(&Sessions::of(&*store, &principal), &flags.session.id).await?;
    let UndoFlags { session, compaction, model } = &flags;
    let gateway = local_store::gateway(&config, store)?;
    let request = UndoRequest {
        principal,
        alias: session.id.clone(),
        compaction: *compaction,
        model: model.clone(),
        expected: None,
    };
    let outcome = gateway.undo_compaction(&request).await;
    local_store::leave(&gateway).await;
    let undone = outcome.map_err(|error| match error {
        GatewayError::NotFound(_) => {
            anyhow!("{0} has no compaction {compaction}; `herma sessions compactions {0}` lists them", session.id)
        }
        error => explain::explained(&session.id)(error),
    })?;
    print(&flags, &undone)?;
    Ok(ExitCode::SUCCESS)
}

fn print(flags: &UndoFlags, undone: &Compacted) -> anyhow::Result<()> {
    if flags.session.shared.json {
        return compact::print_json(undone);
    }
    let record = &undone.record;
    output::answer(&format!(
        "{}: {} is undone; the model is shown messages {} to {} again, about {} → {} tokens",
        record.id, flags.compaction, record.first.0, record.through.0, record.sizes.before, record.sizes.after
    ))?;
    Ok(())
}
