//! What a session is and where it comes from, in the same form on every front door.
//!
//! [`Provenance::of`] is the only place that puts these facts together.

use std::sync::Arc;

use serde::Serialize;

use crate::ids::{ConversationId, SessionId};
use crate::kind::{CreatorKind, ParentRelation, SessionKind, stored_enum};
use crate::session_key::SessionKey;

stored_enum!(
    /// How a compaction treats the session.
    CompactionMode {
        /// Ends it and starts its continuation.
        Split = "split",
        /// Keeps it.
        InPlace = "in_place",
    }
);

stored_enum!(
    /// How the id a request named led to its session.
    Resolution {
        /// There was no id, or it led nowhere. The conversation is new.
        Created = "created",
        /// It led to the head.
        Head = "head",
        /// It was the id of an earlier session. The head is another session now.
        Moved = "moved",
        /// It was a point before the end. A branch was made there.
        Branched = "branched",
    }
);

/// What is stored about one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    /// Its id.
    pub id: SessionId,
    /// Its kind.
    pub kind: SessionKind,
    /// Its direct parent, and the relation to it.
    pub parent: Option<(SessionId, ParentRelation)>,
    /// Who created it.
    pub creator: CreatorKind,
    /// Why it exists, if the kind alone does not say it.
    pub reason: Option<Arc<str>>,
    /// How many splits came before it.
    pub depth: u32,
}

/// The stored facts of one conversation that provenance needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationFacts {
    /// Stable handle.
    pub id: ConversationId,
    /// The session that gets new messages.
    pub head: SessionFacts,
    /// First session.
    pub root: SessionId,
    /// The head before the last move.
    pub previous: Option<SessionId>,
    /// Kind of the first session.
    pub origin_kind: SessionKind,
    /// Its session key.
    pub session_key: Option<SessionKey>,
    /// Mode of the last compaction.
    pub compaction_mode: Option<CompactionMode>,
    /// How many compactions it has, in both modes.
    pub compaction_count: u32,
}

impl ConversationFacts {
    /// The id or slug that a client chose when the conversation began. It is the id of the first session.
    pub fn name(&self) -> Option<&str> {
        self.root.chosen()
    }
}

/// Provenance as JSON. Fields that do not apply are absent, never null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provenance {
    session_id: SessionId,
    conversation_id: ConversationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_session_id: Option<SessionId>,
    root_session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_session_id: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_relation: Option<ParentRelation>,
    kind: SessionKind,
    origin_kind: SessionKind,
    creator_kind: CreatorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    compression_depth: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction_mode: Option<CompactionMode>,
    compaction_count: u32,
    is_user_facing: bool,
}

impl Provenance {
    /// Describes one session of a conversation.
    pub fn of(conversation: &ConversationFacts, session: &SessionFacts) -> Self {
        let (parent_session_id, parent_relation) = session.parent.clone().unzip();
        Self {
            session_id: session.id.clone(),
            conversation_id: conversation.id,
            previous_session_id: conversation.previous.clone(),
            root_session_id: conversation.root.clone(),
            parent_session_id,
            parent_relation,
            kind: session.kind,
            origin_kind: conversation.origin_kind,
            creator_kind: session.creator,
            reason: session.reason.clone(),
            compression_depth: session.depth,
            compaction_mode: conversation.compaction_mode,
            compaction_count: conversation.compaction_count,
            is_user_facing: conversation.origin_kind.is_user_facing(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn facts_that_do_not_apply_are_absent() {
        let head = SessionFacts {
            id: SessionId::from_name("s"),
            kind: SessionKind::Main,
            parent: None,
            creator: CreatorKind::Api,
            reason: None,
            depth: 0,
        };
        let conversation = ConversationFacts {
            id: ConversationId::from_uuid(Uuid::from_u128(1)),
            root: head.id.clone(),
            head: head.clone(),
            previous: None,
            origin_kind: SessionKind::Main,
            session_key: None,
            compaction_mode: None,
            compaction_count: 0,
        };
        let json = serde_json::to_value(Provenance::of(&conversation, &head)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "session_id": "s", "conversation_id": "conv_00000000000000000000000000000001", "root_session_id": "s",
                "kind": "main", "origin_kind": "main", "creator_kind": "api",
                "compression_depth": 0, "compaction_count": 0, "is_user_facing": true
            })
        );
    }
}
