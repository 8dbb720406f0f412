//! Completes ids of which only the beginning was typed, and the short ids of lists.

use std::collections::HashSet;

use anyhow::anyhow;
use herma_gateway::{GatewayError, Sessions, now};
use herma_model::limits::MAX_PAGE;
use herma_model::{Alias, ConversationId};
use herma_store::{Archived, ConversationRow, ListFilter, ListView, Pin};

use super::{explain, list};
use crate::short_id;
use crate::terminal::Stream;

/// The most candidates that are printed.
const MAX_SHOWN: usize = 10;

/// The short id of a conversation.
pub(crate) fn short_id(id: ConversationId) -> String {
    short_id::of(id)
}

/// The typed name if it leads to a conversation, else the only id that begins with it or has it as its short id.
pub(crate) async fn complete(sessions: &Sessions<'_>, typed: &Alias) -> anyhow::Result<Alias> {
    find(sessions, typed).await?.ok_or_else(|| explain::unknown(typed))
}

/// The same. `None` if nothing is known by what was typed.
pub(crate) async fn find(sessions: &Sessions<'_>, typed: &Alias) -> anyhow::Result<Option<Alias>> {
    match sessions.find(typed, Pin::Head).await {
        Ok(_) => return Ok(Some(typed.clone())),
        Err(GatewayError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let found = candidates(sessions, typed).await?;
    if found.is_empty() { Ok(None) } else { choose(typed, &found).map(Some) }
}

/// The conversation that a short id or the beginning of an id of Herma's own form leads to. `None` if there is none, or
/// if this is neither: then a new conversation may be named so. Several are an error.
pub(crate) async fn find_own(sessions: &Sessions<'_>, typed: &Alias) -> anyhow::Result<Option<Alias>> {
    let is_short = short_id::is_one(typed.as_str());
    if !is_short && !["sess_", "conv_"].iter().any(|prefix| typed.as_str().starts_with(prefix)) {
        return Ok(None);
    }
    let mut found = candidates(sessions, typed).await?;
    if is_short {
        found.retain(|row| is_short_id_of(typed.as_str(), row));
    }
    if found.is_empty() { Ok(None) } else { choose(typed, &found).map(Some) }
}

/// Whether a text is the short id of the row's conversation or of its session.
fn is_short_id_of(typed: &str, row: &ConversationRow) -> bool {
    short_id(row.facts.id) == typed || short_id::of_session(&row.session.id).is_some_and(|short| short == typed)
}

/// Sessions whose own id or conversation id begins with `typed`, or has it as its short id.
async fn candidates(sessions: &Sessions<'_>, typed: &Alias) -> anyhow::Result<Vec<ConversationRow>> {
    let is_short = short_id::is_one(typed.as_str());
    let fits = |row: &ConversationRow| {
        row.session.id.as_str().starts_with(typed.as_str())
            || row.facts.id.to_string().starts_with(typed.as_str())
            || (is_short && is_short_id_of(typed.as_str(), row))
    };
    let mut found = Vec::new();
    let mut filter = ListFilter {
        view: ListView::Sessions,
        id_part: Some(typed.to_string()),
        archived: Archived::Any,
        limit: MAX_PAGE,
        ..ListFilter::default()
    };
    loop {
        let page = sessions.list(filter.clone()).await?;
        found.extend(page.rows.into_iter().filter(fits));
        filter.after = page.next;
        if filter.after.is_none() {
            return Ok(found);
        }
    }
}

fn choose(typed: &Alias, found: &[ConversationRow]) -> anyhow::Result<Alias> {
    let conversations: HashSet<_> = found.iter().map(|row| row.facts.id).collect();
    let name = match (found, conversations.len()) {
        ([], _) => return Err(explain::unknown(typed)),
        ([row], _) => row.session.id.to_string(),
        ([row, ..], 1) => row.facts.id.to_string(),
        _ => return Err(ambiguous(typed, found)),
    };
    Ok(Alias::parse(&name)?)
}

fn ambiguous(typed: &Alias, found: &[ConversationRow]) -> anyhow::Error {
    let mut known = HashSet::new();
    let found: Vec<_> = found.iter().filter(|row| known.insert(row.facts.id)).cloned().collect();
    let shown = list::as_table(&found[..found.len().min(MAX_SHOWN)], now(), ListView::Conversations, Stream::Stderr);
    let more = match found.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    anyhow!("several conversations fit {typed}, and nothing was done:\n{shown}{more}")
}
