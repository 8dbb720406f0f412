//! Whole answers, out and back.

use herma_model::generation::Finish;
use herma_model::{Answer, MessageStatus};
use herma_wire::chat::{answer_of, assistant_utterance, completion, shown_text};
use serde_json::{Map, Value, json};

use crate::{HEAD, map, rich_answer, session, text_answer};

fn body(answer: &Answer) -> String {
    String::from_utf8(completion(&HEAD, answer, Some(&session()))).unwrap()
}

#[test]
fn a_text_answer_has_every_field_that_clients_read() {
    let json = String::from_utf8(completion(&HEAD, &text_answer("Hello \"you\"\n"), None)).unwrap();
    insta::assert_snapshot!(json, @r#"{"id":"chatcmpl-1","object":"chat.completion","created":1772582400,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"Hello \"you\"\n","refusal":null},"logprobs":null,"finish_reason":"stop"}]}"#);
}

#[test]
fn an_answer_carries_calls_usage_extras_and_the_session() {
    insta::assert_snapshot!(body(&rich_answer()), @r#"{"id":"chatcmpl-1","object":"chat.completion","created":1772582400,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"},"extra_content":{"signature":"s"}}],"reasoning_content":"Hm.","annotations":[]},"logprobs":{"content":null,"refusal":null},"stop_reason":7,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}},"system_fingerprint":"fp_1","service_tier":"default","session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}"#);
}

#[test]
fn a_model_server_cannot_overwrite_our_fields() {
    let mut answer = text_answer("hi");
    answer.extra = map(json!({"role": "system", "content": "no", "kept": 1}));
    answer.choice_extra = map(json!({"index": 9, "finish_reason": "no", "message": {}, "kept": 2}));
    answer.finish.extra = map(json!({"id": "no", "session": {}, "error": {"message": "no"}, "usage": {}, "kept": 3}));
    let json = body(&answer);
    let read: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["id"], "chatcmpl-1");
    assert_eq!(read["session"]["session_id"], "s2");
    assert_eq!(
        read["choices"][0]["message"],
        json!({"role": "assistant", "content": "hi", "refusal": null, "kept": 1})
    );
    assert_eq!(read["choices"][0]["kept"], 2);
    assert_eq!(read["kept"], 3);
    for name in ["\"id\"", "\"session\"", "\"index\"", "\"finish_reason\"", "\"message\""] {
        assert_eq!(json.matches(&format!("{name}:")).count(), 1, "{name} in {json}");
    }
    assert!(read.get("error").is_none() && read.get("usage").is_none());
}

#[test]
fn a_stored_answer_has_what_was_said_in_its_payload_and_the_rest_beside_it() {
    let said = assistant_utterance(&rich_answer(), MessageStatus::Complete);
    insta::assert_snapshot!(said.payload.as_json(), @r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"},"extra_content":{"signature":"s"}}]}"#);
    insta::assert_snapshot!(said.extra.unwrap(), @r#"{"message":{"reasoning_content":"Hm.","annotations":[]},"choice":{"logprobs":{"content":null,"refusal":null},"stop_reason":7},"answer":{"system_fingerprint":"fp_1","service_tier":"default"}}"#);
    assert_eq!(&*said.calls[0], "call_1");
}

#[test]
fn a_plain_answer_keeps_nothing_beside_its_payload() {
    let said = assistant_utterance(&text_answer("hi"), MessageStatus::Partial);
    assert_eq!(said.payload.as_json(), r#"{"role":"assistant","content":"hi"}"#);
    assert_eq!((said.extra, said.status), (None, MessageStatus::Partial));
}

#[test]
fn a_stored_answer_reads_back_with_the_fields_that_only_the_message_kept() {
    let answer = rich_answer();
    let said = assistant_utterance(&answer, MessageStatus::Complete);
    let kept_by_the_turn = Finish { extra: Map::new(), ..answer.finish.clone() };
    assert_eq!(answer_of(&said, kept_by_the_turn), answer);
}

#[test]
fn an_answer_without_content_is_stored_with_an_empty_text_and_reads_back_without() {
    let answer = Answer { content: None, ..text_answer("") };
    let said = assistant_utterance(&answer, MessageStatus::Complete);
    assert_eq!(said.payload.as_json(), r#"{"role":"assistant","content":""}"#);
    assert_eq!(answer_of(&said, answer.finish.clone()), answer);
    assert_eq!(shown_text(&said), None);
}

#[test]
fn the_text_of_a_stored_message_is_all_its_text_parts() {
    let body = br#"{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"x"},{"type":"text","text":"b"}]}]}"#;
    let said = &herma_wire::chat::parse(body).unwrap().messages[0];
    assert_eq!(shown_text(said).as_deref(), Some("ab"));
    assert_eq!(shown_text(&assistant_utterance(&text_answer("hi"), MessageStatus::Complete)).as_deref(), Some("hi"));
}
