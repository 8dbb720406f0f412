//! Taking a refused turn back: as if it had never been asked for.

use herma_store::{Lease, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::queue::forget_idempotency;

/// Removes a running turn and what it wrote. A further attempt of an unanswered turn becomes that unanswered turn again.
pub(crate) fn retract(connection: &Connection, instance: &mut Instance, lease: Lease) -> Outcome<()> {
    instance.live.remove(&lease.turn);
    let held = connection
        .prepare_cached(
            "UPDATE conversations SET running_turn = NULL, version = version + 1 WHERE pk = ?1 AND tenant_pk = ?2 AND running_turn = ?3 AND fence = ?4",
        )
        .and_then(|mut update| update.execute([lease.conversation, lease.tenant.0, lease.turn, lease.fence.0]))
        .translated()?;
    if held == 0 {
        return Err(StoreError::Fenced);
    }
    let (attempt, resolution, brought_key): (i64, String, bool) = connection
        .query_row("SELECT attempt, resolution, brought_key FROM turns WHERE pk = ?1", [lease.turn], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .translated()?;
    if attempt > 1 {
        return connection
            .execute("UPDATE turns SET state = 'failed', attempt = attempt - 1 WHERE pk = ?1", [lease.turn])
            .map(drop)
            .translated();
    }
    forget_idempotency(connection, lease.turn)?;
    let removed = connection.execute(
            "DELETE FROM messages WHERE turn_pk = ?1 AND (session_pk, seq) >= (SELECT session_pk, first_seq FROM turns WHERE pk = ?1)
             AND session_pk = (SELECT session_pk FROM turns WHERE pk = ?1)",
            [lease.turn],
        ).translated()?;
    connection.execute("DELETE FROM turn_journal WHERE turn_pk = ?1", [lease.turn]).translated()?;
    connection.execute("DELETE FROM turns WHERE pk = ?1", [lease.turn]).translated()?;
    let others: Option<i64> = connection
        .query_row("SELECT pk FROM turns WHERE conversation_pk = ?1 LIMIT 1", [lease.conversation], |row| row.get(0))
        .optional()
        .translated()?;
    if resolution == "created" && others.is_none() {
        return remove_conversation(connection, lease.conversation);
    }
    connection
        .execute(
            "UPDATE conversations SET next_seq = next_seq - ?2, message_count = message_count - ?2, turn_count = turn_count - 1,
             session_key = CASE WHEN ?3 THEN NULL ELSE session_key END WHERE pk = ?1",
            params![lease.conversation, removed as i64, brought_key],
        )
        .map(drop)
        .translated()
}

fn remove_conversation(connection: &Connection, conversation: i64) -> Outcome<()> {
    for statement in [
        "DELETE FROM aliases WHERE conversation_pk = ?1",
        "DELETE FROM sessions WHERE conversation_pk = ?1",
        "DELETE FROM conversations WHERE pk = ?1",
    ] {
        connection.execute(statement, [conversation]).translated()?;
    }
    Ok(())
}
