//! `herma sessions compactions`: prints the ledger of a conversation.

use herma_gateway::{GatewayError, Sessions};
use herma_model::compaction::CompactionOutcome;
use herma_model::limits::MAX_PAGE;
use herma_model::{Alias, Compaction};
use herma_wire::resource::CompactionRow;

use crate::arguments::SessionName;
use crate::table::Table;
use crate::terminal::Stream;
use crate::{next_command, output, short_id, table};

/// Prints compactions and undos, newest first.
pub(super) async fn print(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    let ledger = ledger(sessions, alias).await?;
    if session.shared.json {
        let rows: Vec<CompactionRow<'_>> = ledger.iter().map(CompactionRow::from).collect();
        output::answer(&serde_json::to_string(&rows)?)?;
    } else if ledger.is_empty() {
        let compact = next_command::of(&["sessions", "compact", alias.as_str()]);
        output::note(&format!("{alias} was never compacted; to do it now: {compact}"));
    } else {
        output::answer(&as_table(&ledger))?;
    }
    Ok(())
}

/// Reads the whole ledger, page by page, newest first.
pub(super) async fn ledger(sessions: &Sessions<'_>, alias: &Alias) -> Result<Vec<Compaction>, GatewayError> {
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        let page = sessions.compactions(alias, before, MAX_PAGE).await?;
        rows.extend(page.rows);
        before = page.next;
        if before.is_none() {
            return Ok(rows);
        }
    }
}

fn as_table(ledger: &[Compaction]) -> String {
    let rows: Vec<_> = ledger.iter().map(row).collect();
    let heading = ["ID", "WHEN", "ACTION", "MODE", "TRIGGER", "OUTCOME", "MESSAGES", "TOKENS", "MODEL"];
    Table::new(heading)
        .cutting("MODEL")
        .sparing("MODEL")
        .sparing("MESSAGES")
        .sparing("TRIGGER")
        .sparing("MODE")
        .sparing("ACTION")
        .sparing("OUTCOME")
        .sparing("WHEN")
        .sparing("TOKENS")
        .layout(&rows, Stream::Stdout)
}

fn row(record: &Compaction) -> [String; 9] {
    let after = match record.outcome {
        CompactionOutcome::Failed => "-".to_owned(),
        CompactionOutcome::Applied | CompactionOutcome::Trimmed | CompactionOutcome::Undone => {
            record.sizes.after.to_string()
        }
    };
    [
        short_id::of(record.id),
        table::minute(record.created_at),
        record.action.as_str().to_owned(),
        record.mode.as_str().to_owned(),
        record.trigger.as_str().to_owned(),
        record.outcome.as_str().to_owned(),
        format!("{}-{}", record.first.0, record.through.0),
        format!("{} → {after}", record.sizes.before),
        record.model.as_deref().map_or_else(|| "-".to_owned(), output::printable),
    ]
}
