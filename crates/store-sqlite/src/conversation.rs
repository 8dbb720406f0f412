//! Makes a conversation, continues it in a new session, and removes one whose first turn was retracted.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{
    Alias, ConversationEvent, ConversationFacts, ConversationId, CreatorKind, EndReason, ParentRelation, SessionFacts,
    SessionId, SessionKey, SessionKind, TenantId, Timestamp, ToolMode,
};
use herma_store::{Admission, Creation, NewCompaction, Removed, Target};
use rusqlite::{Connection, params};

use crate::base::CompactionBase;
use crate::erase::Manner;
use crate::failure::{StoreResult, Translate};
use crate::parent::{self, Parent};
use crate::rows::ConversationState;
use crate::tables::{ConversationColumns, Names, SessionColumns, alias, insert, next_session};
use crate::{erase, events, histories, memories, snapshot};

/// The place of a conversation's first message.
const FIRST_SEQ: i64 = 1;

/// What a new conversation is made of.
pub(crate) struct ConversationDraft<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) creation: &'a Creation,
    /// The name the client chose. In the namespace of sessions it becomes the first session's id.
    pub(crate) name: Option<(&'a Alias, Namespace)>,
    /// Its session key. A turn that brings a key of its own sets it when it starts.
    pub(crate) session_key: Option<&'a SessionKey>,
    pub(crate) title: Option<&'a str>,
    pub(crate) metadata: Option<&'a str>,
    /// The directory that the person works in. If it is not given, that of the parent.
    pub(crate) cwd: Option<&'a str>,
    /// The session it comes from.
    pub(crate) parent: Option<&'a Parent>,
    pub(crate) now: Timestamp,
}

impl<'a> ConversationDraft<'a> {
    /// The conversation of a turn that found none.
    fn of(admission: &'a Admission, parent: Option<&'a Parent>) -> Self {
        let name = match &admission.target {
            Target::Alias { alias, namespace, .. } => Some((alias, *namespace)),
            Target::New | Target::Branch { .. } | Target::Anew { .. } => None,
        };
        let (tenant, creation) = (admission.scope.tenant, &admission.creation);
        let asked = admission.session_key.as_ref();
        let session_key = match name {
            // It is the key's from the first moment, and stays so if its first turn is taken back while others wait.
            Some((_, Namespace::Current)) => asked,
            _ => parent.and_then(|parent| parent.session_key.as_ref()).filter(|_| asked.is_none()),
        };
        Self { tenant, creation, name, session_key, title: None, metadata: None, cwd: None, parent, now: admission.now }
    }

    /// The id of its first session.
    pub(crate) fn session_id(&self) -> SessionId {
        match self.name {
            Some((alias, Namespace::Session)) => SessionId::from_name(alias.as_str()),
            Some((_, Namespace::ChatId | Namespace::Current)) | None => self.creation.session.clone(),
        }
    }

    /// The row of the conversation.
    pub(crate) fn columns(&self) -> ConversationColumns<'a> {
        let inherited = self.parent.map(|parent| &parent.editor);
        ConversationColumns {
            tenant_pk: self.tenant.0,
            id: self.creation.conversation.uuid().into_bytes(),
            origin_kind: self.creation.kind.as_str(),
            session_key: self.session_key.map(SessionKey::as_str),
            owner_key: self.creation.owner.map(|owner| owner.uuid().into_bytes()),
            source: &self.creation.source,
            title: self.title,
            metadata: self.metadata,
            next_seq: FIRST_SEQ,
            created_at: self.now.0,
            updated_at: self.now.0,
            parent_pk: self.parent.map(|parent| parent.conversation),
            parent_tool_call: self.creation.parent_tool_call.as_deref(),
            chat: self.creation.chat.map(|chat| chat.0.0),
            cwd: self.cwd.or(inherited.and_then(|editor| editor.cwd.as_deref())),
            tool_mode: inherited.and_then(|editor| editor.mode).map(ToolMode::as_str),
            chosen_model: inherited.and_then(|editor| editor.model.as_deref()),
            ..ConversationColumns::default()
        }
    }

    /// The row of its first session.
    pub(crate) fn session_columns(&self, conversation: i64, id: &'a SessionId) -> SessionColumns<'a> {
        SessionColumns {
            tenant_pk: self.tenant.0,
            conversation_pk: conversation,
            id: id.as_str(),
            kind: self.creation.kind.as_str(),
            parent_pk: self.parent.map(|parent| parent.session),
            parent_id: self.parent.map(|parent| parent.id.as_str()),
            parent_relation: self.parent.map(|parent| parent.relation.as_str()),
            creator_kind: self.creation.creator.as_str(),
            reason: self.creation.reason.as_deref(),
            created_at: self.now.0,
            ..SessionColumns::default()
        }
    }
}

