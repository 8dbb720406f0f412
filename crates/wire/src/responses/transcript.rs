//! The items of a stored message.
//!
//! The ids of items are made from the id of their message. So they are always the same: in a stream, in the response
//! and in every list.

use std::borrow::Cow;
use std::fmt::Display;

use herma_model::generation::Finish;
use herma_model::{CompactionId, FinishReason, Message, MessageId, Payload, Role, Utterance};
use serde_json::{Map, Value};

use super::item::{Item, ItemStatus, Part};
use super::logprobs;
use super::mcp::{approval_response, earlier_item, own_items};
use crate::chat::{Extra, answer_of, reasoning_text};
use crate::client_tools::{ClientTool, input_of};
use crate::own_tools::CallResult;

/// The items of an assistant's message: reasoning, text, calls of Herma's own tools, calls of the client's tools.
///
/// `last` is the status of the last one, unless it is a call of Herma's own tools. Those before it are completed.
/// `results` has the ends of these calls.
pub(super) fn said_items(id: MessageId, said: &Utterance, last: ItemStatus, results: &[CallResult]) -> Vec<Item> {
    let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() };
    let answer = answer_of(said, finish);
    let mut items = Vec::new();
    if let Some(text) = reasoning_text(&answer.extra) {
        let summary = vec![Part::SummaryText { text: text.to_owned() }];
        items.push(Item::Reasoning { id: reasoning_id(id, 0), status: ItemStatus::Completed, summary });
    }
    let mut content = Vec::new();
    if let Some(text) = answer.content.filter(|text| !text.is_empty()) {
        let logprobs = logprobs::of_choice(&answer.choice_extra);
        content.push(Part::OutputText { text, annotations: [], logprobs });
    }
    if let Some(refusal) = answer.refusal.filter(|refusal| !refusal.is_empty()) {
        content.push(Part::Refusal { refusal });
    }
    if !content.is_empty() {
        let (id, status) = (message_id(id, 0), ItemStatus::Completed);
        items.push(Item::Message { id, status, role: "assistant", content, phase: None });
    }
    let own = own_items(id, said, results);
    let own_calls = said.own_calls();
    let mut clients = answer.tool_calls;
    clients.retain(|call| !own_calls.iter().any(|own| *own.id == *call.id));
    let known = if clients.is_empty() { Vec::new() } else { Extra::of(said).client_calls };
    let clients: Vec<Item> = clients
        .into_iter()
        .enumerate()
        .map(|(index, call)| {
            let tool = known.iter().find(|known| *known.id == *call.id).map(|known| Cow::Borrowed(&known.tool));
            let custom = || ClientTool { name: call.name.clone(), namespace: None, custom: true };
            let tool = tool.or_else(|| call.custom.then(|| Cow::Owned(custom())));
            let mut item = begun_call(id, index, call.id, call.name, tool.as_deref());
            match &mut item {
                Item::FunctionCall { arguments, .. } => *arguments = call.arguments,
                Item::CustomToolCall { input, .. } if call.custom => *input = call.arguments,
                Item::CustomToolCall { input, .. } => *input = input_of(&call.arguments),
                _ => {}
            }
            item.set_status(ItemStatus::Completed);
            item
        })
        .collect();
    if let Some(item) = clients.is_empty().then(|| items.last_mut()).flatten().filter(|_| own.is_empty()) {
        item.set_status(last);
    }
    items.extend(own);
    items.extend(clients);
    if let Some(item) = items.last_mut().filter(|item| item.is_clients_call()) {
        item.set_status(last);
    }
    items
}

/// The item of a call of the client's tool, before its arguments. `tool` is how the client knows the tool, if it is not
/// a plain function.
pub(super) fn begun_call(
    message: MessageId,
    index: usize,
    call_id: String,
    model_name: String,
    tool: Option<&ClientTool>,
) -> Item {
    let id = |prefix: &str| format!("{prefix}_{}_{index}", message.uuid().simple());
    let status = ItemStatus::InProgress;
    let (name, namespace) = match tool {
        Some(tool) => (tool.name.clone(), tool.namespace.clone()),
        None => (model_name, None),
    };
    match tool {
        Some(ClientTool { custom: true, .. }) => {
            Item::CustomToolCall { id: id("ctc"), status, call_id, name, namespace, input: String::new() }
        }
        _ => Item::FunctionCall { id: id("fc"), status, call_id, name, namespace, arguments: String::new() },
    }
}

/// The items of an assistant's message whose calls of Herma's own tools have no results yet.
pub fn output_items(id: MessageId, said: &Utterance, last: ItemStatus) -> Vec<Item> {
    said_items(id, said, last, &[])
}

