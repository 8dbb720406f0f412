//! Facts in long-term memory. Each fact has a row, and its [`words`] have rows. Both change together.
//!
//! [`recalls`] are the blocks that turns were shown, [`recorded`] says which turns may be remembered, [`versions`] say
//! whether a recall may answer from memory, and [`readings`] are finished conversations that a model is to read for
//! facts.

pub(crate) mod readings;
pub(crate) mod recalls;
pub(crate) mod recorded;
pub(crate) mod versions;
pub(crate) mod words;

use std::collections::{HashMap, HashSet};

use herma_model::{ConversationId, Memory, MemoryId, MemorySource, SessionKey, TenantId, Timestamp};
use herma_store::{MemoryFilter, MemoryPage, NewMemory, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use crate::failure::{StoreResult, Translate};
use crate::rows;

use self::words::WordScope;

/// Columns of [`read`], from `memories m`.
pub(crate) const MEMORY: &str = "m.pk, m.id, m.session_key, m.text, m.source, m.created_at, m.updated_at,
     (SELECT c.id FROM conversations c WHERE c.pk = m.conversation_pk)";

/// How many rows of other session keys a page reads at most.
const MOST_SKIPPED: usize = 10_000;

/// A fact with its key.
pub(crate) struct StoredMemory {
    pub(crate) key: i64,
    pub(crate) memory: Memory,
}

/// Reads [`MEMORY`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<StoredMemory> {
    let conversation: Option<[u8; 16]> = row.get(7)?;
    let memory = Memory {
        id: MemoryId::from_uuid(rows::uuid(row, 1)?),
        session_key: rows::word(row, 2, |key| SessionKey::parse(key).ok())?,
        text: rows::text(row, 3)?,
        source: rows::word(row, 4, MemorySource::parse)?,
        conversation: conversation.map(|id| ConversationId::from_uuid(Uuid::from_bytes(id))),
        created_at: Timestamp(row.get(5)?),
        updated_at: Timestamp(row.get(6)?),
    };
    Ok(StoredMemory { key: row.get(0)?, memory })
}

/// Adds a fact, unless one with the same text is known about the same key. Returns the one that is stored.
pub(crate) fn add(connection: &Connection, new: &NewMemory) -> StoreResult<Memory> {
    if let Some(known) = known(connection, new)? {
        return Ok(known);
    }
    connection
        .prepare_cached(
            "INSERT INTO memories (id, tenant_pk, session_key, text, source, conversation_pk, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5,
                     (SELECT pk FROM conversations WHERE id = ?6 AND tenant_pk = ?2 AND deleted = 0), ?7, ?7)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                new.id.uuid().as_bytes(),
                new.tenant.0,
                new.session_key.as_str(),
                new.text,
                new.source.as_str(),
                new.conversation.map(|id| id.uuid().into_bytes()),
                new.now.0
            ])
        })
        .translated()?;
    let key = connection.last_insert_rowid();
    words::add(connection, WordScope::of(new.tenant, &new.session_key), key, &new.text)?;
    by_key(connection, key)
}

/// The fact with the same text about the same key. It has the same words, so not all facts are read.
fn known(connection: &Connection, new: &NewMemory) -> StoreResult<Option<Memory>> {
    let Some(word) = words::longest(&new.text) else { return Ok(None) };
    let scope = WordScope::of(new.tenant, &new.session_key);
    connection
        .prepare_cached(&format!(
            "SELECT {MEMORY} FROM memory_words w CROSS JOIN memories m ON m.pk = w.memory_pk
             WHERE w.scope = ?1 AND w.word = ?2 AND m.tenant_pk = ?3 AND m.session_key = ?4 AND m.text = ?5
             ORDER BY w.memory_pk DESC LIMIT 1"
        ))
        .and_then(|mut select| {
            let asked = params![scope, word, new.tenant.0, new.session_key.as_str(), new.text];
            select.query_row(asked, |row| read(row).map(|stored| stored.memory)).optional()
        })
        .translated()
}

fn by_key(connection: &Connection, key: i64) -> StoreResult<Memory> {
    connection
        .prepare_cached(&format!("SELECT {MEMORY} FROM memories m WHERE m.pk = ?1"))
        .and_then(|mut select| select.query_row([key], |row| read(row).map(|stored| stored.memory)))
        .translated()
}

/// A page of facts, newest first.
pub(crate) fn list(connection: &Connection, filter: &MemoryFilter) -> StoreResult<MemoryPage> {
    let MemoryFilter { scope, session_key, after, limit } = filter;
    let mut page = MemoryPage::default();
    let keyed = session_key.as_ref().map(SessionKey::as_str);
    if session_key.as_ref().is_some_and(|key| !scope.keys.allows(key)) {
        return Ok(page);
    }
    let before = after.unwrap_or(i64::MAX);
    let condition = if keyed.is_some() { "m.session_key = ?3" } else { "?3 IS NULL" };
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MEMORY} FROM memories m WHERE m.tenant_pk = ?1 AND m.pk < ?2 AND {condition} ORDER BY m.pk DESC"
        ))
        .translated()?;
    let mut rows = select.query(params![scope.tenant.0, before, keyed]).translated()?;
    let (mut last, mut skipped) = (before, 0);
    while let Some(row) = rows.next().translated()? {
        if page.memories.len() == *limit || skipped > MOST_SKIPPED {
            page.next = Some(last);
            break;
        }
        let StoredMemory { key, memory } = read(row).translated()?;
        last = key;
        match scope.keys.allows(&memory.session_key) {
            true => page.memories.push(memory),
            false => skipped += 1,
        }
    }
    Ok(page)
}

