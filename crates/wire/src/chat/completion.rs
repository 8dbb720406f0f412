//! A whole answer as one JSON body.

use herma_model::{Answer, TurnId};
use serde_json::{Map, Value};

use super::tool_calls;
use super::usage::ChatUsage;
use crate::json::Writer;
use crate::session::SessionObject;

/// Fields of a completion or a chunk that no model server may set. `error` is one of them, because the SDKs raise it.
const OWN_ANSWER: [&str; 8] = ["id", "object", "created", "model", "choices", "usage", "session", "error"];
/// Fields of a choice that no model server may set.
pub(super) const OWN_CHOICE: [&str; 4] = ["index", "message", "delta", "finish_reason"];
/// Fields of a message or a delta that are written from the answer itself.
pub(super) const OWN_MESSAGE: [&str; 4] = ["role", "content", "refusal", "tool_calls"];

/// The id of a chat completion, made from its turn's id.
pub fn completion_id(turn: TurnId) -> String {
    format!("chatcmpl-{}", turn.uuid().simple())
}

/// The fields with which a completion and all its chunks begin.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The completion's id, `chatcmpl-…`.
    pub id: &'a str,
    /// When it was made, in seconds since the Unix epoch.
    pub created: i64,
    /// The model, by the name the client knows.
    pub model: &'a str,
}

impl Head<'_> {
    /// Opens the object and writes these fields.
    pub(super) fn write(&self, object: &str, writer: &mut Writer) {
        writer.open_object();
        writer.text_field("id", self.id);
        writer.text_field("object", object);
        writer.field("created", &self.created);
        writer.text_field("model", self.model);
    }
}

/// The JSON body of an answer.
pub fn completion(head: &Head<'_>, answer: &Answer, session: Option<&SessionObject>) -> Vec<u8> {
    let text = answer.content.as_ref().map_or(0, String::len);
    let mut writer = Writer::with_capacity(text + 1_200);
    head.write("chat.completion", &mut writer);
    writer.key("choices");
    writer.open_array();
    write_choice(answer, &mut writer);
    writer.close_array();
    if let Some(usage) = &answer.finish.usage {
        writer.field("usage", &ChatUsage::from(usage));
    }
    write_end(&answer.finish.extra, session, &mut writer);
    writer.into_bytes(b"")
}

/// Writes the last fields of a completion or of a finish chunk, and closes it.
pub(super) fn write_end(extra: &Map<String, Value>, session: Option<&SessionObject>, writer: &mut Writer) {
    writer.extras(extra, &OWN_ANSWER);
    if let Some(session) = session {
        writer.field("session", session);
    }
    writer.close_object();
}

fn write_choice(answer: &Answer, writer: &mut Writer) {
    writer.open_object();
    writer.field("index", &0);
    writer.key("message");
    writer.open_object();
    writer.text_field("role", "assistant");
    writer.optional_text_field("content", answer.content.as_deref());
    writer.optional_text_field("refusal", answer.refusal.as_deref());
    if !answer.tool_calls.is_empty() {
        writer.key("tool_calls");
        tool_calls::write(&answer.tool_calls, writer);
    }
    writer.extras(&answer.extra, &OWN_MESSAGE);
    writer.close_object();
    if !answer.choice_extra.contains_key("logprobs") {
        writer.raw_field("logprobs", "null");
    }
    writer.extras(&answer.choice_extra, &OWN_CHOICE);
    writer.field("finish_reason", &answer.finish.reason);
    writer.close_object();
}
