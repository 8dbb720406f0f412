//! Taking a refused turn back: as if it had never been asked for.

use herma_model::Resolution;
use herma_model::turn::FailureCode;
use herma_store::{Lease, StoreError};
use rusqlite::{Connection, params};

use crate::conversation;
use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::queue::forget_idempotency;
use crate::rows;
use crate::takeover::clear_journal;

/// Removes a running turn and what it wrote. A further attempt of an unanswered turn becomes that unanswered turn again.
pub(crate) fn retract(connection: &Connection, instance: &mut Instance, lease: Lease) -> Outcome<()> {
    instance.let_go(lease);
    let held = connection
        .prepare_cached(
            "UPDATE conversations SET running_turn = NULL, version = version + 1 WHERE pk = ?1 AND tenant_pk = ?2 AND running_turn = ?3 AND fence = ?4",
        )
        .and_then(|mut update| update.execute([lease.conversation, lease.tenant.0, lease.turn, lease.fence.0]))
        .translated()?;
    if held == 0 {
        return Err(StoreError::Fenced);
    }
    let turn = Retracted::read(connection, lease.turn)?;
    let removed = connection
        .execute(
            "DELETE FROM messages WHERE session_pk = ?1 AND seq >= ?2 AND turn_pk = ?3 AND attempt = ?4",
            params![turn.session, turn.first_seq, lease.turn, turn.attempt],
        )
        .translated()?;
    clear_journal(connection, lease.turn)?;
    connection
        .execute(
            "UPDATE conversations SET next_seq = next_seq - ?2, message_count = message_count - ?2, turn_count = turn_count - ?3,
             session_key = CASE WHEN ?4 THEN NULL ELSE session_key END WHERE pk = ?1",
            params![lease.conversation, removed as i64, turn.attempt == 1, turn.brought_key],
        )
        .translated()?;
    if turn.attempt > 1 {
        connection
            .execute(
                "DELETE FROM idempotency WHERE turn_pk = ?1 AND created_at > (SELECT created_at FROM turns WHERE pk = ?1)",
                [lease.turn],
            )
            .translated()?;
        return become_unanswered_again(connection, lease.turn);
    }
    forget_idempotency(connection, lease.turn)?;
    connection.execute("DELETE FROM turns WHERE pk = ?1", [lease.turn]).translated()?;
    match turn.resolution {
        Resolution::Created => conversation::unmake(connection, lease.conversation),
        Resolution::Head | Resolution::Moved | Resolution::Branched => Ok(()),
    }
}

struct Retracted {
    attempt: u32,
    resolution: Resolution,
    brought_key: bool,
    session: i64,
    first_seq: i64,
}

impl Retracted {
    fn read(connection: &Connection, turn: i64) -> Outcome<Self> {
        connection
            .query_row(
                "SELECT attempt, resolution, brought_key, session_pk, first_seq FROM turns WHERE pk = ?1",
                [turn],
                |row| {
                    Ok(Self {
                        attempt: row.get(0)?,
                        resolution: rows::word(row, 1, Resolution::parse)?,
                        brought_key: row.get(2)?,
                        session: row.get(3)?,
                        first_seq: row.get(4)?,
                    })
                },
            )
            .translated()
    }
}

/// How the attempt before ended is still in the turn's row, but for the state, which its failure tells.
fn become_unanswered_again(connection: &Connection, turn: i64) -> Outcome<()> {
    connection
        .execute(
            "UPDATE turns SET attempt = attempt - 1, stop_requested = NULL, brought_key = 0,
             state = CASE failure_code WHEN ?2 THEN 'interrupted' WHEN ?3 THEN 'interrupted' WHEN ?4 THEN 'cancelled' ELSE 'failed' END
             WHERE pk = ?1",
            params![
                turn,
                FailureCode::Interrupted.as_str(),
                FailureCode::Abandoned.as_str(),
                FailureCode::Cancelled.as_str()
            ],
        )
        .map(drop)
        .translated()
}
