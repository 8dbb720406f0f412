//! The full view: all that was said, and where it was compacted.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{Alias, Message, MessageId, Seq};
use herma_store::{Entry, MessagePage, MessageRange, Pin, Scope};
use rusqlite::Connection;

use crate::failure::{Outcome, Translate};
use crate::lineage::{END, Lineage, Segment};
use crate::rows::{self, ENTRY, MESSAGE_WIDTH};
use crate::{said, snapshot};

/// A page of a conversation's full view.
pub(crate) fn page(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    range: MessageRange,
) -> Outcome<Option<MessagePage>> {
    let Some((state, named)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else {
        return Ok(None);
    };
    let after = range.after.map_or(0, |seq| seq.0);
    let (from, lineage) = match range.pin {
        Pin::Head => (0, Lineage::after(connection, &state, after)?),
        Pin::Exact => {
            let session = named.unwrap_or(state.head);
            (session, Lineage::of(connection, &state, session, END, END)?)
        }
    };
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {ENTRY}, m.turn_pk FROM sessions s JOIN messages m ON m.session_pk = s.pk
             LEFT JOIN turns t ON t.pk = m.turn_pk LEFT JOIN compactions k ON k.pk = m.compaction_pk
             WHERE s.conversation_pk = ?1 AND s.pk BETWEEN ?2 AND ?3 AND m.seq > ?4 AND m.seq <= ?5 ORDER BY s.pk, m.seq LIMIT ?6"
        ))
        .translated()?;
    let mut read: Vec<(Entry, i64)> = Vec::new();
    for &Segment { conversation, session, through } in lineage.segments() {
        let room = range.limit as i64 + 1 - read.len() as i64;
        let mut entries = select.query([conversation, from, session, after, through, room]).translated()?;
        while let Some(row) = entries.next().translated()? {
            read.push((rows::entry(row).translated()?, row.get(MESSAGE_WIDTH + 1).translated()?));
        }
    }
    let has_more = read.len() > range.limit;
    read.truncate(range.limit);
    let first_turn = read.iter().map(|(_, turn)| *turn).filter(|turn| *turn > 0).min();
    let entries: Vec<_> = read.into_iter().map(|(entry, _)| entry).collect();
    let last = entries.last().map_or(after, |entry| entry.seq().0);
    Ok(Some(MessagePage {
        entries,
        pinned: pinned(connection, state.key, after, last)?,
        has_more,
        unanswered: snapshot::unanswered(connection, &lineage, first_turn)?,
    }))
}

fn pinned(connection: &Connection, conversation: i64, after: i64, last: i64) -> Outcome<HashSet<Seq>> {
    connection
        .prepare_cached("SELECT seq FROM pins WHERE conversation_pk = ?1 AND seq > ?2 AND seq <= ?3")
        .and_then(|mut select| select.query_map([conversation, after, last], |row| row.get(0).map(Seq))?.collect())
        .translated()
}

/// One message of a conversation's full view.
pub(crate) fn message(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    id: MessageId,
) -> Outcome<Option<Arc<Message>>> {
    let Some((state, _)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else { return Ok(None) };
    let lineage = Lineage::after(connection, &state, 0)?;
    let place = said::find(connection, scope.tenant, &lineage, id)?;
    place.map(|place| place.read(connection).map(Arc::new)).transpose()
}