/// Makes the conversation of a turn, its first session and their names.
pub(crate) fn create(
    connection: &Connection,
    admission: &Admission,
    parent: Option<&Parent>,
) -> StoreResult<ConversationState> {
    make(connection, &ConversationDraft::of(admission, parent))
}

/// Makes a conversation, its first session and their names.
pub(crate) fn make(connection: &Connection, draft: &ConversationDraft<'_>) -> StoreResult<ConversationState> {
    let session_id = draft.session_id();
    let head = next_session(connection)?;
    let key = insert(connection, &ConversationColumns { head_pk: head, root_pk: head, ..draft.columns() })?;
    insert(connection, &SessionColumns { pk: Some(head), ..draft.session_columns(key, &session_id) })?;
    name(connection, draft.tenant, draft.creation.conversation, key, head, &session_id)?;
    if let Some((chat_id, Namespace::ChatId)) = draft.name {
        alias(connection, draft.tenant, Namespace::ChatId, chat_id.as_str(), key, None)?;
    }
    let facts = new_facts(draft, session_id);
    events::record(connection, key, &facts, ConversationEvent::Created { title: draft.title }, draft.now)?;
    Ok(ConversationState {
        key,
        version: 0,
        last_fence: 0,
        changes: 0,
        fence: 0,
        running: None,
        waiting: 0,
        next_seq: FIRST_SEQ,
        ended: false,
        provisional: false,
        head,
        has_admission: false,
        facts: Arc::new(facts),
    })
}

/// Stores the names of a conversation and of its first session.
pub(crate) fn name(
    connection: &Connection,
    tenant: TenantId,
    own: ConversationId,
    conversation: i64,
    session: i64,
    id: &SessionId,
) -> StoreResult<()> {
    let names = Names { connection, tenant, conversation };
    names.of_conversation(own)?;
    names.of_session(id, session)
}

