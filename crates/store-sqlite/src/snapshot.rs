//! Looking a name up, and reading all of a conversation at one version.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{Alias, Message, Payload, TenantId, TurnId, TurnState, Unanswered};
use herma_store::{Scope, Snapshot, Version};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{Outcome, Translate};
use crate::rows::{self, ConversationState, FACTS, FACTS_JOINS, FACTS_WIDTH, MESSAGE};

/// Where a name leads: the conversation, and the session the name is the id of, if it is one's.
pub(crate) fn find(
    connection: &Connection,
    tenant: TenantId,
    alias: &Alias,
    namespace: Namespace,
) -> Outcome<Option<(ConversationState, Option<i64>)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {FACTS}, a.session_pk FROM aliases a JOIN conversations c ON c.pk = a.conversation_pk {FACTS_JOINS}
             WHERE a.tenant_pk = ?1 AND a.namespace = ?2 AND a.alias = ?3"
        ))
        .and_then(|mut select| {
            select
                .query_row(params![tenant.0, namespace.as_str(), alias.as_str()], |row| {
                    Ok((rows::conversation(row)?, row.get(FACTS_WIDTH)?))
                })
                .optional()
        })
        .translated()
}

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

fn messages(connection: &Connection, conversation: i64) -> Outcome<Vec<Arc<Message>>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM sessions s JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk
             WHERE s.conversation_pk = ?1 ORDER BY m.seq"
        ))
        .translated()?;
    let rows = select.query_map([conversation], |row| rows::message(row).map(Arc::new)).translated()?;
    rows.collect::<rusqlite::Result<_>>().translated()
}

fn unanswered(connection: &Connection, conversation: i64) -> Outcome<HashMap<TurnId, Unanswered>> {
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
