//! Finished conversations that a model reads for facts: the rows of `readings`.
//!
//! A row is added in the transaction of a turn. The facts are added in the transaction that notes what was read. So
//! nothing is lost or stored twice if a process dies, at most the model is asked again.

use herma_model::{ConversationId, Memory, MemorySource, Role, Seq, SessionKey, TenantId, Timestamp};
use herma_store::readings::{MOST_READ, QUIET, READING_TIME};
use herma_store::search::text_of;
use herma_store::{Lease, NewMemory, Reading, ReadingClaim, ReadingEnd};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::memories::{self, MEMORY};
use crate::{rewinds, rows};

/// How many of the newest facts a reader is told.
const KNOWN: i64 = 40;
/// A reading belongs to no turn.
const NO_TURN: i64 = 0;

/// Says whether conversations are to be read. If not, those that wait are not read unless they go on later.
pub(crate) fn want(connection: &Connection, wanted: bool) -> StoreResult<()> {
    connection.execute("UPDATE reading_state SET wanted = ?1 WHERE wanted <> ?1", [wanted]).translated()?;
    if !wanted {
        connection.execute("UPDATE readings SET waiting = 0 WHERE waiting = 1", []).translated()?;
    }
    Ok(())
}

/// Notes that a recorded turn is to be read.
pub(crate) fn note(connection: &Connection, lease: Lease, now: Timestamp) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO readings (conversation_pk, last_turn, not_before)
             SELECT ?1, ?2, ?3 FROM reading_state WHERE wanted = 1
             ON CONFLICT DO UPDATE SET last_turn = excluded.last_turn, waiting = 1, failures = 0,
             not_before = max(not_before, excluded.not_before)",
        )
        .and_then(|mut insert| insert.execute(params![lease.conversation, lease.turn, now.plus(QUIET).0]))
        .map(drop)
        .translated()
}

/// The next part that is to be read, if one is due. It belongs to the caller for [`READING_TIME`], or until its process
/// ends.
pub(crate) fn next(connection: &Connection, instance: &mut Instance, now: Timestamp) -> StoreResult<Option<Reading>> {
    let owner = instance.key(connection, now)?;
    while let Some(due) = match due(connection, now)? {
        Some(due) => Some(due),
        None => given_up(connection, instance, owner)?,
    } {
        let reading = due.reading(connection)?;
        // If nothing of it may be read, it waits no more.
        let is_read = reading.is_some();
        connection
            .prepare_cached(
                "UPDATE readings SET claim = ?2, not_before = ?3, owner = iif(?4, ?5, NULL), waiting = ?4
                 WHERE conversation_pk = ?1",
            )
            .and_then(|mut update| {
                update.execute(params![due.conversation, due.claim, now.plus(READING_TIME).0, is_read, owner])
            })
            .translated()?;
        if is_read {
            return Ok(reading);
        }
    }
    Ok(None)
}

/// Columns of [`Due::read`].
const DUE: &str = "conversation_pk, claim + 1, through, last_turn, failures";

fn due(connection: &Connection, now: Timestamp) -> StoreResult<Option<Due>> {
    connection
        .prepare_cached(&format!(
            "SELECT {DUE} FROM readings INDEXED BY readings_due
             WHERE waiting = 1 AND not_before <= ?1 ORDER BY not_before LIMIT 1"
        ))
        .and_then(|mut select| select.query_row([now.0], Due::read).optional())
        .translated()
}

/// What a process began to read that has ended since.
fn given_up(connection: &Connection, instance: &Instance, own: i64) -> StoreResult<Option<Due>> {
    let claimed: Vec<(Due, i64)> = connection
        .prepare_cached(&format!(
            "SELECT {DUE}, owner FROM readings INDEXED BY readings_claimed
             WHERE owner IS NOT NULL AND owner <> ?1 AND waiting = 1"
        ))
        .and_then(|mut select| select.query_map([own], |row| Ok((Due::read(row)?, row.get(5)?)))?.collect())
        .translated()?;
    for (due, owner) in claimed {
        if instance.is_dead(connection, owner, NO_TURN)? {
            return Ok(Some(due));
        }
    }
    Ok(None)
}

/// A row that is due.
struct Due {
    conversation: i64,
    claim: i64,
    through: i64,
    last_turn: i64,
    failures: u32,
}

