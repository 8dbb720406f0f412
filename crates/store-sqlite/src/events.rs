//! Writes events of conversations in the transaction that causes them, and reads them in order.
//!
//! Events are numbered per tenant. Whether a caller may see one is decided when it is read, by the conversation's
//! session key at that time: the conversation may have got one since. New events push out the oldest ones, many at
//! once, so nothing else has to clean up.

use std::sync::LazyLock;

use herma_model::{ConversationEvent, ConversationFacts, EventId, EventKind, KeyScope, SessionKind, Timestamp};
use herma_store::{Event, EventPage, EventsFrom, KEPT_EVENTS, Scope, StoreError};
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};
use crate::{listing, rows};

/// The number of the last event of a tenant `t`. Its column counts only if that event was deleted.
const COUNT: &str = "max(t.event_count, coalesce((SELECT max(e.number) FROM events e WHERE e.tenant_pk = t.pk), 0))";

/// How many old events are deleted together. To delete one with each new event costs more than the new event. Readers
/// do not see old events that are still there.
const DELETED_AT_ONCE: i64 = 256;

/// The number of the last event that is not kept any more, after this many.
fn forgotten_of(count: i64) -> i64 {
    (count - KEPT_EVENTS as i64).max(0)
}

/// Writes an event. `facts` are those after the change; for a deletion, the last ones.
pub(crate) fn record(
    connection: &Connection,
    conversation: i64,
    facts: &ConversationFacts,
    what: ConversationEvent<'_>,
    at: Timestamp,
) -> StoreResult<()> {
    let is_gone = matches!(what, ConversationEvent::Deleted);
    let data = serde_json::to_string(&what.of(facts));
    let data = data.map_err(|error| StoreError::Unavailable(format!("an event is no JSON: {error}")))?;
    static NEXT: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT t.pk, {COUNT} + 1 FROM conversations c JOIN tenants t ON t.pk = c.tenant_pk WHERE c.pk = ?1")
    });
    let (tenant, number): (i64, i64) = connection
        .prepare_cached(&NEXT)
        .and_then(|mut select| select.query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?))))
        .translated()?;
    connection
        .prepare_cached(
            "INSERT INTO events (tenant_pk, number, kind, at, conversation_pk, session_key, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut insert| {
            let key = facts.session_key.as_ref().filter(|_| is_gone).map(|key| key.as_str());
            let there = (!is_gone).then_some(conversation);
            insert.execute(params![tenant, number, what.kind().as_str(), at.0, there, key, data])
        })
        .translated()?;
    let forgotten = forgotten_of(number);
    if forgotten == 0 || number % DELETED_AT_ONCE != 0 {
        return Ok(());
    }
    connection
        .prepare_cached("DELETE FROM events WHERE tenant_pk = ?1 AND number <= ?2")
        .and_then(|mut delete| delete.execute([tenant, forgotten]))
        .map(drop)
        .translated()
}

/// Writes the events of a conversation that was imported or restored.
pub(crate) fn record_arrival(connection: &Connection, conversation: i64, at: Timestamp) -> StoreResult<()> {
    let row = listing::by_key(connection, &KeyScope::All, conversation)?;
    let events = [
        Some(ConversationEvent::Created { title: row.title.as_deref() }),
        (row.facts.origin_kind == SessionKind::Branch).then_some(ConversationEvent::Branched),
        row.archived.then_some(ConversationEvent::Archived { archived: true }),
        row.ended.map(|(_, end_reason)| ConversationEvent::Ended { end_reason }),
    ];
    for what in events.into_iter().flatten() {
        record(connection, conversation, &row.facts, what, at)?;
    }
    Ok(())
}

/// Deletes the events of a conversation, and returns how many there were.
pub(crate) fn forget(connection: &Connection, conversation: i64) -> StoreResult<u64> {
    connection
        .prepare_cached("DELETE FROM events WHERE conversation_pk = ?1")
        .and_then(|mut delete| delete.execute([conversation]))
        .map(|rows| rows as u64)
        .translated()
}

