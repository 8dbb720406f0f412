//! What memory did for turns: the rows of `recalls`.
//!
//! A block quotes conversations and facts. If one of them is deleted or changed, the whole block goes, because only the
//! last turn's block is ever shown.
//!
//! Invariant: no row has a block that quotes something deleted or changed. Two things keep it. A deletion clears the
//! blocks that are stored ([`drop_quotes`]) and raises the version of the key in the same transaction. A block that is
//! still in a process is written only if nothing has changed about the key since it was made, or if all that it quotes is
//! still there unchanged ([`still_holds`]).

use std::collections::{HashMap, HashSet};
use std::fmt::{Display, Write as _};

use herma_model::{ConversationId, MemoryId, Recall, RecallStatus, SessionKey, TenantId, Timestamp, TurnId};
use herma_store::Lease;
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::memories::{readings, versions};
use crate::rows;

/// The source of what an outside provider concluded from conversations that it does not name.
const DERIVED: &str = "derived";

/// Writes what memory did for a turn. An earlier attempt's row is replaced. A block that quotes something that was
/// deleted or changed since it was made is left out.
pub(crate) fn write(connection: &Connection, lease: Lease, recall: &Recall, now: Timestamp) -> StoreResult<()> {
    let block = match &recall.block {
        Some(block) if versions::is_unchanged_since(connection, lease.conversation, recall.as_of)? => Some(block),
        Some(block) if still_holds(connection, lease.conversation, recall)? => Some(block),
        Some(_) | None => None,
    };
    let sources = block.map(|_| sources(recall));
    // A first attempt that is recorded has said nothing else before.
    let may_differ = !recall.recorded || lease.attempt > 1;
    if may_differ && was_recorded(connection, lease)?.is_some_and(|recorded| recorded != recall.recorded) {
        versions::raise(connection, lease.conversation)?;
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO recalls (turn_pk, conversation_pk, status, recorded, block, sources, as_of)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                lease.turn,
                lease.conversation,
                recall.status.as_str(),
                recall.recorded,
                block,
                sources,
                recall.as_of
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
            "SELECT r.status, r.recorded, r.block, r.sources, r.as_of FROM turns t CROSS JOIN recalls r ON r.turn_pk = t.pk
             WHERE t.id = ?1",
        )
        .and_then(|mut select| {
            select
                .query_row([turn.uuid().as_bytes()], |row| {
                    let status = rows::word(row, 0, RecallStatus::parse)?;
                    let recall = Recall::without_block(status, row.get(1)?);
                    let recall = Recall { block: rows::optional_text(row, 2)?, as_of: row.get(4)?, ..recall };
                    Ok((recall, row.get::<_, Option<String>>(3)?))
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

/// Whether all that a block quotes is still there, under the session key of a conversation, and unchanged since the
/// block was made.
pub(crate) fn still_holds(connection: &Connection, conversation: i64, recall: &Recall) -> StoreResult<bool> {
    for source in &recall.conversations {
        if !has_conversation(connection, conversation, *source, recall.as_of)? {
            return Ok(false);
        }
    }
    for source in &recall.memories {
        if !has_memory(connection, conversation, *source, recall.as_of)? {
            return Ok(false);
        }
    }
    Ok(!recall.derived || !versions::is_erased_since(connection, recall.as_of)?)
}

fn has_conversation(
    connection: &Connection,
    conversation: i64,
    source: ConversationId,
    as_of: i64,
) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM conversations s CROSS JOIN conversations c ON c.pk = ?1
             WHERE s.id = ?2 AND s.deleted = 0 AND s.rewritten <= ?3 AND s.tenant_pk = c.tenant_pk
             AND s.session_key = c.session_key",
        )
        .and_then(|mut select| select.exists(params![conversation, source.uuid().as_bytes(), as_of]))
        .translated()
}

fn has_memory(connection: &Connection, conversation: i64, source: MemoryId, as_of: i64) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM memories m CROSS JOIN conversations c ON c.pk = ?1
             WHERE m.id = ?2 AND m.changed <= ?3 AND m.tenant_pk = c.tenant_pk AND m.session_key = c.session_key",
        )
        .and_then(|mut select| select.exists(params![conversation, source.uuid().as_bytes(), as_of]))
        .translated()
}

/// Deletes the blocks of other turns that quote conversations that are erased. Blocks that are not stored yet will not
/// be.
pub(crate) fn forget_conversations(connection: &Connection, conversations: &[i64]) -> StoreResult<()> {
    let mut quoted: HashMap<(TenantId, SessionKey), HashSet<String>> = HashMap::new();
    for conversation in conversations {
        let Some((tenant, session_key, id)) = under_key(connection, *conversation)? else { continue };
        // Nothing else raises it if the index has none of the messages.
        versions::raise(connection, *conversation)?;
        quoted.entry((tenant, session_key)).or_default().insert(id.to_string());
    }
    for ((tenant, session_key), sources) in quoted {
        drop_quotes(connection, tenant, &session_key, &sources)?;
    }
    Ok(())
}

/// Deletes the blocks of other turns that quote a conversation of which a message was changed or deleted.
pub(crate) fn forget_rewritten(connection: &Connection, conversation: i64) -> StoreResult<()> {
    let Some((tenant, session_key, id)) = under_key(connection, conversation)? else { return Ok(()) };
    versions::raise(connection, conversation)?;
    connection
        .prepare_cached("UPDATE conversations SET rewritten = (SELECT changes FROM memory_state) WHERE pk = ?1")
        .and_then(|mut update| update.execute([conversation]))
        .translated()?;
    drop_quotes(connection, tenant, &session_key, &HashSet::from([id.to_string()]))
}

/// The session key of a conversation, and its id. `None` if it has no key.
fn under_key(
    connection: &Connection,
    conversation: i64,
) -> StoreResult<Option<(TenantId, SessionKey, ConversationId)>> {
    let found = connection
        .prepare_cached("SELECT tenant_pk, session_key, id FROM conversations WHERE pk = ?1")
        .and_then(|mut select| {
            select
                .query_row([conversation], |row| {
                    let id = ConversationId::from_uuid(rows::uuid(row, 2)?);
                    let tenant = TenantId(row.get(0)?);
                    Ok(rows::session_key(row, 1)?.map(|key| (tenant, key, id)))
                })
                .optional()
        })
        .translated()?;
    Ok(found.flatten())
}

/// Deletes the blocks of a key's turns that have what an outside provider concluded, because a conversation is erased
/// that it knows. Blocks that are not stored yet will not be.
pub(crate) fn drop_derived(connection: &Connection, tenant: TenantId, session_key: &SessionKey) -> StoreResult<()> {
    versions::note_erased(connection)?;
    drop_quotes(connection, tenant, session_key, &HashSet::from([DERIVED.to_owned()]))
}

/// Deletes the blocks of a key's turns that quote one of these sources, by their ids. It reads the ids of every block
/// of the key, so call it once for all sources. The caller raises the version of the key in the same transaction.
pub(crate) fn drop_quotes(
    connection: &Connection,
    tenant: TenantId,
    session_key: &SessionKey,
    sources: &HashSet<String>,
) -> StoreResult<()> {
    let mut select = connection
        .prepare_cached(
            "SELECT r.turn_pk, r.sources FROM conversations c INDEXED BY conversations_by_key
             CROSS JOIN recalls r INDEXED BY recalls_with_block ON r.conversation_pk = c.pk AND r.block IS NOT NULL
             WHERE c.tenant_pk = ?1 AND c.session_key = ?2",
        )
        .translated()?;
    let mut quoting: Vec<i64> = Vec::new();
    let mut rows = select.query(params![tenant.0, session_key.as_str()]).translated()?;
    while let Some(row) = rows.next().translated()? {
        let quoted = row.get_ref(1).and_then(|quoted| Ok(quoted.as_str_or_null()?)).translated()?;
        if quoted.unwrap_or_default().split(' ').any(|source| sources.contains(source)) {
            quoting.push(row.get(0).translated()?);
        }
    }
    drop(rows);
    let mut update =
        connection.prepare_cached("UPDATE recalls SET block = NULL, sources = NULL WHERE turn_pk = ?1").translated()?;
    for turn in quoting {
        update.execute([turn]).translated()?;
    }
    Ok(())
}
