//! The second reading after an erasure: it looks for rows that should be gone.
//!
//! What a conversation has is noted before it is erased. The second reading happens after the commit, on another
//! connection. It uses ids that are never given again, because SQLite may give the key of a deleted row to a new one.

use herma_model::{SessionKey, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::erase::{InheritedPart, TURNS_OF_CONVERSATION};
use crate::failure::{StoreResult, Translate};

type Id = [u8; 16];

/// What conversations had before they were erased.
#[derive(Default)]
pub(crate) struct Trace {
    conversations: Vec<Noted>,
    /// Keys of turns, which are never given again.
    turns: Vec<i64>,
    /// Keys of facts, which are never given again either.
    memories: Vec<i64>,
}

struct Noted {
    key: i64,
    id: Id,
    messages: Vec<(i64, Id)>,
}

/// What the second reading has found.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leftovers {
    /// Rows that should be gone.
    pub(crate) left: u64,
    /// Messages that branches inherit.
    pub(crate) kept: u64,
}

/// Rows that an erased conversation must not have. `?1` is its key, `?2` the last inherited place and `?3` the last
/// inherited session; both are 0 if nothing is inherited.
const MUST_BE_GONE: &str = "SELECT
    (SELECT count(*) FROM aliases WHERE conversation_pk = ?1) +
    (SELECT count(*) FROM pins WHERE conversation_pk = ?1) +
    (SELECT count(*) FROM imports WHERE conversation_pk = ?1) +
    (SELECT count(*) FROM grants WHERE conversation_pk = ?1 AND conversation_pk IS NOT NULL) +
    (SELECT count(*) FROM events WHERE conversation_pk = ?1) +
    (SELECT count(*) FROM admissions WHERE conversation_pk = ?1) +
    (SELECT count(*) FROM readings WHERE conversation_pk = ?1) +
    (SELECT count(*) FROM memories WHERE conversation_pk = ?1 AND conversation_pk IS NOT NULL) +
    (SELECT count(*) FROM sessions WHERE conversation_pk = ?1 AND pk > ?3) +
    (SELECT count(*) FROM compactions k LEFT JOIN messages m ON m.pk = k.summary_pk
     WHERE k.conversation_pk = ?1 AND (m.seq IS NULL OR m.seq > ?2)) +
    (SELECT count(*) FROM conversations WHERE pk = ?1 AND (deleted = 0 OR coalesce(title, metadata, system, cwd,
     session_key, chosen_model, parent_tool_call) IS NOT NULL))";

/// Rows that an erased turn must not have. `?1` is its key, `?2` the last inherited place.
const OF_TURN: &str = "SELECT
    (SELECT count(*) FROM turns
     WHERE pk = ?1 AND (coalesce(first_seq, 9223372036854775807) > ?2 OR kept = 1 OR echo IS NOT NULL)) +
    (SELECT count(*) FROM turn_journal WHERE turn_pk = ?1) +
    (SELECT count(*) FROM waiting_messages WHERE turn_pk = ?1) +
    (SELECT count(*) FROM approvals WHERE turn_pk = ?1) +
    (SELECT count(*) FROM parked_turns WHERE turn_pk = ?1) +
    (SELECT count(*) FROM recalls WHERE turn_pk = ?1
     AND (block IS NOT NULL OR turn_pk NOT IN (SELECT pk FROM turns WHERE pk = ?1))) +
    (SELECT count(*) FROM idempotency WHERE turn_pk = ?1)";

impl Trace {
    /// Notes what a conversation has.
    pub(crate) fn note(&mut self, connection: &Connection, conversation: i64) -> StoreResult<()> {
        let id = connection
            .prepare_cached("SELECT id FROM conversations WHERE pk = ?1")
            .and_then(|mut select| select.query_row([conversation], |row| row.get(0)))
            .translated()?;
        let messages = connection
            .prepare_cached(
                "SELECT m.pk, m.id FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1",
            )
            .and_then(|mut select| select.query_map([conversation], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .translated()?;
        let turns: Vec<i64> = connection
            .prepare_cached(TURNS_OF_CONVERSATION)
            .and_then(|mut select| select.query_map([conversation], |row| row.get(0))?.collect())
            .translated()?;
        self.conversations.push(Noted { key: conversation, id, messages });
        self.turns.extend(turns);
        Ok(())
    }

    /// Notes the facts about a session key.
    pub(crate) fn note_memories(
        &mut self,
        connection: &Connection,
        tenant: TenantId,
        key: &SessionKey,
    ) -> StoreResult<()> {
        self.memories = connection
            .prepare_cached("SELECT pk FROM memories WHERE tenant_pk = ?1 AND session_key = ?2")
            .and_then(|mut select| select.query_map(params![tenant.0, key.as_str()], |row| row.get(0))?.collect())
            .translated()?;
        Ok(())
    }

    /// Reads the store again.
    pub(crate) fn find_leftovers(&self, connection: &Connection) -> StoreResult<Leftovers> {
        let mut found = Leftovers::default();
        for noted in &self.conversations {
            noted.add_leftovers(connection, &mut found)?;
        }
        for memory in &self.memories {
            found.left += count(connection, "SELECT count(*) FROM memories WHERE pk = ?1", params![memory])?;
        }
        for turn in &self.turns {
            found.left += count(connection, OF_TURN, params![turn, inherited_place(connection, *turn)?])?;
        }
        Ok(found)
    }
}

impl Noted {
    fn add_leftovers(&self, connection: &Connection, found: &mut Leftovers) -> StoreResult<()> {
        let now: Option<Id> = connection
            .prepare_cached("SELECT id FROM conversations WHERE pk = ?1")
            .and_then(|mut select| select.query_row([self.key], |row| row.get(0)).optional())
            .translated()?;
        // The key of another conversation by now: what it has is not a leftover.
        let is_reused = now.is_some_and(|id| id != self.id);
        let rest = match now {
            Some(_) if !is_reused => InheritedPart::of(connection, self.key)?.unwrap_or(InheritedPart::NOTHING),
            _ => InheritedPart::NOTHING,
        };
        if !is_reused {
            found.left += count(connection, MUST_BE_GONE, params![self.key, rest.through, rest.session])?;
        }
        for (key, id) in &self.messages {
            let place: Option<i64> = connection
                .prepare_cached("SELECT seq FROM messages WHERE pk = ?1 AND id = ?2")
                .and_then(|mut select| select.query_row(params![key, id], |row| row.get(0)).optional())
                .translated()?;
            match place {
                Some(place) if place <= rest.through => found.kept += 1,
                Some(_) => found.left += 1,
                None => {}
            }
        }
        Ok(())
    }
}

/// The last place that branches inherit from the conversation of a turn that still has a row.
fn inherited_place(connection: &Connection, turn: i64) -> StoreResult<i64> {
    let conversation: Option<i64> = connection
        .prepare_cached("SELECT conversation_pk FROM turns WHERE pk = ?1")
        .and_then(|mut select| select.query_row([turn], |row| row.get(0)).optional())
        .translated()?;
    let Some(conversation) = conversation else { return Ok(0) };
    Ok(InheritedPart::of(connection, conversation)?.map_or(0, |rest| rest.through))
}

fn count(connection: &Connection, select: &str, with: &[&dyn rusqlite::ToSql]) -> StoreResult<u64> {
    connection
        .prepare_cached(select)
        .and_then(|mut select| select.query_row(with, |row| row.get::<_, i64>(0)))
        .map(i64::unsigned_abs)
        .translated()
}
