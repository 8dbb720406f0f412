//! Which messages are the same message.

use herma_model::{Answer, Digest, MessageStatus};
use herma_wire::chat::{assistant_utterance, parse, simple_user};

use crate::{rich_answer, text_answer};

fn digest(message: &str) -> Digest {
    parse(format!(r#"{{"messages":[{message}]}}"#).as_bytes()).unwrap().messages[0].digest
}

fn answer_digest(answer: &Answer) -> Digest {
    assistant_utterance(answer, MessageStatus::Complete).digest
}

#[test]
fn an_answer_that_a_client_sends_back_is_the_same_message() {
    let ours = answer_digest(&text_answer("Hello.\nBye."));
    for spelling in [
        r#"{"role":"assistant","content":"Hello.\nBye."}"#,
        r#"{"content":"Hello.\nBye.","refusal":null,"role":"assistant","annotations":[],"audio":null,"function_call":null,"tool_calls":null}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Hello.\r\n"},{"type":"text","text":"Bye.\n"}]}"#,
        r#"{"role":"assistant","content":"Hello.\nBye.","reasoning_content":"Hm.","name":"bot","x":1}"#,
    ] {
        assert_eq!(digest(spelling), ours, "{spelling}");
    }
}

#[test]
fn a_tool_call_that_a_client_sends_back_is_the_same_message() {
    let ours = answer_digest(&rich_answer());
    for spelling in [
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"}}]}"#,
        r#"{"role":"assistant","content":"","tool_calls":[{"index":0,"function":{"arguments":"{ \"city\": \"K\\u00f6ln\" }","name":"weather"},"id":"call_1"}]}"#,
    ] {
        assert_eq!(digest(spelling), ours, "{spelling}");
    }
}

#[test]
fn a_refusal_is_the_same_as_a_field_and_as_a_part() {
    let ours = answer_digest(&Answer { content: None, refusal: Some("No.".into()), ..text_answer("") });
    assert_eq!(digest(r#"{"role":"assistant","content":null,"refusal":"No."}"#), ours);
    assert_eq!(digest(r#"{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}"#), ours);
    assert_ne!(digest(r#"{"role":"assistant","content":"No."}"#), ours);
}

#[test]
fn what_is_typed_at_the_terminal_is_what_a_client_sends() {
    let body = r#"{"messages":[{"role":"user","content":"Grüß \"dich\"\n"}]}"#;
    assert_eq!(parse(body.as_bytes()).unwrap().messages[0], simple_user("Grüß \"dich\"\n"));
}

#[test]
fn names_and_extra_fields_do_not_count() {
    let plain = digest(r#"{"role":"user","content":"hi"}"#);
    assert_eq!(digest(r#"{"role":"user","content":" hi\n","name":"ann","x":1}"#), plain);
    assert_eq!(digest(r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{}}]}"#), plain);
}

#[test]
fn images_count_by_address_and_place() {
    let image = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}","detail":"low"}}}}"#);
    let text = r#"{"type":"text","text":"hi"}"#;
    let user = |parts: &[&str]| digest(&format!(r#"{{"role":"user","content":[{}]}}"#, parts.join(",")));
    let one = user(&[text, &image("https://a")]);
    assert_eq!(one, user(&[text, r#"{"type":"image_url","image_url":{"url":"https:\/\/a"}}"#]));
    assert_ne!(one, user(&[text, &image("https://b")]));
    assert_ne!(one, user(&[&image("https://a"), text]));
    assert_ne!(one, user(&[text]));
}

#[test]
fn other_parts_count_by_value() {
    let user = |part: &str| digest(&format!(r#"{{"role":"user","content":[{part}]}}"#));
    let one = user(r#"{"type":"input_audio","input_audio":{"data":"A","format":"wav"}}"#);
    assert_eq!(one, user(r#"{"input_audio":{"format":"wav", "data":"A"},"type":"input_audio"}"#));
    assert_ne!(one, user(r#"{"type":"input_audio","input_audio":{"data":"B","format":"wav"}}"#));
}

#[test]
fn roles_calls_and_results_keep_messages_apart() {
    let all = [
        r#"{"role":"user","content":"x"}"#,
        r#"{"role":"assistant","content":"x"}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"d","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"c","function":{"name":"g","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}]}"#,
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{broken"}}]}"#,
        r#"{"role":"tool","content":"x","tool_call_id":"c"}"#,
        r#"{"role":"tool","content":"x","tool_call_id":"d"}"#,
    ]
    .map(digest);
    for (at, one) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(one), "message {at} is not unique");
    }
}
