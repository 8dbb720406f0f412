//! `herma sessions list`: one row per conversation, most recently changed first.

use herma_gateway::{Sessions, now};
use herma_model::limits::MAX_PAGE;
use herma_model::{SessionKind, Timestamp};
use herma_store::{Archived, ConversationRow, ListFilter, ListView};

use super::id_prefix;
use super::local_store;
use crate::arguments::ListFlags;
use crate::table::Table;
use crate::terminal::{Colour, Stream, Style};
use crate::{excerpt, next_command, output, short_id, table};

/// The most characters of a title and of a name. A terminal may be narrower.
const TITLE: usize = 60;
const NAME: usize = 32;
/// The most rows, if no flag says how many.
const USUAL: usize = 20;

/// Prints the requested rows.
pub(super) async fn print(sessions: &Sessions<'_>, flags: &ListFlags) -> anyhow::Result<()> {
    let most = flags.limit.unwrap_or(if flags.all { usize::MAX } else { USUAL });
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
        output::note(&format!("there are more; --limit {} shows more rows, --all everything", most.saturating_mul(5)));
    }
    Ok(())
}

/// Helpers are left out unless they are asked for: by `--all`, by their kind, by what they came from, or because only
/// archived conversations are wanted.
async fn filter(sessions: &Sessions<'_>, flags: &ListFlags) -> anyhow::Result<ListFilter> {
    let is_split = flags.kind == Some(SessionKind::Continuation);
    let asks_for_helpers = flags.all
        || flags.archived
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
        archived: match (flags.archived, flags.all) {
            (true, _) => Archived::Only,
            (false, true) => Archived::Any,
            (false, false) => Archived::Hidden,
        },
        answered: match (flags.unanswered, flags.all || flags.archived) {
            (true, _) => Some(false),
            (false, true) => None,
            (false, false) => Some(true),
        },
        ..ListFilter::default()
    })
}

fn nothing(flags: &ListFlags) -> String {
    let filtered = flags.archived
        || flags.unanswered
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
    match (filtered, flags.all) {
        (true, _) => "there is no such conversation; with fewer flags there may be others".to_owned(),
        (false, true) => nothing_yet(),
        (false, false) => format!("no conversation has an answer yet; to begin one: {begin}; --all lists all others"),
    }
}

/// What to do where there is no conversation at all.
fn nothing_yet() -> String {
    format!("there is no conversation yet; to begin one: {}", next_command::of(&["chat"]))
}

/// Rows as a table: what people called it first, then facts, and the id to type last.
pub(crate) fn as_table(rows: &[ConversationRow], now: Timestamp, view: ListView, stream: Stream) -> String {
    let rows: Vec<_> = rows.iter().map(|row| cells(row, now, view)).collect();
    let table = Table::new(["NAME", "TITLE", "KIND", "AGE", "MESSAGES", "ID"]).cutting("NAME").cutting("TITLE");
    // The id of a session may be a name of any length that a client chose.
    let table = if view == ListView::Sessions { table.cutting("ID") } else { table };
    table
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
            ListView::Conversations => short_id::of(row.facts.id),
            ListView::Sessions => {
                short_id::of_session(&row.session.id).unwrap_or_else(|| output::printable(row.session.id.as_str()))
            }
        },
    ]
}
