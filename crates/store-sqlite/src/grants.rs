//! Tools whose calls are made without a question. An answer to a question writes them.

use herma_model::{ConversationId, TenantId, Timestamp};
use herma_store::Grant;
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// Whether a tool is granted to a conversation or to its tenant.
pub(crate) fn is_granted(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
    server: &str,
    tool: &str,
) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM grants WHERE tenant_pk = ?1 AND server = ?2 AND tool = ?3 AND (conversation_pk IS NULL
             OR conversation_pk = (SELECT pk FROM conversations WHERE id = ?4 AND deleted = 0))",
        )
        .and_then(|mut select| select.exists(params![tenant.0, server, tool, conversation.uuid().as_bytes()]))
        .translated()
}

/// The grants of one tenant or of all, oldest first.
pub(crate) fn list(connection: &Connection, tenant: Option<TenantId>) -> StoreResult<Vec<Grant>> {
    connection
        .prepare_cached(
            "SELECT g.tenant_pk, n.name, c.id, g.server, g.tool, g.created_at FROM grants g
             JOIN tenants n ON n.pk = g.tenant_pk LEFT JOIN conversations c ON c.pk = g.conversation_pk
             WHERE ?1 IS NULL OR g.tenant_pk = ?1 ORDER BY g.created_at, g.rowid",
        )
        .and_then(|mut select| {
            let read = |row: &rusqlite::Row<'_>| {
                let conversation: Option<[u8; 16]> = row.get(2)?;
                Ok(Grant {
                    tenant: TenantId(row.get(0)?),
                    tenant_name: rows::text(row, 1)?,
                    conversation: conversation.map(|id| ConversationId::from_uuid(uuid::Uuid::from_bytes(id))),
                    server: rows::text(row, 3)?,
                    tool: rows::text(row, 4)?,
                    created_at: Timestamp(row.get(5)?),
                })
            };
            select.query_map([tenant.map(|tenant| tenant.0)], read)?.collect()
        })
        .translated()
}

/// Revokes all grants of a tool, or of a server if the tool is `*`. Returns how many there were.
pub(crate) fn revoke(connection: &Connection, tenant: TenantId, server: &str, tool: &str) -> StoreResult<u64> {
    connection
        .execute(
            "DELETE FROM grants WHERE tenant_pk = ?1 AND server = ?2 AND (?3 = '*' OR tool = ?3)",
            params![tenant.0, server, tool],
        )
        .map(|revoked| revoked as u64)
        .translated()
}

/// Deletes the grants of a conversation.
pub(crate) fn forget(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection.execute("DELETE FROM grants WHERE conversation_pk = ?1", [conversation]).map(drop).translated()
}