/// A fact that the caller can see.
fn find(connection: &Connection, scope: &Scope, id: MemoryId) -> StoreResult<Option<StoredMemory>> {
    let found = connection
        .prepare_cached(&format!("SELECT {MEMORY} FROM memories m WHERE m.id = ?1 AND m.tenant_pk = ?2"))
        .and_then(|mut select| select.query_row(params![id.uuid().as_bytes(), scope.tenant.0], read).optional())
        .translated()?;
    Ok(found.filter(|stored| scope.keys.allows(&stored.memory.session_key)))
}

/// One fact.
pub(crate) fn show(connection: &Connection, scope: &Scope, id: MemoryId) -> StoreResult<Option<Memory>> {
    Ok(find(connection, scope, id)?.map(|stored| stored.memory))
}

/// Changes the text of a fact.
pub(crate) fn change(
    connection: &Connection,
    scope: &Scope,
    id: MemoryId,
    text: &str,
    now: Timestamp,
) -> StoreResult<Option<Memory>> {
    let Some(StoredMemory { key, memory }) = find(connection, scope, id)? else { return Ok(None) };
    recalls::drop_quotes(connection, scope.tenant, &memory.session_key, &HashSet::from([id.to_string()]))?;
    let words = WordScope::of(scope.tenant, &memory.session_key);
    words::remove(connection, words, key, &memory.text)?;
    connection
        .prepare_cached(
            "UPDATE memories SET text = ?2, updated_at = ?3, changed = (SELECT changes + 1 FROM memory_state)
             WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute(params![key, text, now.0]))
        .translated()?;
    words::add(connection, words, key, text)?;
    by_key(connection, key).map(Some)
}

/// Deletes a fact.
pub(crate) fn forget(connection: &Connection, scope: &Scope, id: MemoryId) -> StoreResult<bool> {
    let Some(stored) = find(connection, scope, id)? else { return Ok(false) };
    remove(connection, scope.tenant, &[stored])?;
    Ok(true)
}

/// Deletes all facts about a key. Returns how many there were.
pub(crate) fn forget_key(connection: &Connection, scope: &Scope, session_key: &SessionKey) -> StoreResult<u64> {
    if !scope.keys.allows(session_key) {
        return Ok(0);
    }
    remove_all(
        connection,
        scope.tenant,
        "m.tenant_pk = ?1 AND m.session_key = ?2",
        params![scope.tenant.0, session_key.as_str()],
    )
}

/// Deletes all facts that come from a conversation. Returns how many there were.
pub(crate) fn forget_conversation(connection: &Connection, conversation: i64) -> StoreResult<u64> {
    let tenant = connection
        .prepare_cached("SELECT tenant_pk FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([conversation], |row| row.get(0).map(TenantId)).optional())
        .translated()?;
    let Some(tenant) = tenant else { return Ok(0) };
    remove_all(connection, tenant, "m.conversation_pk = ?1", params![conversation])
}

/// Leaves all facts that come from a conversation without a conversation.
pub(crate) fn leave_conversation(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE memories SET conversation_pk = NULL WHERE conversation_pk = ?1 AND conversation_pk IS NOT NULL",
        )
        .and_then(|mut update| update.execute([conversation]))
        .map(drop)
        .translated()
}

/// Deletes all facts of a tenant. Returns how many there were.
pub(crate) fn forget_tenant(connection: &Connection, tenant: TenantId) -> StoreResult<u64> {
    remove_all(connection, tenant, "m.tenant_pk = ?1", params![tenant.0])
}

fn remove_all(
    connection: &Connection,
    tenant: TenantId,
    condition: &str,
    values: &[&dyn rusqlite::ToSql],
) -> StoreResult<u64> {
    let all: Vec<StoredMemory> = connection
        .prepare_cached(&format!("SELECT {MEMORY} FROM memories m WHERE {condition}"))
        .and_then(|mut select| select.query_map(values, read)?.collect())
        .translated()?;
    remove(connection, tenant, &all)?;
    Ok(all.len() as u64)
}

/// Deletes facts, and the blocks that quote them.
fn remove(connection: &Connection, tenant: TenantId, all: &[StoredMemory]) -> StoreResult<()> {
    let mut quoted: HashMap<&SessionKey, HashSet<String>> = HashMap::new();
    for StoredMemory { memory, .. } in all {
        quoted.entry(&memory.session_key).or_default().insert(memory.id.to_string());
    }
    for (session_key, sources) in quoted {
        recalls::drop_quotes(connection, tenant, session_key, &sources)?;
    }
    for StoredMemory { key, memory } in all {
        words::remove(connection, WordScope::of(tenant, &memory.session_key), *key, &memory.text)?;
        connection
            .prepare_cached("DELETE FROM memories WHERE pk = ?1")
            .and_then(|mut delete| delete.execute([key]))
            .translated()?;
    }
    Ok(())
}
