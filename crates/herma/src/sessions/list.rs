//! `herma sessions list`: one row per conversation, most recently changed first.

use herma_gateway::{Sessions, now};
use herma_model::Timestamp;
use herma_model::limits::MAX_PAGE;
use herma_store::{Archived, ConversationRow, ListFilter};

use super::id_prefix::short_id;
use super::local_store;
use crate::arguments::ListFlags;
use crate::{excerpt, output, table};

/// The most characters of a title.
const TITLE: usize = 40;

/// The most characters of a name.
const NAME: usize = 32;

/// Prints the requested rows.
pub(super) async fn print(sessions: &Sessions<'_>, flags: &ListFlags) -> anyhow::Result<()> {
    let most = if flags.all { usize::MAX } else { flags.limit };
    let archived = if flags.archived { Archived::Only } else { Archived::Hidden };
    let answered = (!flags.unanswered).then_some(true);
    let mut filter = ListFilter { kind: flags.kind, archived, answered, ..ListFilter::default() };
    let (mut rows, mut count) = (Vec::new(), 0);
    loop {
        filter.limit = MAX_PAGE.min(most - count);
        let page = sessions.list(filter.clone()).await?;
        count += page.rows.len();
        if flags.shared.json {
            page.rows.iter().try_for_each(local_store::print_row)?;
        } else {
            rows.extend(page.rows);
        }
        filter.after = page.next;
        if filter.after.is_none() || count >= most {
            break;
        }
    }
    if !flags.shared.json && !rows.is_empty() {
        output::answer(&as_table(&rows, now()))?;
    }
    if count == 0 {
        output::note(nothing(flags));
    } else if filter.after.is_some() {
        output::note("there are more; --all lists every one");
    }
    Ok(())
}

fn nothing(flags: &ListFlags) -> &'static str {
    if flags.unanswered {
        "there is no conversation yet; begin one with `herma chat`"
    } else if flags.archived || flags.kind.is_some() {
        "there is no such conversation; leave out --kind and --archived to see others"
    } else {
        "no conversation has an answer yet; begin one with `herma chat`, or list others with --unanswered"
    }
}

pub(crate) fn as_table(rows: &[ConversationRow], now: Timestamp) -> String {
    let rows: Vec<_> = rows.iter().map(|row| cells(row, now)).collect();
    table::layout(["ID", "NAME", "KIND", "TITLE", "AGE", "MESSAGES", "TOKENS"], &rows)
}

fn cells(row: &ConversationRow, now: Timestamp) -> [String; 7] {
    [
        short_id(row.facts.id),
        row.facts.name().map_or_else(|| "-".to_owned(), |name| excerpt::line(name, NAME)),
        row.session.kind.as_str().to_owned(),
        row.title.as_deref().map_or_else(|| "-".to_owned(), |title| excerpt::line(title, TITLE)),
        table::age(row.updated_at, now),
        row.message_count.to_string(),
        row.usage.total().to_string(),
    ]
}
