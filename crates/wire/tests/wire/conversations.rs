//! The Conversations API.

use herma_model::Timestamp;
use herma_wire::conversations::{
    ConversationObject, CreateConversation, CreateItems, UpdateConversation, conversation_list, deleted_json,
    references,
};
use herma_wire::responses::{Item, ItemStatus, KeptItems, Part};
use herma_wire::{BadRequest, chat};
use serde_json::{Value, json};

fn create(body: &Value) -> Result<CreateConversation, BadRequest> {
    CreateConversation::parse(body.to_string().as_bytes(), &KeptItems::new())
}

fn add(body: &Value) -> Result<CreateItems, BadRequest> {
    CreateItems::parse(body.to_string().as_bytes(), &KeptItems::new())
}

fn update(body: &Value) -> Result<UpdateConversation, BadRequest> {
    UpdateConversation::parse(body.to_string().as_bytes())
}

fn refusal<T: std::fmt::Debug>(read: Result<T, BadRequest>) -> String {
    let bad = read.unwrap_err();
    assert_eq!(bad.code, "invalid_request");
    format!("{} — {}", bad.param.as_deref().unwrap_or("-"), bad.message)
}

fn many(count: usize) -> Value {
    Value::Array((0..count).map(|_| json!({"role": "user", "content": "hi"})).collect())
}

fn json_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_conversation_may_begin_with_nothing() {
    for body in ["", " ", "{}", r#"{"items":null,"metadata":null}"#, r#"{"items":[],"name":"x"}"#] {
        let read = CreateConversation::parse(body.as_bytes(), &KeptItems::new());
        assert_eq!(read, Ok(CreateConversation::default()), "{body}");
    }
}

#[test]
fn a_conversation_begins_with_items_and_metadata() {
    let read = create(&json!({
        "metadata": {"topic": "cats"},
        "items": [
            {"type": "message", "role": "system", "content": "Be terse."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello!"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        ],
    }));
    let read = read.unwrap();
    assert_eq!(read.metadata.as_deref(), Some(r#"{"topic":"cats"}"#));
    let chat = json!({"messages": [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Hi.", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ]},
    ]});
    let chat = chat::parse(chat.to_string().as_bytes()).unwrap();
    assert_eq!((read.items.system, read.items.messages), (chat.system, chat.messages));
    assert_eq!(read.items.indices, [1, 2]);
}

#[test]
fn items_may_be_named_instead_of_sent() {
    let content = vec![Part::InputText { text: "Hello!".to_owned() }];
    let item =
        Item::Message { id: "msg_1".to_owned(), status: ItemStatus::Completed, role: "user", content, phase: None };
    let body = json!({"items": [{"type": "item_reference", "id": "msg_1"}]});
    assert_eq!(references(body.to_string().as_bytes()).unwrap(), ["msg_1"]);
    assert_eq!(references(br#"{"items":[]}"#), Ok(Vec::new()));
    let kept = KeptItems::from_iter([("msg_1".to_owned(), item)]);
    let read = CreateItems::parse(body.to_string().as_bytes(), &kept).unwrap();
    assert_eq!(read.items.messages, [chat::simple_user("Hello!")]);
    assert_eq!(add(&body).unwrap_err().param.as_deref(), Some("items[0].id"));
}

#[test]
fn twenty_items_at_a_time() {
    assert_eq!(create(&json!({"items": many(20)})).unwrap().items.messages.len(), 20);
    assert_eq!(add(&json!({"items": many(20)})).unwrap().items.messages.len(), 20);
    insta::assert_snapshot!([
        refusal(create(&json!({"items": many(21)}))),
        refusal(add(&json!({"items": many(21)}))),
        refusal(add(&json!({"items": []}))),
        refusal(add(&json!({}))),
    ].join("\n"), @r#"
    items — `items` must not have more than 20 items: send the others afterwards
    items — `items` must not have more than 20 items: send the others afterwards
    items — `items` must not be empty
    items — `items` is required
    "#);
}

#[test]
fn wrong_fields_are_refused_by_name() {
    let long = json!({"k": "x".repeat(513)});
    insta::assert_snapshot!([
        refusal(create(&json!([]))),
        refusal(create(&json!({"items": "hi"}))),
        refusal(create(&json!({"items": [{"type": "message", "role": "user"}]}))),
        refusal(create(&json!({"items": [{"type": "hologram"}]}))),
        refusal(create(&json!({"metadata": "x"}))),
        refusal(create(&json!({"metadata": {"k": 7}}))),
        refusal(add(&json!({"items": {}}))),
        refusal(update(&json!({}))),
        refusal(update(&json!({"metadata": []}))),
        refusal(update(&json!({"metadata": long}))),
    ].join("\n"), @r#"
    - — the request body must be a JSON object
    items — `items` must be an array
    items[0].content — `items[0].content` is required
    items[0].type — `items[0].type` must be message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning, compaction, additional_tools, item_reference, mcp_approval_response or another mcp item
    metadata — `metadata` must be an object
    metadata.k — `metadata.k` must be a string
    items — `items` must be an array
    metadata — `metadata` is required
    metadata — `metadata` must be an object
    metadata.k — `metadata.k` must not be longer than 512 characters
    "#);
}

#[test]
fn metadata_is_replaced() {
    assert_eq!(&*update(&json!({"metadata": {"topic": "dogs"}})).unwrap().metadata, r#"{"topic":"dogs"}"#);
    assert_eq!(&*update(&json!({"metadata": {}})).unwrap().metadata, "{}");
}

#[test]
fn a_conversation_says_where_it_stands() {
    let facts = crate::facts();
    let bare = ConversationObject {
        conversation: &facts,
        created_at: Timestamp(1_772_582_400_500),
        metadata: None,
        title: None,
    };
    let full = ConversationObject { metadata: Some(r#"{"topic":"cats"}"#), title: Some("Cats"), ..bare };
    insta::assert_snapshot!(json_text(full.to_json()), @r#"{"id":"conv_00000000000000000000000000000001","object":"conversation","created_at":1772582400,"metadata":{"topic":"cats"},"title":"Cats","session_id":"s2","provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}"#);
    insta::assert_snapshot!(json_text(conversation_list(&[bare], Some("next"))), @r#"{"object":"list","data":[{"id":"conv_00000000000000000000000000000001","object":"conversation","created_at":1772582400,"metadata":{},"title":null,"session_id":"s2","provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}],"first_id":"conv_00000000000000000000000000000001","last_id":"conv_00000000000000000000000000000001","has_more":true,"next_cursor":"next"}"#);
    insta::assert_snapshot!(json_text(conversation_list(&[], None)), @r#"{"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false,"next_cursor":null}"#);
    insta::assert_snapshot!(json_text(deleted_json(facts.id)), @r#"{"id":"conv_00000000000000000000000000000001","object":"conversation.deleted","deleted":true}"#);
}
