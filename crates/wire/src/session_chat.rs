//! Hermes' `POST /api/sessions/{id}/chat` and `…/chat/stream`: one message to a session, and its answer.

use bytes::Bytes;
use herma_model::{Answer, Delta, RunId, SessionId, Timestamp};
use serde_json::value::RawValue;

use crate::bad_request::{BadRequest, Flaw};
use crate::chat::tool_calls;
use crate::error::ErrorBody;
use crate::json::Writer;
use crate::own_tools::{CallEvent, MadeCall, preview};
use crate::responses::{InputStyle, Known, ResponsesRequest, read_object, read_with_input};
use crate::runs::RunUsage;
use crate::session::SessionObject;

/// Bytes reserved for the JSON around a delta.
const FRAME: usize = 160;

/// Reads a message to a session from `message` or `input`. `system_message` or `instructions` holds for this message
/// alone. The other fields are those of a response request. `known` has the items that the input refers
/// to.
pub fn parse(body: &[u8], known: &Known) -> Result<ResponsesRequest, BadRequest> {
    let mut body = read_object(body)?;
    for (name, also) in [("message", "input"), ("system_message", "instructions")] {
        if !body.rename(name, also) {
            return Err(Flaw::at(name, format!("must not be given together with {also}: both say the same")).into());
        }
    }
    Ok(read_with_input(body, known, InputStyle::ItemsAndChat)?)
}

/// An answer as one JSON body.
pub fn completion(answer: &Answer, session: &SessionObject) -> Vec<u8> {
    let mut writer = Writer::with_capacity(answer.content.as_ref().map_or(0, String::len) + 1024);
    writer.open_object();
    writer.field("object", "hermes.session.chat.completion");
    writer.field("session_id", &session.session_id);
    writer.key("message");
    write_message(answer, &mut writer);
    writer.field("usage", &answer.finish.usage.map(RunUsage::from));
    writer.field("session", session);
    writer.close_object();
    writer.into_bytes(b"")
}

fn write_message(answer: &Answer, writer: &mut Writer) {
    writer.open_object();
    writer.field("role", "assistant");
    writer.field("content", &answer.content);
    if !answer.tool_calls.is_empty() {
        writer.key("tool_calls");
        tool_calls::write(&answer.tool_calls, writer);
    }
    writer.close_object();
}

fn write_call(call: &MadeCall, writer: &mut Writer) {
    writer.field("tool_call_id", &call.own.id);
    writer.field("tool_name", &call.own.tool);
    writer.field("server", &call.own.server);
}

/// The event stream of one message. Every event has the session, the run, a number and a time.
#[derive(Debug)]
pub struct ChatEvents {
    run: RunId,
    session: SessionId,
    number: u64,
}

impl ChatEvents {
    /// Begins a stream with `run.started` and `message.started`.
    pub fn begin(run: RunId, session: &SessionObject, at: Timestamp) -> (Self, Vec<Bytes>) {
        let mut events = Self { run, session: session.session_id.clone(), number: 0 };
        let started = events.event("run.started", at, 2 * FRAME, |writer| writer.field("session", session));
        let message = events.event("message.started", at, FRAME, |writer| writer.field("role", "assistant"));
        (events, vec![started, message])
    }

    /// The conversation has a new head.
    pub fn moved(&mut self, session: &SessionId) {
        self.session = session.clone();
    }

    /// A piece of the answer: `assistant.delta`.
    pub fn delta(&mut self, delta: &Delta, at: Timestamp) -> Vec<Bytes> {
        let texts = [&delta.content, &delta.refusal].into_iter().flatten().filter(|text| !text.is_empty());
        texts.map(|text| self.text(text, at)).collect()
    }

    /// A piece of the answer's text: `assistant.delta`.
    pub fn text(&mut self, text: &str, at: Timestamp) -> Bytes {
        self.event("assistant.delta", at, FRAME + text.len(), |writer| writer.field("delta", text))
    }

    /// Something happened to a call of one of Herma's own tools: `tool.started`, `tool.completed` or `tool.failed`.
    /// Here
    /// nobody is asked.
    pub fn call(&mut self, event: &CallEvent, at: Timestamp) -> Option<Bytes> {
        match event {
            CallEvent::Started(call) => {
                Some(self.event("tool.started", at, FRAME + 2 * call.arguments.len(), |writer| {
                    write_call(call, writer);
                    writer.field("preview", preview(&call.arguments));
                    match serde_json::from_str::<&RawValue>(&call.arguments) {
                        Ok(json) => writer.field("args", json),
                        Err(_) => writer.field("args", &call.arguments),
                    }
                }))
            }
            CallEvent::Ended(call, result) => {
                let name = if result.is_done() { "tool.completed" } else { "tool.failed" };
                Some(self.event(name, at, 2 * FRAME, |writer| {
                    write_call(call, writer);
                    writer.field("preview", preview(&result.text));
                    writer.field("duration", &result.seconds());
                    writer.field("error", &!result.is_done());
                }))
            }
            CallEvent::Asked(_) | CallEvent::Responded(..) => None,
        }
    }

    /// The answer is complete: `assistant.completed`, `run.completed` and `done`.
    pub fn finish(mut self, answer: &Answer, session: &SessionObject, at: Timestamp) -> Vec<Bytes> {
        self.moved(&session.session_id);
        let capacity = answer.content.as_ref().map_or(0, String::len) + 2 * FRAME;
        let message = self.event("assistant.completed", at, capacity, |writer| {
            writer.field("content", &answer.content);
        });
        let run = self.event("run.completed", at, 2 * capacity, |writer| {
            writer.key("messages");
            writer.open_array();
            write_message(answer, writer);
            writer.close_array();
            writer.field("usage", &answer.finish.usage.map(RunUsage::from));
            writer.field("session", session);
        });
        vec![message, run, self.event("done", at, FRAME, |_| {})]
    }

    /// There is no answer: `error` and `done`.
    pub fn fail(mut self, error: &ErrorBody, at: Timestamp) -> Vec<Bytes> {
        let failed = self.event("error", at, 2 * FRAME, |writer| {
            writer.field("message", &error.message);
            writer.field("code", &error.code);
        });
        vec![failed, self.event("done", at, FRAME, |_| {})]
    }

    fn event(&mut self, name: &str, at: Timestamp, capacity: usize, fields: impl FnOnce(&mut Writer)) -> Bytes {
        let mut writer = Writer::after(format!("event: {name}\ndata: ").as_bytes(), capacity);
        writer.open_object();
        writer.field("session_id", &self.session);
        writer.field("run_id", &self.run);
        writer.field("seq", &self.number);
        writer.field("ts", &(at.0 as f64 / 1000.0));
        fields(&mut writer);
        writer.close_object();
        self.number += 1;
        Bytes::from(writer.into_bytes(crate::sse::END))
    }
}
