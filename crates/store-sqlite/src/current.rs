//! Which conversation of a session key is the current one: of those that a person uses and that have not ended, the
//! one that was used last.
//!
//! A conversation is used when it is made, when a user message is added, and when a turn is asked for. An answer is no
//! use: it may come after its reader has begun another conversation. Nor is a change of the title or of other things.
//! So `updated_at` alone does not decide.
//!
//! Invariant: nothing is stored about who is current, and no name leads there. An admission looks inside its own
//! transaction. So no client can choose the place, and simultaneous first uses make one conversation.

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationId, SessionKey, TenantId};
use herma_store::Scope;
use rusqlite::{Connection, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::snapshot;

/// Conversations that can be current.
const MAY_BE_CURRENT: &str = "c.tenant_pk = ?1 AND c.session_key = ?2 AND c.deleted = 0 AND c.ended_at IS NULL
     AND (c.origin_kind = 'main' OR c.origin_kind = 'branch')";

/// When a conversation was used last. The summary of a compaction is a user message, but no message of a turn.
const LAST_USE: &str = "max(c.created_at, coalesce(
         (SELECT m.created_at FROM sessions s JOIN messages m ON m.session_pk = s.pk
          WHERE s.conversation_pk = c.pk AND m.compaction_pk IS NULL AND m.role = 'user'
          ORDER BY s.pk DESC, m.seq DESC LIMIT 1), 0))";

/// A conversation with the time of its last use. A later one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    at: i64,
    conversation: i64,
}

impl Used {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { conversation: row.get(0)?, at: row.get(1)? })
    }
}

/// The current conversation of a session key, if the caller may see it. A provisional one may still go, so it counts
/// for admissions alone.
pub(crate) fn of_key(
    connection: &Connection,
    scope: &Scope,
    session_key: &SessionKey,
) -> StoreResult<Option<ConversationId>> {
    let found = snapshot::visible(connection, scope, &Alias::of_key(session_key), Namespace::Current)?;
    Ok(found.filter(|(state, _)| !state.provisional).map(|(state, _)| state.facts.id))
}

/// The current conversation of a session key.
pub(crate) fn find(connection: &Connection, tenant: TenantId, session_key: &str) -> StoreResult<Option<i64>> {
    let current = among_live(connection, tenant, session_key)?;
    let current = among_idle(connection, tenant, session_key, current)?;
    Ok(current.map(|current| current.conversation))
}

/// The last used of those in which a turn runs or waits. Their time of change may be older than their use.
fn among_live(connection: &Connection, tenant: TenantId, session_key: &str) -> StoreResult<Option<Used>> {
    connection
        .prepare_cached(&format!(
            "SELECT c.pk, max(l.created_at, {LAST_USE})
             FROM (SELECT conversation_pk, created_at FROM live_admissions UNION ALL
                   SELECT conversation_pk, created_at FROM turns WHERE state IN ('queued', 'running')) l
             CROSS JOIN conversations c ON c.pk = l.conversation_pk WHERE {MAY_BE_CURRENT}"
        ))
        .and_then(|mut select| {
            let mut last = None;
            for used in select.query_map(params![tenant.0, session_key], Used::read)? {
                last = last.max(Some(used?));
            }
            Ok(last)
        })
        .translated()
}

/// The last used of all, if it was used after `current`. No idle conversation was used after its last change, so the
/// walk ends at the first one that changed before the last use found.
fn among_idle(
    connection: &Connection,
    tenant: TenantId,
    session_key: &str,
    mut current: Option<Used>,
) -> StoreResult<Option<Used>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT c.pk, {LAST_USE}, c.updated_at FROM conversations c WHERE {MAY_BE_CURRENT}
             ORDER BY c.updated_at DESC, c.pk DESC"
        ))
        .translated()?;
    let mut rows = select.query(params![tenant.0, session_key]).translated()?;
    while let Some(row) = rows.next().translated()? {
        let changed: i64 = row.get(2).translated()?;
        if current.is_some_and(|current| changed < current.at) {
            break;
        }
        current = current.max(Some(Used::read(row).translated()?));
    }
    Ok(current)
}