/// Gives a conversation its session key. This is a separate statement, so that the index of keys is not written with
/// every turn. Earlier turns are found under this key from now on.
pub(crate) fn store_session_key(
    connection: &Connection,
    tenant: TenantId,
    state: &ConversationState,
) -> StoreResult<()> {
    let key = state.facts.session_key.as_ref().map(SessionKey::as_str);
    connection
        .prepare_cached("UPDATE conversations SET session_key = ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute(params![state.key, key]))
        .translated()?;
    if state.next_seq > 1 { histories::change_key(connection, tenant, state.key, key) } else { Ok(()) }
}

fn new_facts(draft: &ConversationDraft<'_>, session: SessionId) -> ConversationFacts {
    let creation = draft.creation;
    ConversationFacts {
        id: creation.conversation,
        root: session.clone(),
        head: SessionFacts {
            id: session,
            kind: creation.kind,
            parent: draft.parent.map(|parent| (parent.id.clone(), parent.relation)),
            creator: creation.creator,
            reason: creation.reason.clone(),
            depth: 0,
        },
        previous: None,
        origin_kind: creation.kind,
        session_key: draft.session_key.cloned(),
        compaction_mode: None,
        compaction_count: 0,
    }
}

/// Ends the head session and makes the session that continues it, with its name.
pub(crate) fn split(
    connection: &Connection,
    state: &ConversationState,
    compaction: &NewCompaction,
) -> StoreResult<i64> {
    let now = compaction.now.0;
    let compression = EndReason::Compression.as_str();
    let tenant: i64 = connection
        .query_row(
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE pk = ?1 RETURNING tenant_pk",
            params![state.head, now, compression],
            |row| row.get(0),
        )
        .translated()?;
    let session = SessionColumns {
        tenant_pk: tenant,
        conversation_pk: state.key,
        id: compaction.session.as_str(),
        kind: SessionKind::Continuation.as_str(),
        depth: state.facts.head.depth + 1,
        parent_pk: Some(state.head),
        parent_id: Some(state.facts.head.id.as_str()),
        parent_relation: Some(ParentRelation::Continuation.as_str()),
        creator_kind: CreatorKind::Compression.as_str(),
        reason: Some(compression),
        base_session_pk: Some(state.head),
        base_seq: Some(compaction.through.0),
        created_at: now,
        ..SessionColumns::default()
    };
    let head = insert(connection, &session)?;
    Names { connection, tenant: TenantId(tenant), conversation: state.key }.of_session(&compaction.session, head)?;
    connection
        .execute("UPDATE conversations SET head_pk = ?2, previous_pk = head_pk WHERE pk = ?1", [state.key, head])
        .translated()?;
    Ok(head)
}

/// Called when the turn that made a conversation was retracted. The conversation is provisional until a waiting turn
/// starts in it, and is deleted if none waits.
pub(crate) fn retract_creation(connection: &Connection, conversation: i64, now: Timestamp) -> StoreResult<()> {
    let provisional = connection
        .execute("UPDATE conversations SET provisional = 1 WHERE pk = ?1 AND turn_count = 0", [conversation])
        .translated()?;
    if provisional == 1 {
        forget_compactions(connection, conversation, now)?;
    }
    abandon(connection, conversation, now)
}

/// Returns a conversation without messages to its first session, without compactions of its own. A branch keeps the
/// base that it inherited.
fn forget_compactions(connection: &Connection, conversation: i64, now: Timestamp) -> StoreResult<()> {
    let moved = snapshot::load(connection, conversation)?.facts.previous.is_some();
    let inherited = inherited_base(connection, conversation)?;
    connection
        .execute(
            "DELETE FROM messages WHERE session_pk IN (SELECT pk FROM sessions WHERE conversation_pk = ?1)",
            [conversation],
        )
        .translated()?;
    let root_query = "SELECT root_pk FROM conversations WHERE pk = ?1";
    let root: i64 = connection.query_row(root_query, [conversation], |row| row.get(0)).translated()?;
    parent::disconnect_children(connection, conversation, root + 1)?;
    for statement in [
        "DELETE FROM carried WHERE compaction_pk IN (SELECT pk FROM compactions WHERE conversation_pk = ?1)",
        "DELETE FROM compactions WHERE conversation_pk = ?1",
        &format!("DELETE FROM aliases WHERE conversation_pk = ?1 AND session_pk <> ({root_query})"),
        &format!("DELETE FROM sessions WHERE conversation_pk = ?1 AND pk <> ({root_query})"),
    ] {
        connection.execute(statement, [conversation]).translated()?;
    }
    connection
        .execute(
            "UPDATE sessions SET base_compaction_pk = ?2, ended_at = NULL, end_reason = NULL
             WHERE conversation_pk = ?1",
            params![conversation, inherited],
        )
        .translated()?;
    connection
        .execute(
            "UPDATE conversations SET head_pk = root_pk, previous_pk = NULL, compaction_count = 0,
             compaction_mode = NULL, next_seq = 1 + coalesce((SELECT base_seq FROM sessions WHERE pk = root_pk), 0),
             counted_seq = NULL, counted_tokens = NULL, auto_compaction_paused = 0 WHERE pk = ?1",
            [conversation],
        )
        .translated()?;
    events::forget_compactions(connection, conversation)?;
    if moved {
        let facts = snapshot::load(connection, conversation)?.facts;
        events::record(connection, conversation, &facts, ConversationEvent::HeadMoved, now)?;
    }
    Ok(())
}

/// The base that a branch had when it was made.
fn inherited_base(connection: &Connection, conversation: i64) -> StoreResult<Option<i64>> {
    let head = connection
        .query_row("SELECT head_pk FROM conversations WHERE pk = ?1", [conversation], |row| row.get(0))
        .translated()?;
    let mut compaction_base = CompactionBase::of_session(connection, head)?;
    while let Some(own) = compaction_base.filter(|compaction_base| compaction_base.conversation == conversation) {
        compaction_base = own.beneath(connection)?;
    }
    Ok(compaction_base.map(|compaction_base| compaction_base.key))
}

/// Deletes a provisional conversation in which no turn waits any more.
pub(crate) fn abandon(connection: &Connection, conversation: i64, now: Timestamp) -> StoreResult<()> {
    let is_needed = connection
        .prepare_cached("SELECT provisional = 0 OR waiting > 0 FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([conversation], |row| row.get::<_, bool>(0)))
        .translated()?;
    if is_needed {
        Ok(())
    } else {
        memories::recalls::forget_conversations(connection, &[conversation])?;
        erase::erase(connection, conversation, Manner::default(), &mut Removed::default(), now)
    }
}
