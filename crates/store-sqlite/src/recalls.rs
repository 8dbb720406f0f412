//! What memory did for turns: the rows of `recalls`.
//!
//! A block quotes conversations and facts. If one of them is deleted, the whole block goes, because only the last
//! turn's block is ever shown.

use herma_model::{ConversationId, MemoryId, Recall, RecallStatus, SessionKey, TenantId, TurnId};
use herma_store::Lease;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// How `sources` names a fact. A conversation is named by its key.
pub(crate) const fn fact(key: i64) -> i64 {
    -key
}

/// Writes what memory did for a turn. An earlier attempt's row is replaced.
pub(crate) fn write(connection: &Connection, lease: Lease, recall: &Recall) -> StoreResult<()> {
    let sources = recall.block.as_ref().map(|_| sources(connection, lease, recall)).transpose()?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO recalls (turn_pk, conversation_pk, status, recorded, block, sources)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                lease.turn,
                lease.conversation,
                recall.status.as_str(),
                recall.recorded,
                recall.block,
                sources
            ])
        })
        .map(drop)
        .translated()
}

/// The keys of what a block quotes, as a JSON list.
fn sources(connection: &Connection, lease: Lease, recall: &Recall) -> StoreResult<String> {
    let key_of = |sql: &str, id: Uuid| {
        connection
            .prepare_cached(sql)
            .and_then(|mut select| {
                select.query_row(params![id.as_bytes(), lease.tenant.0], |row| row.get::<_, i64>(0)).optional()
            })
            .translated()
    };
    let mut keys = Vec::new();
    for conversation in &recall.conversations {
        let sql = "SELECT pk FROM conversations WHERE id = ?1 AND tenant_pk = ?2";
        keys.extend(key_of(sql, conversation.uuid())?);
    }
    for memory in &recall.memories {
        keys.extend(key_of("SELECT pk FROM memories WHERE id = ?1 AND tenant_pk = ?2", memory.uuid())?.map(fact));
    }
    Ok(serde_json::to_string(&keys).unwrap_or_default())
}

/// What memory did for a turn. `None` if no session key was in force.
pub(crate) fn of_turn(connection: &Connection, turn: TurnId) -> StoreResult<Option<Recall>> {
    let found = connection
        .prepare_cached(
            "SELECT r.status, r.recorded, r.block, r.sources FROM turns t CROSS JOIN recalls r ON r.turn_pk = t.pk
             WHERE t.id = ?1",
        )
        .and_then(|mut select| {
            select
                .query_row([turn.uuid().as_bytes()], |row| {
                    let status = rows::word(row, 0, RecallStatus::parse)?;
                    let recall = Recall::without_block(status, row.get(1)?);
                    Ok((Recall { block: rows::optional_text(row, 2)?, ..recall }, row.get::<_, Option<String>>(3)?))
                })
                .optional()
        })
        .translated()?;
    let Some((recall, sources)) = found else { return Ok(None) };
    let Some(sources) = sources else { return Ok(Some(recall)) };
    let ids = |sql: &str| -> StoreResult<Vec<Uuid>> {
        connection
            .prepare_cached(sql)
            .and_then(|mut select| select.query_map([&sources], |row| rows::uuid(row, 0))?.collect())
            .translated()
    };
    let conversations = ids("SELECT c.id FROM json_each(?1) j CROSS JOIN conversations c ON c.pk = j.value")?;
    let memories = ids("SELECT m.id FROM json_each(?1) j CROSS JOIN memories m ON m.pk = -j.value")?;
    Ok(Some(Recall {
        conversations: conversations.into_iter().map(ConversationId::from_uuid).collect(),
        memories: memories.into_iter().map(MemoryId::from_uuid).collect(),
        ..recall
    }))
}

/// Deletes the blocks of other turns that quote a conversation.
pub(crate) fn forget_conversation(connection: &Connection, conversation: i64) -> StoreResult<()> {
    let found = connection
        .prepare_cached("SELECT tenant_pk, session_key FROM conversations WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([conversation], |row| Ok((TenantId(row.get(0)?), rows::session_key(row, 1)?))).optional()
        })
        .translated()?;
    match found {
        Some((tenant, Some(session_key))) => drop_quotes(connection, tenant, &session_key, conversation),
        Some((_, None)) | None => Ok(()),
    }
}

/// Deletes the blocks of a key's turns that quote a source.
pub(crate) fn drop_quotes(
    connection: &Connection,
    tenant: TenantId,
    session_key: &SessionKey,
    source: i64,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE recalls SET block = NULL, sources = NULL WHERE turn_pk IN (
             SELECT r.turn_pk FROM conversations c INDEXED BY conversations_by_key
             CROSS JOIN recalls r INDEXED BY recalls_with_block ON r.conversation_pk = c.pk AND r.block IS NOT NULL
             WHERE c.tenant_pk = ?1 AND c.session_key = ?2
             AND EXISTS (SELECT 1 FROM json_each(r.sources) WHERE value = ?3))",
        )
        .and_then(|mut update| update.execute(params![tenant.0, session_key.as_str(), source]))
        .map(drop)
        .translated()
}
