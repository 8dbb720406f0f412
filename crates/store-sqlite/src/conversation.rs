//! Making a conversation, and unmaking one whose first turn came to nothing.

use herma_model::alias::Namespace;
use herma_model::{ConversationFacts, ConversationId, SessionFacts, SessionId};
use herma_store::{Admission, Target};
use rusqlite::{Connection, params};

use crate::failure::{Outcome, Translate};
use crate::rows::ConversationState;

/// Where a conversation's first message stands.
const FIRST_SEQ: i64 = 1;

/// Makes the conversation, its first session and their names.
pub(crate) fn create(connection: &Connection, admission: &Admission) -> Outcome<ConversationState> {
    let creation = &admission.creation;
    let tenant = admission.scope.tenant.0;
    let named = match &admission.target {
        Target::Alias { alias, namespace: Namespace::Session, .. } => Some(alias),
        Target::New | Target::Alias { .. } => None,
    };
    let session_id = named.map_or_else(|| creation.session.clone(), |alias| SessionId::from_name(alias.as_str()));
    let now = admission.now.0;
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant_pk, id, head_pk, root_pk, origin_kind, session_key, owner_key, source, version, fence, next_seq, created_at, updated_at)
             VALUES (?1, ?2, 0, 0, ?3, NULL, ?4, ?5, 0, 0, ?7, ?6, ?6)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                tenant,
                creation.conversation.uuid().as_bytes(),
                creation.kind.as_str(),
                creation.owner.map(|owner| owner.uuid().into_bytes()),
                creation.source,
                now,
                FIRST_SEQ
            ])
        })
        .translated()?;
    let key = connection.last_insert_rowid();
    connection
        .prepare_cached(
            "INSERT INTO sessions (tenant_pk, conversation_pk, id, kind, depth, creator_kind, created_at) VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6)",
        )
        .and_then(|mut insert| {
            insert.execute(params![tenant, key, session_id.as_str(), creation.kind.as_str(), creation.creator.as_str(), now])
        })
        .translated()?;
    let head = connection.last_insert_rowid();
    connection
        .prepare_cached("UPDATE conversations SET head_pk = ?2, root_pk = ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute([key, head]))
        .translated()?;
    alias(connection, tenant, "session", &creation.conversation.to_string(), key, None)?;
    alias(connection, tenant, "session", session_id.as_str(), key, Some(head))?;
    if let Target::Alias { alias: name, namespace, .. } = &admission.target
        && named.is_none()
    {
        alias(connection, tenant, namespace.as_str(), name.as_str(), key, None)?;
    }
    Ok(ConversationState {
        key,
        version: 0,
        fence: 0,
        running: None,
        waiting: 0,
        next_seq: FIRST_SEQ,
        ended: false,
        unmade: false,
        head,
        facts: new_facts(admission, creation.conversation, session_id),
    })
}

fn new_facts(admission: &Admission, id: ConversationId, session: SessionId) -> ConversationFacts {
    let creation = &admission.creation;
    ConversationFacts {
        id,
        root: session.clone(),
        head: SessionFacts {
            id: session,
            kind: creation.kind,
            parent: None,
            creator: creation.creator,
            reason: None,
            depth: 0,
        },
        previous: None,
        origin_kind: creation.kind,
        session_key: None,
        compaction_mode: None,
        compaction_count: 0,
    }
}

fn alias(
    connection: &Connection,
    tenant: i64,
    namespace: &str,
    name: &str,
    conversation: i64,
    session: Option<i64>,
) -> Outcome<()> {
    connection
        .prepare_cached("INSERT INTO aliases (tenant_pk, namespace, alias, conversation_pk, session_pk) VALUES (?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut insert| insert.execute(params![tenant, namespace, name, conversation, session]))
        .map(drop)
        .translated()
}

/// Called when the turn that made a conversation has come to nothing: whoever waits in it makes it in its place.
pub(crate) fn unmake(connection: &Connection, conversation: i64) -> Outcome<()> {
    connection
        .execute("UPDATE conversations SET unmade = 1 WHERE pk = ?1 AND turn_count = 0", [conversation])
        .translated()?;
    abandon(connection, conversation)
}

/// Called when somebody stops waiting: nothing is left of a conversation that nobody will make any more.
pub(crate) fn abandon(connection: &Connection, conversation: i64) -> Outcome<()> {
    let wanted = connection
        .prepare_cached("SELECT unmade = 0 OR waiting > 0 FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([conversation], |row| row.get::<_, bool>(0)))
        .translated()?;
    if wanted { Ok(()) } else { remove(connection, conversation) }
}

fn remove(connection: &Connection, conversation: i64) -> Outcome<()> {
    for statement in [
        "DELETE FROM aliases WHERE conversation_pk = ?1",
        "DELETE FROM sessions WHERE conversation_pk = ?1",
        "DELETE FROM conversations WHERE pk = ?1",
    ] {
        connection.execute(statement, [conversation]).translated()?;
    }
    Ok(())
}
