//! Messages without one of their items.

use herma_model::{MessageStatus, Utterance};
use herma_wire::chat::{self, assistant_utterance};
use herma_wire::responses::{message_of_item, without_item};
use serde_json::{Value, json};

use super::MESSAGE;

fn said(message: &Value) -> Utterance {
    chat::parse(json!({ "messages": [message] }).to_string().as_bytes()).unwrap().messages.remove(0)
}

fn without(message: &Value, item: &str) -> Option<Option<Utterance>> {
    without_item(&said(message), MESSAGE, &item.replace("<hex>", &MESSAGE.uuid().simple().to_string()))
}

fn answer() -> Value {
    json!({"role": "assistant", "content": "Let me see.", "refusal": "No.", "name": "cat", "reasoning_content": "Hm.",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"n": 1.50}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]})
}

#[test]
fn the_rest_is_as_if_a_client_had_sent_it_so() {
    let mut no_words = answer();
    no_words["content"] = Value::Null;
    no_words["refusal"] = Value::Null;
    let mut no_call = answer();
    no_call["tool_calls"].as_array_mut().unwrap().remove(0);
    let mut no_reasoning = answer();
    no_reasoning["reasoning_content"] = Value::Null;
    for (item, rest) in [("msg_<hex>", no_words), ("fc_<hex>_0", no_call), ("rs_<hex>", no_reasoning)] {
        assert_eq!(without(&answer(), item), Some(Some(said(&rest))), "{item}");
    }
}

#[test]
fn extra_fields_of_a_model_server_stay_with_the_rest() {
    let mut answer = crate::rich_answer();
    answer.content = Some("So".into());
    let whole = assistant_utterance(&answer, MessageStatus::Partial);
    answer.tool_calls.clear();
    let item = format!("fc_{}_0", MESSAGE.uuid().simple());
    assert_eq!(without_item(&whole, MESSAGE, &item), Some(Some(assistant_utterance(&answer, MessageStatus::Partial))));
}

#[test]
fn log_probabilities_go_with_their_text() {
    let mut answer = crate::rich_answer();
    answer.content = Some("So".into());
    let whole = assistant_utterance(&answer, MessageStatus::Complete);
    answer.content = None;
    answer.choice_extra.shift_remove("logprobs");
    let rest = without_item(&whole, MESSAGE, &MESSAGE.to_string());
    assert_eq!(rest, Some(Some(assistant_utterance(&answer, MessageStatus::Complete))));
}

#[test]
fn without_its_only_item_nothing_is_left_of_a_message() {
    for (message, item) in [
        (json!({"role": "user", "content": "hi"}), "msg_<hex>"),
        (json!({"role": "tool", "tool_call_id": "c", "content": "r"}), "fco_<hex>"),
        (json!({"role": "assistant", "content": "hi"}), "msg_<hex>"),
        (json!({"role": "assistant", "content": "hi", "reasoning_content": "Hm."}), "msg_<hex>"),
        (
            json!({"role": "assistant", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            "fc_<hex>_0",
        ),
    ] {
        assert_eq!(without(&message, item), Some(None), "{message}");
    }
}

#[test]
fn an_item_that_is_not_there_is_not_removed() {
    for item in ["msg_<hex>_1", "rs_<hex>_1", "fc_<hex>_2", "fco_<hex>", "msg_1", ""] {
        assert_eq!(without(&answer(), item), None, "{item}");
    }
    assert_eq!(without(&json!({"role": "assistant", "content": "hi"}), "rs_<hex>"), None);
    assert_eq!(without(&json!({"role": "user", "content": "hi"}), "fco_<hex>"), None);
}

#[test]
fn an_item_names_its_message() {
    let hex = MESSAGE.uuid().simple();
    for id in [
        format!("msg_{hex}"),
        format!("msg_{hex}_1"),
        format!("rs_{hex}"),
        format!("rs_{hex}_12"),
        format!("fc_{hex}_0"),
        format!("fco_{hex}"),
    ] {
        assert_eq!(message_of_item(&id), Some(MESSAGE), "{id}");
    }
    for id in [
        format!("cmp_{hex}"),
        format!("msg_{hex}_"),
        format!("msg_{hex}_x"),
        format!("msg_{hex}_1_2"),
        format!("msg_{hex}0"),
        hex.to_string(),
        "msg_1".to_owned(),
        String::new(),
    ] {
        assert_eq!(message_of_item(&id), None, "{id}");
    }
}