/// Deletes the compaction events of a conversation whose compactions were retracted.
pub(crate) fn forget_compactions(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection
        .execute(
            "DELETE FROM events WHERE conversation_pk = ?1 AND kind IN (?2, ?3)",
            params![conversation, EventKind::Compacted.as_str(), EventKind::HeadMoved.as_str()],
        )
        .map(drop)
        .translated()
}

/// Deletes the title events of a conversation.
pub(crate) fn forget_titles(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection
        .execute(
            "DELETE FROM events WHERE conversation_pk = ?1 AND kind = ?2",
            params![conversation, EventKind::Renamed.as_str()],
        )
        .map(drop)
        .translated()
}

/// How many events there have been in all. It never decreases.
pub(crate) fn total(connection: &Connection) -> StoreResult<i64> {
    static TOTAL: LazyLock<String> = LazyLock::new(|| format!("SELECT coalesce(sum({COUNT}), 0) FROM tenants t"));
    connection.prepare_cached(&TOTAL).and_then(|mut select| select.query_row([], |row| row.get(0))).translated()
}

/// Reads a page, and the number of all events at that time. The caller holds a read transaction, and makes sure that
/// what was read is on disk before a client sees it.
pub(crate) fn page(
    connection: &Connection,
    scope: &Scope,
    from: EventsFrom,
    limit: usize,
) -> StoreResult<(EventPage, i64)> {
    let feed = Feed::read(connection, scope)?;
    let (gap, after) = match from {
        EventsFrom::Now => (None, feed.count),
        EventsFrom::Oldest => (None, feed.forgotten),
        EventsFrom::After(id) => match i64::try_from(id.number) {
            Ok(number) if id.feed == feed.id && (feed.forgotten..=feed.count).contains(&number) => (None, number),
            _ => (Some(feed.place(feed.forgotten)), feed.forgotten),
        },
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection
        .prepare_cached(
            "SELECT e.number, e.kind, e.at, e.data, coalesce(c.session_key, e.session_key) FROM events e
             LEFT JOIN conversations c ON c.pk = e.conversation_pk
             WHERE e.tenant_pk = ?1 AND e.number > ?2 ORDER BY e.number LIMIT ?3",
        )
        .translated()?;
    let mut found = select.query(params![scope.tenant.0, after, limit]).translated()?;
    let (mut events, mut looked_at, mut last) = (Vec::new(), 0, after);
    while let Some(row) = found.next().translated()? {
        looked_at += 1;
        last = row.get(0).translated()?;
        if rows::sees(&scope.keys, row, 4).translated()? {
            events.push(event(row, feed.place(last)).translated()?);
        }
    }
    let has_more = looked_at == limit;
    let through = feed.place(if has_more { last } else { feed.count });
    Ok((EventPage { gap, events, through, has_more }, total(connection)?))
}

fn event(row: &rusqlite::Row<'_>, id: EventId) -> rusqlite::Result<Event> {
    Ok(Event { id, kind: rows::word(row, 1, EventKind::parse)?, at: Timestamp(row.get(2)?), data: rows::text(row, 3)? })
}

/// The events of a tenant.
struct Feed {
    /// When the tenant was made, which identifies it: two tenants rarely have the same value.
    id: u64,
    /// The number of the last event.
    count: i64,
    /// The number of the last event that was deleted.
    forgotten: i64,
}

impl Feed {
    fn read(connection: &Connection, scope: &Scope) -> StoreResult<Self> {
        static FEED: LazyLock<String> = LazyLock::new(|| {
            format!("SELECT t.created_at, {COUNT}, t.events_forgotten FROM tenants t WHERE t.pk = ?1")
        });
        connection
            .prepare_cached(&FEED)
            .and_then(|mut select| {
                select.query_row([scope.tenant.0], |row| {
                    let count = row.get(1)?;
                    let forgotten = forgotten_of(count).max(row.get(2)?);
                    Ok(Self { id: rows::count(row, 0)?, count, forgotten })
                })
            })
            .translated()
    }

    const fn place(&self, number: i64) -> EventId {
        EventId { feed: self.id, number: number.unsigned_abs() }
    }
}
