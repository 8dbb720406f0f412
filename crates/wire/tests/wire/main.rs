//! What clients send and are sent: fixtures in, snapshots out.

#![expect(clippy::unwrap_used, reason = "what the tests share may fail them too")]

mod answers;
mod compactions;
mod conversations;
mod identity;
mod own_tools;
mod properties;
mod read_back;
mod record;
mod refusals;
mod requests;
mod resources;
mod responses;
mod runs;
mod streams;

use herma_model::Resolution;
use herma_model::generation::{Answer, Finish, FinishReason, ToolCall};
use herma_model::{
    ConversationFacts, ConversationId, CreatorKind, Provenance, SessionFacts, SessionId, SessionKind, Usage,
};
use herma_wire::chat::Head;
use herma_wire::session::SessionObject;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const HEAD: Head<'static> = Head { id: "chatcmpl-1", created: 1_772_582_400, model: "gpt-5" };

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

fn text_answer(text: &str) -> Answer {
    Answer {
        content: Some(text.to_owned()),
        refusal: None,
        tool_calls: Vec::new(),
        extra: Map::new(),
        choice_extra: Map::new(),
        finish: Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() },
    }
}

/// An answer with calls, usage and extra fields at every level.
fn rich_answer() -> Answer {
    Answer {
        content: None,
        tool_calls: vec![ToolCall {
            id: "call_1".into(),
            name: "weather".into(),
            arguments: r#"{"city":"Köln"}"#.into(),
            custom: false,
            extra: map(json!({"extra_content": {"signature": "s"}})),
        }],
        extra: map(json!({"reasoning_content": "Hm.", "annotations": []})),
        choice_extra: map(json!({"logprobs": {"content": null, "refusal": null}, "stop_reason": 7})),
        finish: Finish {
            reason: FinishReason::ToolCalls,
            usage: Some(Usage { input: 10, output: 5, cached: 4, reasoning: 2, ..Usage::default() }),
            model: Some("gpt-5-2026".into()),
            extra: map(json!({"system_fingerprint": "fp_1", "service_tier": "default"})),
        },
        ..text_answer("")
    }
}

fn facts() -> ConversationFacts {
    let head = SessionFacts {
        id: SessionId::from_name("s2"),
        kind: SessionKind::Main,
        parent: None,
        creator: CreatorKind::Api,
        reason: None,
        depth: 0,
    };
    ConversationFacts {
        id: ConversationId::from_uuid(Uuid::from_u128(1)),
        root: head.id.clone(),
        head,
        previous: None,
        origin_kind: SessionKind::Main,
        session_key: None,
        compaction_mode: None,
        compaction_count: 0,
    }
}

fn session() -> SessionObject {
    let facts = facts();
    SessionObject {
        conversation_id: facts.id,
        session_id: facts.head.id.clone(),
        requested_id: Some("s1".to_owned()),
        resolution: Resolution::Moved,
        rotated: false,
        provenance: Provenance::of(&facts, &facts.head),
    }
}

/// The store writes the streamed text of a crashed turn without this crate. A client may send that text back.
#[test]
fn a_stored_partial_has_the_digest_of_the_same_text_from_a_client() {
    for text in ["Once upon", " a\r\nb ", ""] {
        let body = serde_json::json!({ "messages": [{ "role": "assistant", "content": text }] }).to_string();
        let parsed = herma_wire::chat::parse(body.as_bytes()).unwrap();
        assert_eq!(parsed.messages[0].digest, herma_model::Utterance::partial_text(text).digest, "{text:?}");
    }
}
