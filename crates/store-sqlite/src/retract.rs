//! Retracts a refused turn: the store is then as if it had never been requested.

use herma_model::turn::FailureCode;
use herma_model::{Resolution, Timestamp, TurnState};
use herma_store::{Lease, StoreError};
use rusqlite::{Connection, params};

use crate::approvals;
use crate::attempt::retract_attempt_at_the_end;
use crate::conversation;
use crate::failure::{StoreResult, Translate};
use crate::histories;
use crate::instance::Instance;
use crate::queue::forget_idempotency;
use crate::rows;
use crate::takeover::clear_journal;

/// Removes a running turn and what it wrote. A further attempt of an unanswered turn leaves that turn unanswered, as
/// before.
pub(crate) fn retract(
    connection: &Connection,
    instance: &mut Instance,
    lease: Lease,
    now: Timestamp,
) -> StoreResult<()> {
    instance.end(lease);
    let held = connection
        .prepare_cached(
            "UPDATE conversations SET running_turn = NULL, version = version + 1 WHERE pk = ?1 AND tenant_pk = ?2
             AND running_turn = ?3 AND fence = ?4",
        )
        .and_then(|mut update| update.execute([lease.conversation, lease.tenant.0, lease.turn, lease.fence.0]))
        .translated()?;
    if held == 0 {
        return Err(StoreError::Fenced);
    }
    let turn = RetractedTurn::read(connection, lease.turn)?;
    let removed = remove_messages(connection, lease, &turn)?;
    forget_appends(connection, lease.turn)?;
    clear_journal(connection, lease.turn)?;
    if lease.resumed {
        approvals::forget(connection, lease.turn)?;
    }
    connection
        .execute(
            "UPDATE conversations SET next_seq = max(?4, next_seq - ?2), message_count = message_count - ?2,
             turn_count = turn_count - ?3
             WHERE pk = ?1",
            params![lease.conversation, removed as i64, turn.attempt == 1, next_seq(connection, lease.conversation)?],
        )
        .translated()?;
    if turn.attempt > 1 {
        connection
            .execute(
                "DELETE FROM idempotency WHERE turn_pk = ?1 AND created_at > (SELECT created_at FROM turns WHERE pk =
                 ?1)",
                [lease.turn],
            )
            .translated()?;
        if !retract_attempt_at_the_end(connection, lease.turn, turn.attempt)? {
            become_unanswered_again(connection, lease.turn)?;
        }
    } else {
        forget_idempotency(connection, lease.turn)?;
        connection.execute("DELETE FROM turns WHERE pk = ?1", [lease.turn]).translated()?;
        if matches!(turn.resolution, Resolution::Created | Resolution::Branched) {
            conversation::retract_creation(connection, lease.conversation, now)?;
        }
    }
    if turn.brings_key {
        remove_session_key(connection, lease)?;
    }
    Ok(())
}

/// Resets the answer of a turn whose appended messages were all removed.
fn forget_appends(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .execute(
            "UPDATE turns SET answer_seq = NULL, record = NULL WHERE pk = ?1 AND answer_seq IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk AND m.seq >= turns.answer_seq
              WHERE s.conversation_pk = turns.conversation_pk AND m.turn_pk = turns.pk AND m.status <> 'partial')",
            [turn],
        )
        .map(drop)
        .translated()
}

/// Removes the session key from a conversation that still exists. A deleted one has kept it until its deletion event,
/// so that no other caller saw that event.
fn remove_session_key(connection: &Connection, lease: Lease) -> StoreResult<()> {
    connection
        .execute("UPDATE conversations SET session_key = NULL WHERE pk = ?1", [lease.conversation])
        .translated()?;
    histories::change_key(connection, lease.tenant, lease.conversation, None)
}

/// Removes all messages of the attempt, in whichever session they are, with their pins.
fn remove_messages(connection: &Connection, lease: Lease, turn: &RetractedTurn) -> StoreResult<usize> {
    let own = "session_pk IN (SELECT pk FROM sessions WHERE conversation_pk = ?1) AND seq >= ?2 AND turn_pk = ?3
         AND attempt = ?4";
    let delete = |statement: &str| {
        connection
            .execute(statement, params![lease.conversation, turn.first_seq, lease.turn, turn.attempt])
            .translated()
    };
    delete(&format!(
        "DELETE FROM pins WHERE conversation_pk = ?1 AND message_pk IN (SELECT pk FROM messages WHERE {own})"
    ))?;
    delete(&format!(
        "DELETE FROM carried WHERE compaction_pk IN (SELECT pk FROM compactions WHERE conversation_pk = ?1)
         AND message_pk IN (SELECT pk FROM messages WHERE {own})"
    ))?;
    delete(&format!("DELETE FROM messages WHERE {own}"))
}

/// The place after the last stored message. A summary that was written meanwhile keeps its place. An empty branch
/// begins after what it inherits. The caller keeps a higher number if messages before the turn were removed, because
/// their places stay empty.
fn next_seq(connection: &Connection, conversation: i64) -> StoreResult<i64> {
    connection
        .query_row(
            "SELECT 1 + coalesce((SELECT m.seq FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = ?1
             ORDER BY s.pk DESC, m.seq DESC LIMIT 1),
             (SELECT r.base_seq FROM conversations c JOIN sessions r ON r.pk = c.root_pk WHERE c.pk = ?1), 0)",
            [conversation],
            |row| row.get(0),
        )
        .translated()
}

struct RetractedTurn {
    attempt: u32,
    resolution: Resolution,
    brings_key: bool,
    first_seq: i64,
}

impl RetractedTurn {
    fn read(connection: &Connection, turn: i64) -> StoreResult<Self> {
        connection
            .query_row("SELECT attempt, resolution, brings_key, first_seq FROM turns WHERE pk = ?1", [turn], |row| {
                Ok(Self {
                    attempt: row.get(0)?,
                    resolution: rows::word(row, 1, Resolution::parse)?,
                    brings_key: row.get(2)?,
                    first_seq: row.get(3)?,
                })
            })
            .translated()
    }
}

/// Restores the state of the previous attempt. The row still has everything else of it, and its failure code tells the
/// state.
fn become_unanswered_again(connection: &Connection, turn: i64) -> StoreResult<()> {
    let failure = connection
        .query_row("SELECT failure_code FROM turns WHERE pk = ?1", [turn], |row| {
            rows::optional_word(row, 0, FailureCode::parse)
        })
        .translated()?;
    connection
        .execute(
            "UPDATE turns SET attempt = attempt - 1, stop_requested = NULL, stop_kind = NULL, brings_key = 0,
             state = ?2 WHERE pk = ?1",
            params![turn, failure.map_or(TurnState::Failed, FailureCode::ends_as).as_str()],
        )
        .map(drop)
        .translated()
}
