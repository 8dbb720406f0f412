//! Names that lead to conversations.

use herma_model::alias::Namespace;
use herma_model::{ConversationId, SessionId, TenantId};
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};

/// Makes a name lead to a conversation, and to one of its sessions if it is the session's id.
pub(crate) fn alias(
    connection: &Connection,
    tenant: TenantId,
    namespace: Namespace,
    name: &str,
    conversation: i64,
    session: Option<i64>,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO aliases (tenant_pk, namespace, alias, conversation_pk, session_pk)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )
        .and_then(|mut insert| insert.execute(params![tenant.0, namespace.as_str(), name, conversation, session]))
        .map(drop)
        .translated()
}

/// The names that every conversation has: its own id, and the ids of its sessions.
pub(crate) struct Names<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) tenant: TenantId,
    pub(crate) conversation: i64,
}

impl Names<'_> {
    /// Makes the conversation's id lead to it.
    pub(crate) fn of_conversation(&self, id: ConversationId) -> StoreResult<()> {
        alias(self.connection, self.tenant, Namespace::Session, &id.to_string(), self.conversation, None)
    }

    /// Makes a session's id lead to the session.
    pub(crate) fn of_session(&self, id: &SessionId, key: i64) -> StoreResult<()> {
        alias(self.connection, self.tenant, Namespace::Session, id.as_str(), self.conversation, Some(key))
    }
}
