//! Versions of what is remembered about session keys. Triggers of the schema count most changes.
//!
//! All versions are numbers of one count, so a version is later than another one whatever their keys are.

use herma_model::{SessionKey, TenantId};
use herma_store::MemoryVersion;
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};

/// The version of what is remembered about a key.
pub(crate) fn of(connection: &Connection, tenant: TenantId, session_key: &SessionKey) -> StoreResult<MemoryVersion> {
    connection
        .prepare_cached(
            "SELECT coalesce((SELECT version FROM memory_versions WHERE tenant_pk = ?1 AND session_key = ?2),
             s.floor), (SELECT writes FROM search_state), s.changes FROM memory_state s",
        )
        .and_then(|mut select| {
            select.query_row(params![tenant.0, session_key.as_str()], |row| {
                Ok(MemoryVersion { version: row.get(0)?, indexed: row.get(1)?, changes: row.get(2)? })
            })
        })
        .translated()
}

/// Whether nothing has changed about the key of a conversation after a number of the count.
pub(crate) fn is_unchanged_since(connection: &Connection, conversation: i64, as_of: i64) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT coalesce((SELECT v.version FROM memory_versions v
             WHERE v.tenant_pk = c.tenant_pk AND v.session_key = c.session_key), (SELECT floor FROM memory_state)) <= ?2
             FROM conversations c WHERE c.pk = ?1",
        )
        .and_then(|mut select| select.query_row([conversation, as_of], |row| row.get(0)))
        .translated()
}

/// Notes that a conversation is erased from which an outside provider has concluded something. Raises no version of a
/// key.
pub(crate) fn note_erased(connection: &Connection) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE memory_state SET changes = changes + 1, erased = changes + 1")
        .and_then(|mut update| update.execute([]))
        .map(drop)
        .translated()
}

/// Whether such a conversation was erased after a number of the count.
pub(crate) fn is_erased_since(connection: &Connection, as_of: i64) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT erased > ?1 FROM memory_state")
        .and_then(|mut select| select.query_row([as_of], |row| row.get(0)))
        .translated()
}

/// Notes that something about the key of a conversation may be recalled no more, or again.
pub(crate) fn raise(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE memory_state SET changes = changes + 1")
        .and_then(|mut update| update.execute([]))
        .translated()?;
    connection
        .prepare_cached(
            "INSERT INTO memory_versions SELECT c.tenant_pk, c.session_key, s.changes
             FROM conversations c, memory_state s WHERE c.pk = ?1 AND c.session_key IS NOT NULL
             ON CONFLICT DO UPDATE SET version = excluded.version",
        )
        .and_then(|mut insert| insert.execute([conversation]))
        .map(drop)
        .translated()
}

/// Deletes the version of a key that has neither conversations nor facts, so that its name is not kept.
pub(crate) fn forget_unused(connection: &Connection, tenant: TenantId, session_key: &SessionKey) -> StoreResult<()> {
    connection
        .prepare_cached(
            "DELETE FROM memory_versions WHERE tenant_pk = ?1 AND session_key = ?2
             AND NOT EXISTS (SELECT 1 FROM conversations INDEXED BY conversations_by_key
                             WHERE tenant_pk = ?1 AND session_key = ?2 AND session_key IS NOT NULL)
             AND NOT EXISTS (SELECT 1 FROM memories WHERE tenant_pk = ?1 AND session_key = ?2)",
        )
        .and_then(|mut delete| delete.execute(params![tenant.0, session_key.as_str()]))
        .map(drop)
        .translated()
}
