//! The input of turns that wait and are visible while queued. When such a turn begins, the caller sends the input
//! again, so it is deleted here.

use std::sync::Arc;

use herma_model::{Message, NewMessage};
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// Stores the input of a waiting turn.
pub(crate) fn store(connection: &Connection, turn: i64, messages: &[NewMessage]) -> StoreResult<()> {
    let mut insert = connection
        .prepare_cached(
            "INSERT INTO waiting_messages (turn_pk, place, id, role, status, payload, extra, digest, calls, tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )
        .translated()?;
    for (place, NewMessage { id, said }) in (1_i64..).zip(messages) {
        insert
            .execute(params![
                turn,
                place,
                id.uuid().as_bytes(),
                said.role.as_str(),
                said.status.as_str(),
                said.payload.as_json(),
                said.extra.as_deref(),
                &said.digest.0,
                rows::calls_to(&said.calls),
                said.tokens
            ])
            .translated()?;
    }
    Ok(())
}

/// Deletes the stored input of a turn.
pub(crate) fn delete(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM waiting_messages WHERE turn_pk = ?1")
        .and_then(|mut delete| delete.execute([turn]))
        .map(drop)
        .translated()
}

/// The input of a turn that has not begun, as if it were in the session where it waits.
pub(crate) fn messages(connection: &Connection, turn: i64) -> StoreResult<Vec<Arc<Message>>> {
    let mut select = connection
        .prepare_cached(
            "SELECT m.id, m.place, s.id, t.id, t.attempt, t.created_at, m.role, m.status, m.payload, m.extra, m.digest,
             m.calls, m.tokens
             FROM waiting_messages m JOIN turns t ON t.pk = m.turn_pk JOIN sessions s ON s.pk = t.session_pk
             WHERE m.turn_pk = ?1 ORDER BY m.place",
        )
        .translated()?;
    select.query_map([turn], |row| rows::message(row).map(Arc::new)).and_then(Iterator::collect).translated()
}