impl Due {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            conversation: row.get(0)?,
            claim: row.get(1)?,
            through: row.get(2)?,
            last_turn: row.get(3)?,
            failures: row.get(4)?,
        })
    }

    /// What is to be read. `None` if there is nothing.
    fn reading(&self, connection: &Connection) -> StoreResult<Option<Reading>> {
        let found = connection
            .prepare_cached(
                "SELECT tenant_pk, session_key, id, rewinds FROM conversations
                 WHERE pk = ?1 AND deleted = 0 AND session_key IS NOT NULL",
            )
            .and_then(|mut select| {
                select
                    .query_row([self.conversation], |row| {
                        let id = ConversationId::from_uuid(rows::uuid(row, 2)?);
                        Ok((TenantId(row.get(0)?), rows::session_key(row, 1)?, id, rewinds::read(row, 3)?))
                    })
                    .optional()
            })
            .translated()?;
        let Some((tenant, Some(session_key), conversation, rewinds)) = found else { return Ok(None) };
        let mut select = connection
            .prepare_cached(
                "SELECT m.seq, m.role, m.payload FROM sessions s CROSS JOIN messages m ON m.session_pk = s.pk
                 CROSS JOIN recalls r ON r.turn_pk = m.turn_pk AND r.recorded = 1
                 WHERE s.conversation_pk = ?1 AND m.seq > ?2 AND m.compaction_pk IS NULL AND m.role <> 'tool'
                 AND m.status = 'complete' ORDER BY m.seq",
            )
            .translated()?;
        let mut found = select.query([self.conversation, self.through]).translated()?;
        let (mut said, mut length, mut through, mut last_turn) = (Vec::new(), 0, self.through, Some(self.last_turn));
        while let Some(row) = found.next().translated()? {
            if length >= MOST_READ {
                last_turn = None;
                break;
            }
            through = row.get(0).translated()?;
            let role = rows::word(row, 1, Role::parse).translated()?;
            let text = row.get_ref(2).and_then(|payload| Ok(text_of(payload.as_str()?))).translated()?;
            if rewinds.hide(Seq(through)) || text.trim().is_empty() {
                continue;
            }
            let text: String = text.chars().take(MOST_READ - length).collect();
            length += text.chars().count();
            said.push((role, text));
        }
        if !said.iter().any(|(role, _)| *role == Role::User) {
            return Ok(None);
        }
        let known = known(connection, tenant, &session_key)?;
        let claim = ReadingClaim { conversation: self.conversation, number: self.claim, through, last_turn };
        Ok(Some(Reading { claim, tenant, session_key, conversation, said, known, failures: self.failures }))
    }
}

fn known(connection: &Connection, tenant: TenantId, session_key: &SessionKey) -> StoreResult<Vec<Memory>> {
    connection
        .prepare_cached(&format!(
            "SELECT {MEMORY} FROM memories m WHERE m.tenant_pk = ?1 AND m.session_key = ?2 ORDER BY m.pk DESC LIMIT ?3"
        ))
        .and_then(|mut select| {
            let asked = params![tenant.0, session_key.as_str(), KNOWN];
            select.query_map(asked, |row| memories::read(row).map(|stored| stored.memory))?.collect()
        })
        .translated()
}

/// Ends a reading. `false`, and nothing has changed, if it belongs to another process now or the conversation is gone.
pub(crate) fn end(connection: &Connection, reading: &Reading, end: &ReadingEnd, now: Timestamp) -> StoreResult<bool> {
    let claim = reading.claim;
    let changed = match end {
        ReadingEnd::Later(time) => connection
            .prepare_cached(
                "UPDATE readings SET not_before = ?3, failures = failures + 1,
                 owner = NULL WHERE conversation_pk = ?1 AND claim = ?2",
            )
            .and_then(|mut update| update.execute(params![claim.conversation, claim.number, now.plus(*time).0]))
            .translated()?,
        // What was said meanwhile waits as long as usual. The rest of a long conversation is read at once.
        ReadingEnd::Read(_) => connection
            .prepare_cached(
                "UPDATE readings SET through = ?3, failures = 0, owner = NULL, waiting = last_turn IS NOT ?4,
                 not_before = iif(?4 IS NULL, 0, ?5) WHERE conversation_pk = ?1 AND claim = ?2",
            )
            .and_then(|mut update| {
                let quiet = now.plus(QUIET).0;
                update.execute(params![claim.conversation, claim.number, claim.through, claim.last_turn, quiet])
            })
            .translated()?,
    };
    let ReadingEnd::Read(facts) = end else { return Ok(changed == 1) };
    if changed == 1 {
        for (id, text) in facts {
            memories::add(
                connection,
                &NewMemory {
                    id: *id,
                    tenant: reading.tenant,
                    session_key: reading.session_key.clone(),
                    text: text.clone(),
                    source: MemorySource::Model,
                    conversation: Some(reading.conversation),
                    now,
                },
            )?;
        }
    }
    Ok(changed == 1)
}
