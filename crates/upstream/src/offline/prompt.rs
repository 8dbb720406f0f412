//! Reads a call as far as the offline model understands it.

use herma_model::message::Digest;
use herma_model::{ModelCall, Params};
use serde_json::Value;

use super::tokens;

/// Tokens that every message costs besides its text.
const MESSAGE_TOKENS: u64 = 4;

/// A message of the context.
#[derive(Debug)]
pub(super) struct PromptMessage {
    pub(super) role: String,
    /// The text. A part that is not text appears as its type in brackets.
    pub(super) text: String,
}

/// A function that may be called.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) parameters: Value,
}

/// Whether functions may or must be called.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolChoice {
    /// If the message asks for it.
    Auto,
    /// Not at all.
    Never,
    /// At least one function must be called.
    Required,
    /// The function with this name must be called.
    Named(String),
}

/// The format that the answer must have.
#[derive(Debug, PartialEq)]
pub(super) enum AnswerFormat {
    Text,
    /// Any JSON object.
    Json,
    /// JSON that matches the schema.
    Schema(Value),
}

/// A call, as far as the offline model understands it.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) messages: Vec<PromptMessage>,
    pub(super) functions: Vec<Function>,
    pub(super) choice: ToolChoice,
    pub(super) form: AnswerFormat,
    pub(super) max_tokens: Option<u64>,
    /// The tokens of the whole prompt.
    pub(super) tokens: u64,
    /// The digest of all messages.
    pub(super) digest: Digest,
}

impl Prompt {
    /// Reads a call. Parts that cannot be read are ignored.
    pub(super) fn read(call: &ModelCall) -> Self {
        let values = call.messages.iter().map(|message| serde_json::from_str(message.as_json()).unwrap_or_default());
        let values: Vec<Value> = values.collect();
        let tools = call.params.get("tools").unwrap_or_default();
        let messages: u64 = values.iter().map(|message| MESSAGE_TOKENS + message_tokens(message)).sum();
        Self {
            messages: values.iter().map(prompt_message).collect(),
            functions: functions(&call.params),
            choice: choice(&call.params),
            form: form(&call.params),
            max_tokens: ["max_tokens", "max_completion_tokens"]
                .into_iter()
                .filter_map(|name| parameter(&call.params, name).as_u64())
                .min(),
            tokens: messages + tokens::count(tools),
            digest: Digest::of_fields(call.messages.iter().map(|message| message.as_json().as_bytes())),
        }
    }

    /// The text of the newest user message; empty if there is none.
    pub(super) fn last_user_text(&self) -> &str {
        self.messages.iter().rev().find(|message| message.role == "user").map_or("", |message| &message.text)
    }
}

fn parameter(params: &Params, name: &str) -> Value {
    params.get(name).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

fn prompt_message(message: &Value) -> PromptMessage {
    let role = message["role"].as_str().unwrap_or_default().to_owned();
    PromptMessage { role, text: content_text(&message["content"]) }
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(part_text).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

fn part_text(part: &Value) -> String {
    let kind = || format!("[{}]", part["type"].as_str().unwrap_or("part"));
    part["text"].as_str().map_or_else(kind, str::to_owned)
}

fn message_tokens(message: &Value) -> u64 {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = calls.iter().flat_map(|call| [&call["function"]["name"], &call["function"]["arguments"]]);
    let calls: u64 = texts.filter_map(Value::as_str).map(tokens::count).sum();
    tokens::count(&content_text(&message["content"])) + calls
}

fn functions(params: &Params) -> Vec<Function> {
    let tools = parameter(params, "tools");
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    let function = |tool: &Value| {
        let name = tool["function"]["name"].as_str()?.to_owned();
        Some(Function { name, parameters: tool["function"]["parameters"].clone() })
    };
    let choice = parameter(params, "tool_choice");
    let allowed = &choice["allowed_tools"]["tools"];
    let is_allowed = |function: &Function| {
        allowed.as_array().is_none_or(|allowed| allowed.iter().any(|tool| tool["function"]["name"] == function.name))
    };
    tools.iter().filter_map(function).filter(is_allowed).collect()
}

fn choice(params: &Params) -> ToolChoice {
    let choice = parameter(params, "tool_choice");
    match (choice.as_str().or(choice["allowed_tools"]["mode"].as_str()), choice["function"]["name"].as_str()) {
        (Some("none"), _) => ToolChoice::Never,
        (Some("required"), _) => ToolChoice::Required,
        (_, Some(name)) => ToolChoice::Named(name.to_owned()),
        _ => ToolChoice::Auto,
    }
}

fn form(params: &Params) -> AnswerFormat {
    let format = parameter(params, "response_format");
    match format["type"].as_str() {
        Some("json_object") => AnswerFormat::Json,
        Some("json_schema") => AnswerFormat::Schema(format["json_schema"]["schema"].clone()),
        _ => AnswerFormat::Text,
    }
}
