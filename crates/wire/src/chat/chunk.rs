//! An answer as a stream. Each function makes one whole SSE frame.
//!
//! A stream is the role chunk, any number of delta chunks, the finish chunk, the usage chunk if the client asked for
//! it, and [`crate::sse::DONE`].

use bytes::Bytes;
use herma_model::generation::{Finish, ToolCallDelta};
use herma_model::{Answer, Delta, TextRun, Usage};

use super::completion::{Head, OWN_CHOICE, OWN_MESSAGE, write_end};
use super::tool_calls::fields_of;
use super::usage::ChatUsage;
use crate::json::Writer;
use crate::session::SessionObject;
use crate::sse::{self, TextFrames};

/// Fields of a piece of a tool call that are written from the delta itself.
const OWN_CALL: [&str; 5] = ["index", "id", "type", "function", "custom"];
/// Bytes reserved for the JSON around a delta.
const FRAME: usize = 256;

/// The first chunk: the role.
pub fn role_chunk(head: &Head<'_>) -> Bytes {
    let mut writer = begin(head, 0);
    writer.raw(r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}"#);
    end(writer)
}

/// A piece of the answer.
pub fn delta_chunk(head: &Head<'_>, delta: &Delta) -> Bytes {
    let mut writer = begin(head, delta.content.as_ref().map_or(0, String::len));
    writer.open_object();
    writer.raw_field("index", "0");
    writer.key("delta");
    writer.open_object();
    if let Some(content) = &delta.content {
        writer.field("content", content);
    }
    if let Some(refusal) = &delta.refusal {
        writer.field("refusal", refusal);
    }
    if !delta.tool_calls.is_empty() {
        writer.key("tool_calls");
        writer.open_array();
        delta.tool_calls.iter().for_each(|call| write_call(call, &mut writer));
        writer.close_array();
    }
    writer.extras(&delta.extra, &OWN_MESSAGE);
    writer.close_object();
    writer.extras(&delta.choice_extra, &OWN_CHOICE);
    writer.raw_field("finish_reason", "null");
    writer.close_object();
    end(writer)
}

/// Pieces of the answer's text, each as a chunk of its own.
pub fn write_text_chunks(head: &Head<'_>, run: &TextRun, out: &mut Vec<u8>) {
    let mut writer = begin(head, 0);
    writer.open_object();
    writer.raw_field("index", "0");
    writer.key("delta");
    writer.open_object();
    writer.key("content");
    let tail = "},\"finish_reason\":null}]}";
    let frames = TextFrames { head: writer.into_bytes(b""), middle: Vec::new(), tail };
    out.reserve(run.whole().len() + run.count() * (frames.head.len() + 2 * sse::END.len() + tail.len()));
    run.pieces().for_each(|piece| frames.write(None, piece, out));
}

/// The last chunk of the answer: why it ended, and the `session` object.
pub fn finish_chunk(head: &Head<'_>, finish: &Finish, session: Option<&SessionObject>) -> Bytes {
    let mut writer = begin(head, if session.is_some() { 2 * FRAME } else { 0 });
    writer.open_object();
    writer.raw_field("index", "0");
    writer.raw_field("delta", "{}");
    writer.field("finish_reason", &finish.reason);
    writer.close_object();
    writer.close_array();
    write_end(&finish.extra, session, &mut writer);
    frame(writer)
}

/// The chunk after the finish chunk, with the usage and no choices. The usage is null if the model server counted
/// nothing.
pub fn usage_chunk(head: &Head<'_>, usage: Option<&Usage>) -> Bytes {
    let mut writer = begin(head, 0);
    writer.close_array();
    writer.field("usage", &usage.map(ChatUsage::from));
    writer.close_object();
    frame(writer)
}

/// The pieces in which a stored answer is streamed again: extra fields, text, refusal, tool calls.
pub fn whole_answer_deltas(answer: &Answer) -> Vec<Delta> {
    let calls = answer.tool_calls.iter().zip(0..).map(|(call, index)| ToolCallDelta {
        index,
        id: Some(call.id.clone()),
        name: Some(call.name.clone()),
        arguments: Some(call.arguments.clone()),
        custom: call.custom,
        extra: call.extra.clone(),
    });
    let pieces = [
        Delta { extra: answer.extra.clone(), ..Delta::default() },
        Delta { content: answer.content.clone(), choice_extra: answer.choice_extra.clone(), ..Delta::default() },
        Delta { refusal: answer.refusal.clone(), ..Delta::default() },
        Delta { tool_calls: calls.collect(), ..Delta::default() },
    ];
    pieces.into_iter().filter(|delta| !delta.is_empty()).collect()
}

fn write_call(call: &ToolCallDelta, writer: &mut Writer) {
    let is_first = call.id.is_some() || call.name.is_some();
    writer.open_object();
    writer.field("index", &call.index);
    if let Some(id) = &call.id {
        writer.field("id", id);
    }
    let (kind, arguments) = fields_of(call.custom);
    if is_first {
        writer.field("type", kind);
    }
    writer.key(kind);
    writer.open_object();
    if let Some(name) = &call.name {
        writer.field("name", name);
    }
    // SDKs append to the arguments of the first piece, so the first piece must have some.
    if is_first || call.arguments.is_some() {
        writer.field(arguments, call.arguments.as_deref().unwrap_or_default());
    }
    writer.close_object();
    writer.extras(&call.extra, &OWN_CALL);
    writer.close_object();
}

/// Begins a chunk and opens its choices.
fn begin(head: &Head<'_>, content: usize) -> Writer {
    let mut writer = Writer::after(sse::DATA, content + FRAME);
    head.write("chat.completion.chunk", &mut writer);
    writer.key("choices");
    writer.open_array();
    writer
}

fn end(mut writer: Writer) -> Bytes {
    writer.close_array();
    writer.close_object();
    frame(writer)
}

fn frame(writer: Writer) -> Bytes {
    Bytes::from(writer.into_bytes(sse::END))
}
