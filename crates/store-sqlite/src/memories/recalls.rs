//! What memory did for turns: the rows of `recalls`.
//!
//! A block quotes conversations and facts. If one of them is deleted, the whole block goes, because only the last
//! turn's block is ever shown.

use std::fmt::{Display, Write as _};

use herma_model::{ConversationId, Recall, RecallStatus, SessionKey, TenantId, Timestamp, TurnId};
use herma_store::Lease;
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::memories::{readings, versions};
use crate::rows;

/// The source of what an outside provider concluded from conversations that it does not name.
pub(crate) const DERIVED: &str = "derived";

/// Writes what memory did for a turn. An earlier attempt's row is replaced.
pub(crate) fn write(connection: &Connection, lease: Lease, recall: &Recall, now: Timestamp) -> StoreResult<()> {
    let sources = recall.block.as_ref().map(|_| sources(recall));
    // A first attempt that is recorded has said nothing else before.
    let may_differ = !recall.recorded || lease.attempt > 1;
    if may_differ && was_recorded(connection, lease)?.is_some_and(|recorded| recorded != recall.recorded) {
        versions::raise(connection, lease.conversation)?;
    }
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
        .translated()?;
    if recall.recorded { readings::note(connection, lease, now) } else { Ok(()) }
}

/// Notes whether what a restored turn says may be recalled.
pub(crate) fn write_restored(connection: &Connection, conversation: i64, turn: i64, recorded: bool) -> StoreResult<()> {
    let status = if recorded { RecallStatus::Nothing } else { RecallStatus::Off };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO recalls (turn_pk, conversation_pk, status, recorded) VALUES (?1, ?2, ?3, ?4)",
        )
        .and_then(|mut insert| insert.execute(params![turn, conversation, status.as_str(), recorded]))
        .map(drop)
        .translated()
}

/// Whether what an earlier attempt of the turn said may be recalled. `None` if none has said so.
fn was_recorded(connection: &Connection, lease: Lease) -> StoreResult<Option<bool>> {
    connection
        .prepare_cached("SELECT recorded FROM recalls WHERE turn_pk = ?1")
        .and_then(|mut select| select.query_row([lease.turn], |row| row.get(0)).optional())
        .translated()
}

/// The ids of what a block quotes.
fn sources(recall: &Recall) -> String {
    let mut sources = String::with_capacity(40 * (recall.conversations.len() + recall.memories.len()));
    let conversations = recall.conversations.iter().map(|id| id as &dyn Display);
    let memories = recall.memories.iter().map(|id| id as &dyn Display);
    let derived = recall.derived.then_some(&DERIVED as &dyn Display);
    for (nth, source) in conversations.chain(memories).chain(derived).enumerate() {
        let _ = write!(sources, "{}{source}", if nth > 0 { " " } else { "" });
    }
    sources
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
    Ok(Some(Recall {
        conversations: sources.split(' ').filter_map(|id| id.parse().ok()).collect(),
        memories: sources.split(' ').filter_map(|id| id.parse().ok()).collect(),
        derived: sources.split(' ').any(|source| source == DERIVED),
        ..recall
    }))
}

/// Deletes the blocks of other turns that quote a conversation.
pub(crate) fn forget_conversation(connection: &Connection, conversation: i64) -> StoreResult<()> {
    let found = connection
        .prepare_cached("SELECT tenant_pk, session_key, id FROM conversations WHERE pk = ?1")
        .and_then(|mut select| {
            select
                .query_row([conversation], |row| {
                    let id = ConversationId::from_uuid(rows::uuid(row, 2)?);
                    Ok((TenantId(row.get(0)?), rows::session_key(row, 1)?, id))
                })
                .optional()
        })
        .translated()?;
    match found {
        Some((tenant, Some(session_key), id)) => drop_quotes(connection, tenant, &session_key, &id.to_string()),
        Some((_, None, _)) | None => Ok(()),
    }
}

/// Deletes the blocks of a key's turns that quote a source, by its id.
pub(crate) fn drop_quotes(
    connection: &Connection,
    tenant: TenantId,
    session_key: &SessionKey,
    source: &str,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE recalls SET block = NULL, sources = NULL WHERE turn_pk IN (
             SELECT r.turn_pk FROM conversations c INDEXED BY conversations_by_key
             CROSS JOIN recalls r INDEXED BY recalls_with_block ON r.conversation_pk = c.pk AND r.block IS NOT NULL
             WHERE c.tenant_pk = ?1 AND c.session_key = ?2
             AND instr(r.sources, ?3) > 0)",
        )
        .and_then(|mut update| update.execute(params![tenant.0, session_key.as_str(), source]))
        .map(drop)
        .translated()
}
