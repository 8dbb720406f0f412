//! What an erasure writes to the outbox: the provider has to forget too.

use herma_model::{ErasureId, SessionKey, TenantId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{WHOLE_TENANT, scope};
use crate::failure::{StoreResult, Translate};
use crate::memories::recalls;

/// Has a conversation forgotten, if the provider may know of it. Its turns that wait are not delivered any more. Called
/// before the conversation's rows are deleted. Without a receipt, the erasure of its whole key or tenant is written
/// instead.
pub(crate) fn conversation(
    connection: &Connection,
    conversation: i64,
    receipt: Option<ErasureId>,
    now: Timestamp,
) -> StoreResult<()> {
    let known: Option<(i64, Option<String>, [u8; 16])> = connection
        .prepare_cached(
            "SELECT c.tenant_pk, c.session_key, c.id FROM outbox_conversations o
             CROSS JOIN conversations c ON c.pk = o.conversation_pk WHERE o.conversation_pk = ?1",
        )
        .and_then(|mut select| {
            select.query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        })
        .translated()?;
    let Some((tenant, session_key, id)) = known else { return Ok(()) };
    for statement in
        ["DELETE FROM outbox WHERE conversation_pk = ?1", "DELETE FROM outbox_conversations WHERE conversation_pk = ?1"]
    {
        connection.execute(statement, [conversation]).translated()?;
    }
    let Some(session_key) = session_key else { return Ok(()) };
    if let Ok(key) = SessionKey::parse(&session_key) {
        recalls::drop_derived(connection, TenantId(tenant), &key)?;
    }
    let Some(receipt) = receipt else { return Ok(()) };
    let scope = scope(connection, TenantId(tenant), &session_key, now)?;
    connection
        .execute(
            "INSERT INTO outbox (scope_pk, task, conversation, erasure, created_at)
             VALUES (?1, 'erase_conversation', ?2, ?3, ?4)",
            params![scope, id, receipt.uuid().as_bytes(), now.0],
        )
        .map(drop)
        .translated()
}

/// Has everything about a session key forgotten; `false` if the provider knows nothing about it. An erasure in several
/// steps calls this in each of them.
pub(crate) fn key(
    connection: &Connection,
    tenant: TenantId,
    session_key: &SessionKey,
    receipt: ErasureId,
    now: Timestamp,
) -> StoreResult<bool> {
    let known: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM outbox_scopes WHERE tenant_pk = ?1 AND session_key = ?2)")
        .and_then(|mut select| select.query_row(params![tenant.0, session_key.as_str()], |row| row.get(0)))
        .translated()?;
    if known {
        once(connection, tenant, session_key.as_str(), "erase_key", receipt, now)?;
    }
    Ok(known)
}

/// Has everything of a tenant forgotten, if the provider may know something of it.
pub(crate) fn tenant(connection: &Connection, tenant: TenantId, receipt: ErasureId, now: Timestamp) -> StoreResult<()> {
    let known: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM outbox_scopes WHERE tenant_pk = ?1)")
        .and_then(|mut select| select.query_row([tenant.0], |row| row.get(0)))
        .translated()?;
    if known { once(connection, tenant, WHOLE_TENANT, "erase_tenant", receipt, now) } else { Ok(()) }
}

fn once(
    connection: &Connection,
    tenant: TenantId,
    session_key: &str,
    task: &str,
    receipt: ErasureId,
    now: Timestamp,
) -> StoreResult<()> {
    let scope = scope(connection, tenant, session_key, now)?;
    connection
        .execute(
            "INSERT INTO outbox (scope_pk, task, erasure, created_at) SELECT ?1, ?2, ?3, ?4
             WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE erasure = ?3 AND task = ?2)",
            params![scope, task, receipt.uuid().as_bytes(), now.0],
        )
        .map(drop)
        .translated()
}
