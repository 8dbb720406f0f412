//! Finds one message. Its id contains its turn, and the turn knows where its messages are, so nothing is scanned.

use herma_model::{Message, MessageId, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::lineage::{END, Lineage, Segment};
use crate::rows::{self, MESSAGE};

/// Where a message is stored.
#[derive(Clone, Copy)]
pub(crate) struct MessagePlace {
    /// The key of its row.
    pub(crate) key: i64,
    /// The conversation that stores it. For a branch this may be one that it comes from.
    pub(crate) conversation: i64,
}

impl MessagePlace {
    /// Reads the message.
    pub(crate) fn read(self, connection: &Connection) -> StoreResult<Message> {
        connection
            .prepare_cached(&format!(
                "SELECT {MESSAGE} FROM messages m JOIN sessions s ON s.pk = m.session_pk
                 JOIN turns t ON t.pk = m.turn_pk WHERE m.pk = ?1"
            ))
            .and_then(|mut select| select.query_row([self.key], rows::message))
            .translated()
    }
}

/// The message of a transcript with this id. Summaries are not found.
pub(crate) fn find(
    connection: &Connection,
    tenant: TenantId,
    lineage: &Lineage,
    id: MessageId,
) -> StoreResult<Option<MessagePlace>> {
    let ranges = TurnRange::of(connection, tenant, id)?;
    if ranges.is_empty() {
        return scan(connection, lineage, id);
    }
    for range in ranges {
        let segment = lineage.segments().iter().find(|segment| segment.conversation == range.conversation);
        let place = segment.map_or(Ok(None), |segment| range.find(connection, segment, id))?;
        if place.is_some() {
            return Ok(place);
        }
    }
    Ok(None)
}

/// Where messages of a turn are stored.
struct TurnRange {
    conversation: i64,
    session: i64,
    first: i64,
    last: i64,
}

impl TurnRange {
    /// The ranges of the turn whose id is in the message's id: one, and one more for each time it was run again at the
    /// end. Empty if the id was not made from a turn's.
    fn of(connection: &Connection, tenant: TenantId, id: MessageId) -> StoreResult<Vec<Self>> {
        connection
            .prepare_cached(
                "SELECT conversation_pk, session_pk, coalesce(first_seq, ?3),
                 iif(state = 'running', ?3, coalesce(last_seq, ?3)) FROM turns
                 WHERE (id = ?1 OR attempt_of = ?1) AND tenant_pk = ?2",
            )
            .and_then(|mut select| {
                select
                    .query_map(params![id.turn().uuid().as_bytes(), tenant.0, END], |row| {
                        Ok(Self {
                            conversation: row.get(0)?,
                            session: row.get(1)?,
                            first: row.get(2)?,
                            last: row.get(3)?,
                        })
                    })?
                    .collect()
            })
            .translated()
    }

    /// Searches from the turn's last session, which nearly always has all its messages.
    fn find(&self, connection: &Connection, segment: &Segment, id: MessageId) -> StoreResult<Option<MessagePlace>> {
        connection
            .prepare_cached(
                "SELECT m.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1
                 AND s.pk <= ?2
                 AND m.seq BETWEEN ?3 AND ?4 AND m.id = ?5 AND m.compaction_pk IS NULL ORDER BY s.pk DESC LIMIT 1",
            )
            .and_then(|mut select| {
                let (session, last) = (self.session.min(segment.session), self.last.min(segment.through));
                let id = id.uuid();
                let bounds = params![self.conversation, session, self.first, last, id.as_bytes()];
                select.query_row(bounds, |row| row.get(0)).optional()
            })
            .map(|key| key.map(|key| MessagePlace { key, conversation: self.conversation }))
            .translated()
    }
}

/// Finds a message that was stored before ids contained their turn.
fn scan(connection: &Connection, lineage: &Lineage, id: MessageId) -> StoreResult<Option<MessagePlace>> {
    let mut select = connection
        .prepare_cached(
            "SELECT m.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = ?1 AND m.seq <= ?2 AND m.id = ?3 AND m.compaction_pk IS NULL",
        )
        .translated()?;
    let id = id.uuid();
    for segment in lineage.segments() {
        let key = params![segment.conversation, segment.through, id.as_bytes()];
        if let Some(key) = select.query_row(key, |row| row.get(0)).optional().translated()? {
            return Ok(Some(MessagePlace { key, conversation: segment.conversation }));
        }
    }
    Ok(None)
}
