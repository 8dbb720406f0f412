//! The table `messages`.

use herma_model::{NewMessage, Timestamp};
use rusqlite::Connection;

use super::{insert, table};
use crate::failure::StoreResult;
use crate::rows;

table! {
    /// A new message. A summary gets the key of its compaction when that is added.
    MessageColumns<'a> in "messages" {
        session_pk: i64,
        seq: i64,
        id: [u8; 16],
        turn_pk: i64,
        attempt: u32,
        role: &'a str,
        status: &'a str,
        payload: &'a str,
        extra: Option<&'a str>,
        digest: [u8; 16],
        calls: Option<String>,
        tokens: u32,
        created_at: i64,
    }
}

/// Writes one message at its place. Returns its key. A summary has turn 0 and attempt 0.
pub(crate) fn insert_message(
    connection: &Connection,
    session: i64,
    seq: i64,
    turn: i64,
    attempt: u32,
    message: &NewMessage,
    now: Timestamp,
) -> StoreResult<i64> {
    let said = &message.said;
    insert(
        connection,
        &MessageColumns {
            session_pk: session,
            seq,
            id: message.id.uuid().into_bytes(),
            turn_pk: turn,
            attempt,
            role: said.role.as_str(),
            status: said.status.as_str(),
            payload: said.payload.as_json(),
            extra: said.extra.as_deref(),
            digest: said.digest.0,
            calls: rows::calls_to(&said.calls),
            tokens: said.tokens,
            created_at: now.0,
        },
    )
}
