//! `herma sessions export`: conversations as Markdown for people, or as JSON Lines for programs and for import.
//!
//! - [`json_lines`], [`markdown`]: write one conversation, piece by piece as the store reads it.
//! - [`target`]: standard output, or a file that appears only when it is complete.
//!
//! Memory does not grow with the number of conversations: at most a page of rows and a few messages are held.

mod json_lines;
mod markdown;
mod target;

use std::collections::HashSet;

use anyhow::bail;
use herma_gateway::Sessions;
use herma_model::limits::MAX_PAGE;
use herma_model::{Alias, Principal};
use herma_store::{Archived, ConversationRow, Copying, ListFilter, ListOrder, Pin, Scope, Store};

use self::json_lines::JsonLines;
use self::target::Target;
use super::{explain, id_prefix};
use crate::arguments::{ExportFlags, ExportFormat};
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;

/// Writes the requested conversations. After an interrupt there is no file.
pub(super) async fn run(store: &dyn Store, operator: &Principal, flags: &ExportFlags) -> anyhow::Result<()> {
    let mut signals = Signals::catch()?;
    tokio::select! {
        done = export(store, operator, flags) => done,
        _ = signals.next() => bail!("interrupted; no file was written"),
    }
}

async fn export(store: &dyn Store, operator: &Principal, flags: &ExportFlags) -> anyhow::Result<()> {
    let sessions = Sessions::of(store, operator);
    let named = named(&sessions, &flags.ids).await?;
    let target = Target::open(flags.output.as_deref(), flags.force)?;
    let (scope, format) = (Scope::of(operator), Format::of(flags.format()));
    let mut exporter = Exporter { store, scope, format, target, count: 0 };
    exporter.begin()?;
    if flags.all {
        exporter.all(&sessions, flags).await?;
    } else {
        for row in &named {
            if !exporter.conversation(row).await? {
                bail!("{} was deleted meanwhile; nothing was written", row.session.id);
            }
        }
    }
    let count = exporter.count;
    exporter.end()?;
    if let Some(file) = &flags.output {
        let conversations = if count == 1 { "conversation" } else { "conversations" };
        output::note(&format!("{count} {conversations} written to {}", file.display()));
    } else if count == 0 {
        output::note("there is no such conversation");
    }
    Ok(())
}

/// The named conversations, each once. A branch comes after the conversation that it came from.
async fn named(sessions: &Sessions<'_>, ids: &[Alias]) -> anyhow::Result<Vec<ConversationRow>> {
    let (mut rows, mut seen) = (Vec::new(), HashSet::new());
    for id in ids {
        let alias = id_prefix::complete(sessions, id).await?;
        let row = sessions.find(&alias, Pin::Head).await.map_err(explain::explained(&alias))?;
        if seen.insert(row.facts.id) {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| row.created_at);
    Ok(rows)
}

/// The format of the output.
enum Format {
    Markdown,
    JsonLines(JsonLines),
}

impl Format {
    fn of(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Markdown => Self::Markdown,
            ExportFormat::Jsonl => Self::JsonLines(JsonLines::default()),
        }
    }
}

struct Exporter<'a> {
    store: &'a dyn Store,
    scope: Scope,
    format: Format,
    target: Target,
    count: u64,
}

impl Exporter<'_> {
    fn begin(&mut self) -> anyhow::Result<()> {
        match &self.format {
            Format::Markdown => Ok(()),
            Format::JsonLines(lines) => lines.begin(&mut self.target),
        }
    }

    /// Writes all conversations of a list, oldest first. So a branch comes after the conversation that it came from.
    async fn all(&mut self, sessions: &Sessions<'_>, flags: &ExportFlags) -> anyhow::Result<()> {
        let archived = if flags.archived { Archived::Only } else { Archived::Any };
        let order = ListOrder::CreatedAscending;
        let mut filter = ListFilter { kind: flags.kind, archived, order, limit: MAX_PAGE, ..ListFilter::default() };
        let mut progress = flags.output.is_some().then(|| Progress::new("conversations", None));
        loop {
            let page = sessions.list(filter.clone()).await?;
            for row in &page.rows {
                self.conversation(row).await?;
                progress.iter_mut().for_each(|progress| progress.advance(1));
            }
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        if let Some(progress) = progress {
            progress.end();
        }
        Ok(())
    }

    /// Writes one conversation. `false` if it was deleted meanwhile.
    async fn conversation(&mut self, row: &ConversationRow) -> anyhow::Result<bool> {
        let handle = Alias::parse(&row.facts.id.to_string())?;
        let Some(copying) = self.store.copy_out(&self.scope, &handle).await? else { return Ok(false) };
        let Copying { is_inherited, mut pieces } = copying;
        match &mut self.format {
            Format::Markdown => markdown::conversation(row, &mut pieces, &mut self.target, self.count > 0).await?,
            Format::JsonLines(lines) => {
                lines.conversation(&mut pieces, &mut self.target).await?;
                if is_inherited {
                    lines.remember(row.facts.id);
                }
            }
        }
        self.count += 1;
        Ok(true)
    }

    fn end(mut self) -> anyhow::Result<()> {
        if let Format::JsonLines(lines) = &self.format {
            lines.end(&mut self.target)?;
        }
        self.target.finish()
    }
}

/// The pieces of one conversation.
type Pieces = tokio::sync::mpsc::Receiver<Result<herma_model::copy::Piece, herma_store::StoreError>>;
