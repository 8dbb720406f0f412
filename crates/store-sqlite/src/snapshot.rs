//! Looking a name up, and reading all of a conversation at one version.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use herma_model::alias::Namespace;
use herma_model::{Alias, Message, Payload, SessionFacts, TenantId, TurnId, TurnState, Unanswered};
use herma_store::{Scope, Snapshot, Version};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{Outcome, Translate};
use crate::rows::{self, ConversationState, MESSAGE, SESSION};

/// Where a name leads: the conversation, and the session the name is the id of, if it is one's.
pub(crate) fn find(
    connection: &Connection,
    tenant: TenantId,
    alias: &Alias,
    namespace: Namespace,
) -> Outcome<Option<(ConversationState, Option<i64>)>> {
    let led: Option<(i64, Option<i64>)> = connection
        .prepare_cached(
            "SELECT conversation_pk, session_pk FROM aliases WHERE tenant_pk = ?1 AND namespace = ?2 AND alias = ?3",
        )
        .and_then(|mut select| {
            select
                .query_row(params![tenant.0, namespace.as_str(), alias.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .translated()?;
    let Some((conversation, session)) = led else { return Ok(None) };
    Ok(Some((load(connection, conversation)?, session)))
}

/// A conversation that is known to exist. Look-ups by key, one after the other: as one join it costs SQLite three times as much.
pub(crate) fn load(connection: &Connection, conversation: i64) -> Outcome<ConversationState> {
    let session = |key: i64| -> rusqlite::Result<SessionFacts> {
        connection.prepare_cached(&SESSION_BY_KEY)?.query_row([key], |row| rows::session(row, 0))
    };
    connection
        .prepare_cached(
            "SELECT version, fence, running_turn, waiting, next_seq, ended_at, head_pk, root_pk, previous_pk, id, origin_kind, session_key,
             compaction_mode, compaction_count, unmade FROM conversations WHERE pk = ?1",
        )
        .and_then(|mut select| {
            select.query_row([conversation], |row| {
                let head_key: i64 = row.get(6)?;
                let head = session(head_key)?;
                let root_key: i64 = row.get(7)?;
                let root = if root_key == head_key { head.id.clone() } else { session(root_key)?.id };
                let previous = row.get::<_, Option<i64>>(8)?.map(session).transpose()?.map(|facts| facts.id);
                Ok(ConversationState {
                    key: conversation,
                    version: row.get(0)?,
                    fence: row.get(1)?,
                    running: row.get(2)?,
                    waiting: row.get(3)?,
                    next_seq: row.get(4)?,
                    ended: row.get::<_, Option<i64>>(5)?.is_some(),
                    head: head_key,
                    unmade: row.get(14)?,
                    facts: rows::facts(row, 9, head, root, previous)?,
                })
            })
        })
        .translated()
}

static SESSION_BY_KEY: LazyLock<String> = LazyLock::new(|| format!("SELECT {SESSION} FROM sessions s WHERE s.pk = ?1"));

/// Reads the conversation a name leads to. The caller holds a read transaction.
pub(crate) fn open(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    namespace: Namespace,
) -> Outcome<Option<Snapshot>> {
    let Some((state, _)) = find(connection, scope.tenant, alias, namespace)? else { return Ok(None) };
    if !scope.keys.sees(state.facts.session_key.as_ref()) {
        return Ok(None);
    }
    Ok(Some(Snapshot {
        messages: messages(connection, state.key)?,
        unanswered: unanswered(connection, state.key)?,
        system: system(connection, state.key)?,
        version: Version(state.version),
        ended: state.ended,
        facts: Arc::new(state.facts),
    }))
}

/// Sessions are numbered in the order in which they follow each other, so nothing has to be sorted.
fn messages(connection: &Connection, conversation: i64) -> Outcome<Vec<Arc<Message>>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM sessions s JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk
             WHERE s.conversation_pk = ?1 ORDER BY s.pk, m.seq"
        ))
        .translated()?;
    let rows = select.query_map([conversation], |row| rows::message(row).map(Arc::new)).translated()?;
    rows.collect::<rusqlite::Result<_>>().translated()
}

/// The turns of a conversation that have no answer.
pub(crate) fn unanswered(connection: &Connection, conversation: i64) -> Outcome<HashMap<TurnId, Unanswered>> {
    let mut select = connection
        .prepare_cached(
            "SELECT id, state, attempt FROM turns WHERE conversation_pk = ?1 AND state IN ('failed', 'cancelled', 'interrupted')",
        )
        .translated()?;
    let rows = select
        .query_map([conversation], |row| {
            let state = rows::word(row, 1, TurnState::parse)?;
            Ok((TurnId::from_uuid(rows::uuid(row, 0)?), Unanswered { state, attempt: row.get(2)? }))
        })
        .translated()?;
    rows.collect::<rusqlite::Result<_>>().translated()
}

fn system(connection: &Connection, conversation: i64) -> Outcome<Arc<[Payload]>> {
    connection
        .prepare_cached("SELECT system FROM conversations WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([conversation], |row| Ok(rows::system_from(row.get_ref(0)?.as_str_or_null()?)))
        })
        .translated()
}
