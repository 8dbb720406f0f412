//! `herma sessions list`: one row per conversation, most recently changed first.

use herma_gateway::{Sessions, now};
use herma_model::limits::MAX_PAGE;
use herma_model::{SessionKind, Timestamp};
use herma_store::{Archived, ConversationRow, ListFilter, ListView};

use super::id_prefix::{self, short_id};
use super::local_store;
use crate::arguments::ListFlags;
use crate::table::Table;
use crate::terminal::{Colour, Stream, Style};
use crate::{excerpt, next_command, output, table};

/// The most characters of a title and of a name. A terminal may be narrower.
const TITLE: usize = 60;
const NAME: usize = 32;

/// Prints the requested rows.
pub(super) async fn print(sessions: &Sessions<'_>, flags: &ListFlags) -> anyhow::Result<()> {
    let most = if flags.all { usize::MAX } else { flags.limit };
    let mut filter = filter(sessions, flags).await?;
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
        output::answer(&as_table(&rows, now(), filter.view, Stream::Stdout))?;
    }
    if count == 0 {
        output::note(&nothing(flags));
    } else if filter.after.is_some() {
        output::note("there are more; --all lists every one");
    }
    Ok(())
}

/// Helpers are left out unless they are asked for: by `--all`, by their kind, or by what they came from.
async fn filter(sessions: &Sessions<'_>, flags: &ListFlags) -> anyhow::Result<ListFilter> {
    let is_split = flags.kind == Some(SessionKind::Continuation);
    let asks_for_helpers = flags.all
        || flags.parent.is_some()
        || flags.root.is_some()
        || matches!(flags.kind, Some(SessionKind::Auxiliary | SessionKind::Background));
    let completed = async |name: &Option<herma_model::Alias>| match name {
        Some(name) => id_prefix::complete(sessions, name).await.map(Some),
        None => Ok(None),
    };
    Ok(ListFilter {
        view: if flags.by_session { ListView::Sessions } else { ListView::Conversations },
        order: flags.order,
        kind: flags.kind.filter(|_| is_split),
        origin_kind: flags.kind.filter(|_| !is_split),
        user_facing: (!asks_for_helpers).then_some(true),
        cwd: flags.cwd.clone(),
        source: flags.source.clone(),
        session_key: flags.session_key.clone(),
        parent: completed(&flags.parent).await?,
        root: completed(&flags.root).await?,
        title: flags.title.clone(),
        since: flags.since,
        until: flags.until,
        archived: if flags.archived { Archived::Only } else { Archived::Hidden },
        answered: (!flags.unanswered && !flags.all).then_some(true),
        ..ListFilter::default()
    })
}

fn nothing(flags: &ListFlags) -> String {
    let filtered = flags.archived
        || flags.kind.is_some()
        || flags.source.is_some()
        || flags.session_key.is_some()
        || flags.cwd.is_some()
        || flags.parent.is_some()
        || flags.root.is_some()
        || flags.title.is_some()
        || flags.since.is_some()
        || flags.until.is_some();
    let begin = next_command::of(&["chat"]);
    match (filtered, flags.all || flags.unanswered) {
        (true, _) => "there is no such conversation; with fewer flags there may be others".to_owned(),
        (false, true) => format!("there is no conversation yet; to begin one: {begin}"),
        (false, false) => format!("no conversation has an answer yet; to begin one: {begin}; --all lists all others"),
    }
}

/// Rows as a table: what people called it first, then facts, and the id to type last.
pub(crate) fn as_table(rows: &[ConversationRow], now: Timestamp, view: ListView, stream: Stream) -> String {
    let rows: Vec<_> = rows.iter().map(|row| cells(row, now, view)).collect();
    Table::new(["NAME", "TITLE", "KIND", "AGE", "MESSAGES", "ID"])
        .cutting("NAME")
        .cutting("TITLE")
        .sparing("MESSAGES")
        .sparing("KIND")
        .styling("NAME", Style::BOLD)
        .styling("ID", Style::colour(Colour::Yellow))
        .layout(&rows, stream)
}

fn cells(row: &ConversationRow, now: Timestamp, view: ListView) -> [String; 6] {
    [
        row.facts.name().map_or_else(|| "-".to_owned(), |name| excerpt::line(name, NAME)),
        row.title.as_deref().map_or_else(|| "-".to_owned(), |title| excerpt::line(title, TITLE)),
        row.facts.origin_kind.as_str().to_owned(),
        table::age(row.updated_at, now),
        row.message_count.to_string(),
        match view {
            ListView::Conversations => short_id(row.facts.id),
            ListView::Sessions => row.session.id.to_string(),
        },
    ]
}
