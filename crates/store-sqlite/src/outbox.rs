//! The outbox: what an outside memory provider has still to be told, in order for each session key.
//!
//! - This file: what is written with the commit of a turn, and what a reader can know.
//! - [`claims`]: which process delivers what, and how it ended. [`erasures`]: what is written with an erasure.

pub(crate) mod claims;
pub(crate) mod erasures;

use std::sync::Arc;

use herma_model::{ConversationId, SessionKey, TenantId, Timestamp};
use herma_store::{Backlog, ErasedNotDelivered, Lease};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// The scope that stands for a whole tenant. No session key is empty.
const WHOLE_TENANT: &str = "";

/// Hands over a completed turn, if what memory did for it says that it is recorded. The row of `recalls` is written.
pub(crate) fn record(connection: &Connection, lease: Lease, session_key: &str, now: Timestamp) -> StoreResult<()> {
    let recorded: Option<bool> = connection
        .prepare_cached("SELECT recorded FROM recalls WHERE turn_pk = ?1")
        .and_then(|mut select| select.query_row([lease.turn], |row| row.get(0)).optional())
        .translated()?;
    if recorded != Some(true) {
        return Ok(());
    }
    let scope = scope(connection, lease.tenant, session_key, now)?;
    connection
        .prepare_cached("INSERT OR IGNORE INTO outbox_conversations (conversation_pk) VALUES (?1)")
        .and_then(|mut insert| insert.execute([lease.conversation]))
        .translated()?;
    connection
        .prepare_cached(
            "INSERT INTO outbox (scope_pk, task, turn_pk, conversation_pk, created_at)
             VALUES (?1, 'record', ?2, ?3, ?4)",
        )
        .and_then(|mut insert| insert.execute([scope, lease.turn, lease.conversation, now.0]))
        .map(drop)
        .translated()
}

/// The scope of a session key, which now has something to deliver. A pause or a lease of it stays.
fn scope(connection: &Connection, tenant: TenantId, session_key: &str, now: Timestamp) -> StoreResult<i64> {
    connection
        .prepare_cached(
            "INSERT INTO outbox_scopes (tenant_pk, session_key, due_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (tenant_pk, session_key) DO UPDATE SET due_at = coalesce(due_at, excluded.due_at)
             RETURNING pk",
        )
        .and_then(|mut insert| insert.query_row(params![tenant.0, session_key, now.0], |row| row.get(0)))
        .translated()
}

/// The random name of the store.
pub(crate) fn store_name(connection: &Connection) -> StoreResult<Arc<str>> {
    connection.query_row("SELECT store_name FROM outbox_state", [], |row| rows::text(row, 0)).translated()
}

/// What waits.
pub(crate) fn backlog(connection: &Connection) -> StoreResult<Backlog> {
    let mut backlog = connection
        .query_row("SELECT dropped, delivered_at, failed_at, error FROM outbox_state", [], |row| {
            let failed: Option<i64> = row.get(2)?;
            let error: Option<String> = row.get(3)?;
            Ok(Backlog {
                dropped: row.get::<_, i64>(0)?.unsigned_abs(),
                delivered_at: row.get::<_, Option<i64>>(1)?.map(Timestamp),
                error: failed.map(Timestamp).zip(error),
                ..Backlog::default()
            })
        })
        .translated()?;
    (backlog.turns, backlog.erasures, backlog.oldest) = connection
        .query_row("SELECT total(task = 'record'), total(task <> 'record'), min(created_at) FROM outbox", [], |row| {
            let count = |column| row.get::<_, f64>(column).map(|number| number as u64);
            Ok((count(0)?, count(1)?, row.get::<_, Option<i64>>(2)?.map(Timestamp)))
        })
        .translated()?;
    Ok(backlog)
}

/// What the provider may still know about a session key, although it is erased here.
pub(crate) fn erased_not_delivered(
    connection: &Connection,
    tenant: TenantId,
    session_key: &SessionKey,
) -> StoreResult<ErasedNotDelivered> {
    let mut select = connection
        .prepare_cached(
            "SELECT o.conversation FROM outbox_scopes s CROSS JOIN outbox o ON o.scope_pk = s.pk
             WHERE s.tenant_pk = ?1 AND s.session_key = ?2 AND o.task <> 'record'",
        )
        .translated()?;
    let mut found = ErasedNotDelivered::default();
    let mut rows_found = select.query(params![tenant.0, session_key.as_str()]).translated()?;
    while let Some(row) = rows_found.next().translated()? {
        match row.get_ref(0).translated()?.as_blob_or_null() {
            Ok(Some(_)) => {
                found.conversations.push(ConversationId::from_uuid(rows::uuid(row, 0).translated()?));
            }
            Ok(None) | Err(_) => found.everything = true,
        }
    }
    Ok(found)
}
