//! Where a session comes from, in `_meta.hermes` and by the names of ACP.

use herma_model::{ConversationFacts, Provenance, SessionFacts};
use serde_json::{Map, Value, json};

use crate::schema::{Meta, SessionId};

/// The names of the HTTP API, and those of ACP.
const NAMES: [(&str, &str); 14] = [
    ("session_id", "currentHermesSessionId"),
    ("conversation_id", "conversationId"),
    ("previous_session_id", "previousHermesSessionId"),
    ("root_session_id", "rootHermesSessionId"),
    ("parent_session_id", "parentHermesSessionId"),
    ("parent_relation", "parentRelation"),
    ("kind", "sessionKind"),
    ("origin_kind", "originKind"),
    ("creator_kind", "creatorKind"),
    ("reason", "reason"),
    ("compression_depth", "compressionDepth"),
    ("compaction_mode", "compactionMode"),
    ("compaction_count", "compactionCount"),
    ("is_user_facing", "isUserFacing"),
];

/// `_meta` with what Herma adds to the protocol.
pub(crate) fn hermes_meta(added: Value) -> Meta {
    Map::from_iter([("hermes".to_owned(), added)])
}

/// `_meta` with the provenance of a session. `id` is the id that the editor has for it.
pub(crate) fn provenance_meta(id: &SessionId, conversation: &ConversationFacts, session: &SessionFacts) -> Meta {
    provenance_of_event(id, &serde_json::to_value(Provenance::of(conversation, session)).unwrap_or_default())
}

/// The same, of the data of an event. They have the provenance after it, and more.
pub(crate) fn provenance_of_event(id: &SessionId, facts: &Value) -> Meta {
    let mut named = Map::from_iter([("acpSessionId".to_owned(), json!(id))]);
    for (name, value) in facts.as_object().into_iter().flatten() {
        if let Some((_, own)) = NAMES.iter().find(|(known, _)| known == name) {
            named.insert((*own).to_owned(), value.clone());
        }
    }
    hermes_meta(json!({ "sessionProvenance": named }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use herma_model::provenance::CompactionMode;
    use herma_model::{ConversationId, CreatorKind, ParentRelation, SessionKind};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_fact_has_a_name_in_acp() {
        let name = herma_model::SessionId::from_name;
        let head = SessionFacts {
            id: name("c"),
            kind: SessionKind::Continuation,
            parent: Some((name("b"), ParentRelation::Continuation)),
            creator: CreatorKind::Compression,
            reason: Some(Arc::from("compression")),
            depth: 2,
        };
        let conversation = ConversationFacts {
            id: ConversationId::from_uuid(Uuid::from_u128(1)),
            root: name("a"),
            previous: Some(name("b")),
            origin_kind: SessionKind::Main,
            session_key: None,
            compaction_mode: Some(CompactionMode::Split),
            compaction_count: 2,
            head: head.clone(),
        };
        let facts = serde_json::to_value(Provenance::of(&conversation, &head)).unwrap();
        assert_eq!(facts.as_object().unwrap().len(), NAMES.len());
        let meta = provenance_meta(&SessionId::from("e"), &conversation, &head);
        assert_eq!(
            meta["hermes"]["sessionProvenance"],
            json!({
                "acpSessionId": "e", "currentHermesSessionId": "c",
                "conversationId": "conv_00000000000000000000000000000001", "previousHermesSessionId": "b",
                "rootHermesSessionId": "a", "parentHermesSessionId": "b", "parentRelation": "continuation",
                "sessionKind": "continuation", "originKind": "main", "creatorKind": "compression",
                "reason": "compression", "compressionDepth": 2, "compactionMode": "split", "compactionCount": 2,
                "isUserFacing": true
            })
        );
    }
}
