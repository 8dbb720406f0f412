//! The full view: all messages, and where they were compacted.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{Alias, Message, MessageId, Seq, TurnState};
use herma_store::{Entry, MessagePage, MessageRange, Order, Pin, Scope};
use rusqlite::Connection;

use crate::failure::{StoreResult, Translate};
use crate::lineage::{END, Lineage, Segment};
use crate::rows::{self, ENTRY, MESSAGE_WIDTH};
use crate::{messages, rewinds, snapshot};

/// A page of a conversation's full view.
pub(crate) fn page(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    range: MessageRange,
) -> StoreResult<Option<MessagePage>> {
    let Some((state, named)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else {
        return Ok(None);
    };
    let Span { after, last, direction } = Span::of(range.order);
    let (from, lineage) = match range.pin {
        Pin::Head => (0, Lineage::after(connection, &state, after)?),
        Pin::Exact => {
            let session = named.unwrap_or(state.head);
            (session, Lineage::of(connection, &state, session, END, END)?)
        }
    };
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {ENTRY}, t.state, k.through_seq FROM sessions s JOIN messages m ON m.session_pk = s.pk
             LEFT JOIN turns t ON t.pk = m.turn_pk LEFT JOIN compactions k ON k.pk = m.compaction_pk
             WHERE s.conversation_pk = ?1 AND s.pk BETWEEN ?2 AND ?3 AND m.seq > ?4 AND m.seq <= ?5
             ORDER BY s.pk {direction}, m.seq {direction} LIMIT ?6"
        ))
        .translated()?;
    let mut segments = lineage.segments().to_vec();
    if matches!(range.order, Order::NewestFirst { .. }) {
        segments.reverse();
    }
    let rewinds = rewinds::of(connection, state.key)?;
    let mut read: Vec<(Entry, Option<TurnState>, bool)> = Vec::new();
    for Segment { conversation, session, through } in segments {
        let room = range.limit as i64 + 1 - read.len() as i64;
        let mut entries = select.query([conversation, from, session, after, through.min(last), room]).translated()?;
        while let Some(row) = entries.next().translated()? {
            let state = rows::optional_word(row, MESSAGE_WIDTH + 1, TurnState::parse).translated()?;
            let entry = rows::entry(row).translated()?;
            let is_rewound = match row.get::<_, Option<i64>>(MESSAGE_WIDTH + 2).translated()? {
                Some(stands_for) => rewinds.hide_summary(entry.seq(), Seq(stands_for)),
                None => rewinds.hide(entry.seq()),
            };
            read.push((entry, state, is_rewound));
        }
    }
    let has_more = read.len() > range.limit;
    read.truncate(range.limit);
    let turn_states = read.iter().filter_map(|(entry, state, _)| Some((entry.seq(), (*state)?))).collect();
    let rewound = read.iter().filter(|(_, _, is_rewound)| *is_rewound).map(|(entry, ..)| entry.seq()).collect();
    let entries: Vec<_> = read.into_iter().map(|(entry, ..)| entry).collect();
    let pinned = pinned(connection, state.key, &entries)?;
    Ok(Some(MessagePage { pinned, rewound, entries, has_more, turn_states }))
}

/// The range of places that an order covers, and its direction.
struct Span {
    after: i64,
    last: i64,
    direction: &'static str,
}

impl Span {
    fn of(order: Order) -> Self {
        match order {
            Order::OldestFirst { after } => Self { after: after.map_or(0, |seq| seq.0), last: END, direction: "ASC" },
            Order::NewestFirst { before } => {
                Self { after: 0, last: before.map_or(END, |seq| seq.0.saturating_sub(1)), direction: "DESC" }
            }
        }
    }
}

/// Which of a page's entries are pinned.
fn pinned(connection: &Connection, conversation: i64, entries: &[Entry]) -> StoreResult<HashSet<Seq>> {
    let (Some(one), Some(other)) = (entries.first(), entries.last()) else { return Ok(HashSet::new()) };
    let (first, last) = (one.seq().min(other.seq()), one.seq().max(other.seq()));
    connection
        .prepare_cached("SELECT seq FROM pins WHERE conversation_pk = ?1 AND seq BETWEEN ?2 AND ?3")
        .and_then(|mut select| select.query_map([conversation, first.0, last.0], |row| row.get(0).map(Seq))?.collect())
        .translated()
}

/// One message of a conversation's full view.
pub(crate) fn message(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    id: MessageId,
) -> StoreResult<Option<Arc<Message>>> {
    let Some((state, _)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else { return Ok(None) };
    let lineage = Lineage::after(connection, &state, 0)?;
    let place = messages::find(connection, scope.tenant, &lineage, id)?;
    place.map(|place| place.read(connection).map(Arc::new)).transpose()
}
