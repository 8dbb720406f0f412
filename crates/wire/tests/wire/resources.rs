//! Rows of Herma's own resources.

use herma_model::{Cost, Message, MessageId, MessageStatus, Seq, SessionId, Timestamp, TurnId, Usage, Utterance};
use herma_wire::chat::{assistant_utterance, parse};
use herma_wire::error::ErrorBody;
use herma_wire::list::Page;
use herma_wire::resource::{MessageRow, SessionRow};
use serde_json::json;
use uuid::Uuid;

use crate::{facts, rich_answer};

fn stored(said: Utterance) -> Message {
    Message {
        id: MessageId::from_uuid(Uuid::from_u128(2)),
        seq: Seq(7),
        session: SessionId::from_name("s2"),
        turn: TurnId::from_uuid(Uuid::from_u128(3)),
        attempt: 1,
        created_at: Timestamp(1_772_582_400_050),
        said,
    }
}

fn row(said: Utterance) -> String {
    serde_json::to_string(&MessageRow::from(&stored(said))).unwrap()
}

#[test]
fn a_message_shows_its_payload_and_what_the_model_server_added() {
    insta::assert_snapshot!(row(assistant_utterance(&rich_answer(), MessageStatus::Partial)), @r#"{"id":"msg_00000000000000000000000000000002","object":"message","seq":7,"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"},"extra_content":{"signature":"s"}}],"extra":{"system_fingerprint":"fp_1","service_tier":"default","logprobs":{"content":null,"refusal":null},"stop_reason":7,"reasoning_content":"Hm.","annotations":[]},"status":"partial","session_id":"s2","turn_id":"turn_00000000000000000000000000000003","created_at":"2026-03-04T00:00:00.050Z"}"#);
}

#[test]
fn a_payload_cannot_set_the_fields_of_its_row() {
    let body = br#"{"messages":[{"role":"tool","content":"x","tool_call_id":"c","id":"msg_1","status":"?","x":1}]}"#;
    insta::assert_snapshot!(row(parse(body).unwrap().messages[0].clone()), @r#"{"id":"msg_00000000000000000000000000000002","object":"message","seq":7,"role":"tool","content":"x","tool_call_id":"c","x":1,"status":"complete","session_id":"s2","turn_id":"turn_00000000000000000000000000000003","created_at":"2026-03-04T00:00:00.050Z"}"#);
}

#[test]
fn a_pinned_message_says_so_and_nothing_in_a_payload_can() {
    let body =
        br#"{"messages":[{"role":"user","content":"x","kind":"summary","pinned":true,"compaction_id":"cmp_1"}]}"#;
    let said = parse(body).unwrap().messages[0].clone();
    let plain = row(said.clone());
    insta::assert_snapshot!(plain, @r#"{"id":"msg_00000000000000000000000000000002","object":"message","seq":7,"role":"user","content":"x","status":"complete","session_id":"s2","turn_id":"turn_00000000000000000000000000000003","created_at":"2026-03-04T00:00:00.050Z"}"#);
    let pinned = serde_json::to_string(&MessageRow::from(&stored(said)).pinned(true)).unwrap();
    assert_eq!(pinned.replace(r#""pinned":true,"#, ""), plain);
    assert_ne!(pinned, plain);
}

#[test]
fn a_session_row_always_has_the_same_fields() {
    let facts = facts();
    let row = SessionRow {
        conversation: &facts,
        session: &facts.head,
        title: None,
        source: Some("api"),
        metadata: None,
        cwd: None,
        archived: false,
        created_at: Timestamp(0),
        updated_at: Timestamp(1_000),
        ended_at: None,
        end_reason: None,
        message_count: 2,
        turn_count: 1,
        usage: Usage { input: 3, output: 2, cached: 1, reasoning: 0, ..Usage::default() },
        usage_tree: Usage { input: 30, output: 20, ..Usage::default() },
        cost: Some(Cost::from_micros(1_250_000)),
        parent_tool_call_id: Some("call_1"),
    };
    insta::assert_snapshot!(serde_json::to_string(&row).unwrap(), @r#"{"id":"s2","object":"session","conversation_id":"conv_00000000000000000000000000000001","name":"s2","title":null,"kind":"main","origin_kind":"main","session_key":null,"source":"api","metadata":{},"archived":false,"parent_session_id":null,"created_at":"1970-01-01T00:00:00.000Z","updated_at":"1970-01-01T00:00:01.000Z","ended_at":null,"end_reason":null,"message_count":2,"turn_count":1,"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5,"cached_tokens":1,"reasoning_tokens":0},"usage_tree":{"input_tokens":30,"output_tokens":20,"total_tokens":50,"cached_tokens":0,"reasoning_tokens":0},"cost":1.25,"parent_tool_call_id":"call_1","provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}"#);
}

#[test]
fn a_page_says_whether_there_is_more() {
    let page = |cursor: Option<&str>| serde_json::to_value(Page::new(vec![1, 2], cursor.map(str::to_owned))).unwrap();
    assert_eq!(page(None), json!({"object": "list", "data": [1, 2], "has_more": false, "next_cursor": null}));
    assert_eq!(page(Some("c")), json!({"object": "list", "data": [1, 2], "has_more": true, "next_cursor": "c"}));
}

#[test]
fn an_error_always_has_its_four_fields() {
    let error = ErrorBody { message: "m".into(), kind: "t".into(), param: None, code: "c".into() };
    assert_eq!(error.to_json(), br#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#);
}
