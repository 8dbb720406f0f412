//! `herma sessions undo`: gives the model back the messages that a compaction replaced.

use std::process::ExitCode;

use anyhow::{anyhow, bail};
use herma_config::{Config, Overrides};
use herma_gateway::{GatewayError, Sessions, UndoRequest};
use herma_model::compaction::CompactionOutcome;
use herma_model::{Alias, Compaction, CompactionId};
use herma_store::Compacted;

use super::{compact, compactions, explain, id_prefix, local_store};
use crate::arguments::{Common, SessionName, UndoFlags};
use crate::{logging, next_command, output, setup, short_id};

/// Undoes a compaction.
pub(crate) fn run(common: Common, flags: UndoFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(undo(config, flags))
}

async fn undo(config: Config, mut flags: UndoFlags) -> anyhow::Result<ExitCode> {
    let (store, principal) = local_store::open(&config, &flags.session.shared.tenant).await?;
    // Errors call the conversation as it was typed.
    let typed = flags.session.id.clone();
    let compaction = {
        let sessions = Sessions::of(&*store, &principal);
        flags.session.id = id_prefix::complete(&sessions, &typed).await?;
        match &flags.compaction {
            Some(compaction) => named(&sessions, &flags.session.id, &typed, compaction).await?,
            None => last_standing(&sessions, &flags.session.id, &typed).await?,
        }
    };
    let UndoFlags { session, model, .. } = &flags;
    let gateway = local_store::gateway(&config, store)?;
    let request =
        UndoRequest { principal, alias: session.id.clone(), compaction, model: model.clone(), expected: None };
    let outcome = gateway.undo_compaction(&request).await;
    local_store::leave(&gateway).await;
    let undone = outcome.map_err(|error| match error {
        GatewayError::NotFound(_) => no_such(&typed, &compaction.to_string()),
        error => explain::explained(&typed)(error),
    })?;
    print(session, compaction, &undone)?;
    Ok(ExitCode::SUCCESS)
}

/// The only compaction of the conversation that is named so.
async fn named(sessions: &Sessions<'_>, alias: &Alias, typed: &Alias, part: &str) -> anyhow::Result<CompactionId> {
    if let Ok(id) = part.parse() {
        return Ok(id);
    }
    let ledger = compactions::ledger(sessions, alias).await.map_err(explain::explained(typed))?;
    let mut found = ledger.iter().map(|record| record.id).filter(|id| short_id::names(part, id));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => Err(no_such(typed, part)),
        (Some(_), Some(_)) => bail!("several compactions of {typed} fit {part}, and nothing was done"),
    }
}

fn no_such(alias: &Alias, compaction: &str) -> anyhow::Error {
    let list = next_command::of(&["sessions", "compactions", alias.as_str()]);
    anyhow!("{alias} has no compaction {compaction}; to list them: {list}")
}

/// The last compaction that was made and not undone. Only this one can be undone.
async fn last_standing(sessions: &Sessions<'_>, alias: &Alias, typed: &Alias) -> anyhow::Result<CompactionId> {
    let ledger = compactions::ledger(sessions, alias).await.map_err(explain::explained(typed))?;
    let standing = |record: &&Compaction| {
        record.undoes.is_none() && record.undone_by.is_none() && record.outcome != CompactionOutcome::Failed
    };
    let last = ledger.iter().find(standing).map(|record| record.id);
    last.ok_or_else(|| anyhow!("{typed} has no compaction that can be undone"))
}

fn print(session: &SessionName, compaction: CompactionId, undone: &Compacted) -> anyhow::Result<()> {
    if session.shared.json {
        return compact::print_json(undone);
    }
    let record = &undone.record;
    output::answer(&format!(
        "{}: {compaction} is undone; the model is shown messages {} to {} again, about {} → {} tokens",
        record.id, record.first.0, record.through.0, record.sizes.before, record.sizes.after
    ))?;
    Ok(())
}
