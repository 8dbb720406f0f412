//! Items that a request names instead of sending them.

use herma_model::{Message, MessageId, Seq, SessionId, Timestamp, TurnId, Utterance};
use herma_wire::chat;
use herma_wire::responses::{Item, KeptItems, items_of, parse, parse_with, references};
use serde_json::{Value, json};
use uuid::Uuid;

fn said(messages: &Value) -> Vec<Utterance> {
    chat::parse(json!({ "messages": messages }).to_string().as_bytes()).unwrap().messages
}

/// Every item of these messages, as a list would show it.
fn items(said: &[Utterance]) -> Vec<Item> {
    let messages = said.iter().zip(1..).map(|(said, number)| Message {
        id: MessageId::from_uuid(Uuid::from_u128(number)),
        seq: Seq(1),
        session: SessionId::from_name("s"),
        turn: TurnId::from_uuid(Uuid::from_u128(1)),
        attempt: 1,
        created_at: Timestamp(0),
        said: said.clone(),
    });
    messages.flat_map(|message| items_of(&message)).collect()
}

fn kept(items: &[Item]) -> KeptItems {
    items.iter().map(|item| (item.id().to_owned(), item.clone())).collect()
}

#[test]
fn a_reference_is_read_as_the_item_that_it_names() {
    let stored = said(&json!([
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://a", "detail": "low"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:x"}},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        ]},
        {"role": "assistant", "content": "Let me see.", "reasoning_content": "A cat?", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "smell", "arguments": "{\"n\":1}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "refusal": "No."},
    ]));
    let items = items(&stored);
    let input: Vec<Value> = items.iter().map(|item| json!({"type": "item_reference", "id": item.id()})).collect();
    let body = json!({ "input": input }).to_string();
    assert_eq!(references(body.as_bytes()).unwrap(), items.iter().map(Item::id).collect::<Vec<_>>());
    let request = parse_with(body.as_bytes(), &kept(&items).into()).unwrap();
    assert_eq!(request.messages, stored);
    assert_eq!(request.indices, [0, 2, 5, 6, 7]);
}

#[test]
fn references_stand_among_items_that_were_sent() {
    let items = items(&said(&json!([{"role": "user", "content": "hi"}])));
    let body = json!({"input": [
        {"role": "assistant", "content": "Hello"},
        {"type": "item_reference", "id": items[0].id()},
        {"role": "user", "content": "what is an item_reference?"},
    ]});
    let body = body.to_string();
    assert_eq!(references(body.as_bytes()).unwrap(), [items[0].id()]);
    let request = parse_with(body.as_bytes(), &kept(&items).into()).unwrap();
    let payloads: Vec<_> = request.messages.iter().map(|said| said.payload.as_json()).collect();
    assert_eq!(
        payloads,
        [
            r#"{"role":"assistant","content":"Hello"}"#,
            r#"{"role":"user","content":"hi"}"#,
            r#"{"role":"user","content":"what is an item_reference?"}"#,
        ]
    );
}

#[test]
fn an_item_is_named_once() {
    let items = items(&said(&json!([{"role": "user", "content": "hi"}])));
    let reference = json!({"type": "item_reference", "id": items[0].id()});
    let body = json!({"input": [reference, {"role": "assistant", "content": "Hello"}, reference]}).to_string();
    assert_eq!(references(body.as_bytes()).unwrap(), [items[0].id()]);
    let bad = parse_with(body.as_bytes(), &kept(&items).into()).unwrap_err();
    assert_eq!(bad.param.as_deref(), Some("input[2].id"));
    assert_eq!(bad.message, "`input[2].id` is the id of an item that an earlier reference names");
}

#[test]
fn a_reference_to_nothing_is_refused_by_its_place() {
    let body = json!({"input": [{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "msg_1"}]});
    for bad in [
        parse(body.to_string().as_bytes()).unwrap_err(),
        parse_with(body.to_string().as_bytes(), &KeptItems::new().into()).unwrap_err(),
    ] {
        assert_eq!((bad.param.as_deref(), bad.code), (Some("input[1].id"), "invalid_request"));
    }
}

#[test]
fn a_reference_need_not_say_that_it_is_one() {
    let items = items(&said(&json!([{"role": "user", "content": "hi"}])));
    for reference in [json!({"id": items[0].id()}), json!({"type": null, "id": items[0].id()})] {
        let body = json!({"input": [reference]}).to_string();
        assert_eq!(references(body.as_bytes()).unwrap(), [items[0].id()], "{body}");
        assert_eq!(parse_with(body.as_bytes(), &kept(&items).into()).unwrap().messages.len(), 1, "{body}");
    }
}

#[test]
fn only_references_are_looked_up() {
    for body in [
        json!({"input": "item_reference"}),
        json!({"input": [{"type": "message", "id": "msg_1", "role": "user", "content": "item_reference"}]}),
        json!({"input": [{"type": "item_reference"}, {"type": "item_reference", "id": 7}, 7]}),
        json!({"instructions": "item_reference"}),
    ] {
        assert_eq!(references(body.to_string().as_bytes()), Ok(Vec::new()), "{body}");
    }
    assert_eq!(references(b"not even JSON"), Ok(Vec::new()));
    assert!(references(b"{\"input\": [{\"id\": \"msg_1\"").is_err());
}
