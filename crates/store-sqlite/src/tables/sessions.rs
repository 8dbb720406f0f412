//! The table `sessions`.

use rusqlite::{Connection, params};

use super::table;
use crate::failure::{StoreResult, Translate};

table! {
    /// A new session. Without a key it gets the next one.
    SessionColumns<'a> in "sessions" {
        pk: Option<i64>,
        tenant_pk: i64,
        conversation_pk: i64,
        id: &'a str,
        kind: &'a str,
        depth: u32,
        parent_pk: Option<i64>,
        parent_id: Option<&'a str>,
        parent_relation: Option<&'a str>,
        missing_parent: Option<[u8; 16]>,
        creator_kind: &'a str,
        reason: Option<&'a str>,
        base_session_pk: Option<i64>,
        base_seq: Option<i64>,
        base_compaction_pk: Option<i64>,
        created_at: i64,
        ended_at: Option<i64>,
        end_reason: Option<&'a str>,
    }
}

/// The key of the next session.
pub(crate) fn next_session(connection: &Connection) -> StoreResult<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(pk), 0) + 1 FROM sessions")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()
}

/// Sets or clears the base of a session.
pub(crate) fn set_base(connection: &Connection, session: i64, compaction: Option<i64>) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE sessions SET base_compaction_pk = ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute(params![session, compaction]))
        .map(drop)
        .translated()
}