/// The items of any message of the transcript, for a list. The last item of a partial message is incomplete. Calls of
/// Herma's own tools are shown as if they had not ended.
pub fn items_of(message: &Message) -> Vec<Item> {
    items(message.id, &message.said, &[])
}

/// The same, with the results of the message's calls. `results` may have other messages too.
pub fn items_with_results<'a>(message: &Message, results: impl IntoIterator<Item = &'a Message>) -> Vec<Item> {
    let results: Vec<CallResult> = results.into_iter().filter_map(|result| CallResult::of(&result.said)).collect();
    items(message.id, &message.said, &results)
}

pub(super) fn items(id: MessageId, said: &Utterance, results: &[CallResult]) -> Vec<Item> {
    match said.role {
        Role::Assistant => with_phase(said_items(id, said, ItemStatus::from(said.status), results), said),
        Role::User => vec![input_message(id.to_string(), "user", &said.payload)],
        Role::Tool if said.call_end().is_some() => earlier_item(id, said).into_iter().collect(),
        Role::Tool => match said.decision() {
            Some(decision) => approval_response(id, &decision).into_iter().collect(),
            None => vec![output_of_call(id, said)],
        },
    }
}

fn output_of_call(id: MessageId, said: &Utterance) -> Item {
    let hex = id.uuid().simple();
    let status = ItemStatus::Completed;
    let call_id = said.calls.first().map(|call| call.to_string()).unwrap_or_default();
    let output = tool_output(&said.payload);
    match Extra::of(said).custom_output {
        true => Item::CustomToolCallOutput { id: format!("ctco_{hex}"), status, call_id, output },
        false => Item::FunctionCallOutput { id: format!("fco_{hex}"), status, call_id, output },
    }
}

/// Adds the label that a client gave the message.
fn with_phase(mut items: Vec<Item>, said: &Utterance) -> Vec<Item> {
    if let Some(phase) = Extra::of(said).phase()
        && let Some(Item::Message { phase: shown, .. }) =
            items.iter_mut().find(|item| matches!(item, Item::Message { .. }))
    {
        *shown = Some(phase);
    }
    items
}

/// The item of a compaction.
pub fn compaction_item(id: CompactionId, encrypted_content: impl Into<String>) -> Item {
    let (id, encrypted_content) = (id.to_string(), encrypted_content.into());
    Item::Compaction { id, status: ItemStatus::Completed, encrypted_content }
}

impl From<herma_model::MessageStatus> for ItemStatus {
    fn from(status: herma_model::MessageStatus) -> Self {
        match status {
            herma_model::MessageStatus::Complete => Self::Completed,
            herma_model::MessageStatus::Partial => Self::Incomplete,
        }
    }
}

/// The id of the nth item of its kind in one message.
pub(super) fn message_id(id: MessageId, nth: usize) -> String {
    numbered(id, nth)
}

pub(super) fn reasoning_id(id: MessageId, nth: usize) -> String {
    numbered(format_args!("rs_{}", id.uuid().simple()), nth)
}

fn numbered(id: impl Display, nth: usize) -> String {
    if nth == 0 { id.to_string() } else { format!("{id}_{nth}") }
}

fn fields(payload: &Payload) -> Map<String, Value> {
    serde_json::from_str(payload.as_json()).unwrap_or_default()
}

fn input_message(id: String, role: &'static str, payload: &Payload) -> Item {
    let content = match fields(payload).remove("content") {
        Some(Value::String(text)) => vec![Part::InputText { text }],
        Some(Value::Array(parts)) => parts.into_iter().map(input_part).collect(),
        _ => Vec::new(),
    };
    Item::Message { id, status: ItemStatus::Completed, role, content, phase: None }
}

fn tool_output(payload: &Payload) -> Value {
    match fields(payload).remove("content") {
        Some(Value::Array(parts)) => {
            let parts: Vec<Part> = parts.into_iter().map(input_part).collect();
            serde_json::to_value(parts).unwrap_or_default()
        }
        other => other.unwrap_or_default(),
    }
}

/// Translates a chat part to this API. A part that this API does not have stays as it is.
fn input_part(part: Value) -> Part {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let known = match part["type"].as_str() {
        Some("text") => text(&part["text"]).map(|text| Part::InputText { text }),
        Some("refusal") => text(&part["refusal"]).map(|refusal| Part::Refusal { refusal }),
        Some("image_url") => text(&part["image_url"]["url"]).map(|image_url| Part::InputImage {
            image_url,
            detail: text(&part["image_url"]["detail"]).unwrap_or_else(|| "auto".to_owned()),
        }),
        Some("file") => part["file"].as_object().map(|file| {
            let mut fields = Map::from_iter([("type".to_owned(), Value::from("input_file"))]);
            fields.extend(file.clone());
            Part::Other(Value::Object(fields))
        }),
        _ => None,
    };
    known.unwrap_or(Part::Other(part))
}
