//! The parent of a new session: found by any name, stored by name and by key.

use herma_model::alias::Namespace;
use herma_model::{Alias, EditorSettings, InvalidDeclaration, ParentRelation, SessionId, SessionKey, ToolMode};
use herma_store::{Creation, Scope};
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};
use crate::rows::{self, ConversationState};
use crate::snapshot;

/// The session that another one comes from.
pub(crate) struct Parent {
    pub(crate) session: i64,
    pub(crate) conversation: i64,
    pub(crate) id: SessionId,
    pub(crate) relation: ParentRelation,
    /// The session key of its conversation. New sessions inherit it if they bring none.
    pub(crate) session_key: Option<SessionKey>,
    /// What an editor has chosen for its conversation. New sessions inherit it.
    pub(crate) editor: EditorSettings,
}

/// The parent that a creation declares.
pub(crate) enum Declared {
    /// There is no parent, or it is this one.
    Parent(Option<Parent>),
    /// It does not exist for the caller.
    NoParent,
    /// The declared kind and parent do not match.
    Invalid(InvalidDeclaration),
}

impl Declared {
    /// Reads what is declared for a conversation that is not a branch.
    pub(crate) fn of(connection: &Connection, scope: &Scope, creation: &Creation) -> StoreResult<Self> {
        let relation = match creation.kind.declare(creation.parent.is_some()) {
            Ok(relation) => relation,
            Err(invalid) => return Ok(Self::Invalid(invalid)),
        };
        let Some((relation, alias)) = relation.zip(creation.parent.as_ref()) else { return Ok(Self::Parent(None)) };
        let Some((state, named)) = source(connection, scope, alias)? else { return Ok(Self::NoParent) };
        let parent = Parent::session(connection, named.unwrap_or(state.head), &state, relation)?;
        Ok(Self::Parent(Some(parent)))
    }
}

impl Parent {
    /// A session of a conversation, as the parent of another.
    pub(crate) fn session(
        connection: &Connection,
        session: i64,
        conversation: &ConversationState,
        relation: ParentRelation,
    ) -> StoreResult<Self> {
        let (id, editor) = connection
            .prepare_cached(
                "SELECT s.id, c.cwd, c.tool_mode, c.chosen_model FROM sessions s, conversations c
                 WHERE s.pk = ?1 AND c.pk = ?2",
            )
            .and_then(|mut select| {
                select.query_row([session, conversation.key], |row| {
                    let editor = EditorSettings {
                        cwd: rows::optional_text(row, 1)?,
                        mode: rows::optional_word(row, 2, ToolMode::parse)?,
                        model: rows::optional_text(row, 3)?,
                    };
                    Ok((SessionId::from_name(row.get_ref(0)?.as_str()?), editor))
                })
            })
            .translated()?;
        let session_key = conversation.facts.session_key.clone();
        Ok(Self { session, conversation: conversation.key, id, relation, session_key, editor })
    }
}

/// The conversation that a new one comes from, and the session if the name is a session's id. `None` for a provisional
/// conversation.
pub(crate) fn source(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
) -> StoreResult<Option<(ConversationState, Option<i64>)>> {
    let found = snapshot::visible(connection, scope, alias, Namespace::Session)?;
    Ok(found.filter(|(state, _)| !state.provisional))
}

/// Called before sessions of a conversation are deleted, from key `from` on: their children keep only their name. If
/// the sessions are restored, [`reconnect_children`] finds the children again.
pub(crate) fn disconnect_children(connection: &Connection, conversation: i64, from: i64) -> StoreResult<()> {
    let going = "SELECT pk FROM sessions WHERE conversation_pk = ?1 AND pk >= ?2";
    for statement in [
        &format!(
            "UPDATE conversations SET parent_pk = NULL WHERE parent_pk = ?1
             AND EXISTS (SELECT 1 FROM sessions r WHERE r.pk = root_pk AND r.parent_pk IN ({going}))"
        ),
        &format!(
            "UPDATE sessions SET parent_pk = NULL, missing_parent = (SELECT id FROM conversations WHERE pk = ?1)
             WHERE parent_pk IN ({going}) AND conversation_pk <> ?1"
        ),
    ] {
        connection.execute(statement, params![conversation, from]).translated()?;
    }
    Ok(())
}

/// Connects children that know their parent only by name to the sessions of this conversation.
pub(crate) fn reconnect_children(connection: &Connection, conversation: i64) -> StoreResult<()> {
    for statement in [
        "UPDATE sessions SET parent_pk = p.pk, missing_parent = NULL FROM conversations c
         JOIN sessions p ON p.conversation_pk = c.pk
         WHERE c.pk = ?1 AND sessions.missing_parent = c.id AND sessions.parent_id = p.id
         AND sessions.tenant_pk = c.tenant_pk",
        "UPDATE conversations SET parent_pk = ?1 WHERE pk IN (SELECT c.pk FROM sessions p
         JOIN sessions r ON r.parent_pk = p.pk
         JOIN conversations c ON c.pk = r.conversation_pk AND c.root_pk = r.pk WHERE p.conversation_pk = ?1
         AND c.pk <> ?1)",
    ] {
        connection.execute(statement, [conversation]).translated()?;
    }
    Ok(())
}

/// Whether a conversation is another one, or descends from it.
pub(crate) fn comes_from(connection: &Connection, conversation: i64, other: i64) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "WITH RECURSIVE above (pk) AS (SELECT ?1 UNION SELECT c.parent_pk FROM above
             JOIN conversations c ON c.pk = above.pk
             WHERE c.parent_pk IS NOT NULL) SELECT 1 FROM above WHERE pk = ?2",
        )
        .and_then(|mut select| select.exists([conversation, other]))
        .translated()
}
