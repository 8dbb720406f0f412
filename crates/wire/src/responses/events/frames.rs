//! Writes events as frames.

use bytes::Bytes;
use herma_model::{TextRun, Timestamp, Usage};

use super::Events;
use crate::json::Writer;
use crate::responses::item::{Item, Part};
use crate::responses::object::{ResponseObject, ResponseState};
use crate::session::SessionObject;
use crate::sse::{self, Frame, TextFrames};

/// Bytes reserved for the JSON around a delta.
const FRAME: usize = 256;
/// The event of a piece of text.
pub(super) const TEXT_DELTA: &str = "response.output_text.delta";

impl Events {
    /// Emits an event about the whole response.
    pub(super) fn emit_response(
        &mut self,
        kind: &str,
        state: &ResponseState,
        ended: Option<(Timestamp, Option<Usage>)>,
        session: Option<&SessionObject>,
    ) {
        let output: Vec<Item> = self.entries.iter().map(|entry| entry.item.clone()).collect();
        let mut writer = begin(kind, self.number, 2048);
        let object = ResponseObject {
            about: &self.about,
            state,
            completed_at: ended.map(|(at, _)| at),
            output: &output,
            usage: ended.and_then(|(_, usage)| usage),
            session,
        };
        writer.key("response");
        object.write(&mut writer);
        self.push_frame(writer);
    }

    /// Emits an event that has a whole item.
    pub(super) fn emit_item(&mut self, kind: &str, at: usize) {
        self.emit(kind, at, FRAME, |item, writer| {
            writer.field("output_index", &at);
            writer.field("item", item);
        });
    }

    /// Emits an event that has a whole part.
    pub(super) fn emit_part(&mut self, kind: &str, at: usize, index: usize) {
        self.emit(kind, at, FRAME, |item, writer| {
            let (name, part) = match item {
                Item::Reasoning { summary, .. } => ("summary_index", summary.get(index)),
                Item::Message { content, .. } => ("content_index", content.get(index)),
                _ => ("content_index", None),
            };
            write_position(item, at, Some((name, index)), writer);
            writer.field("part", &part);
        });
    }

    /// Emits the next piece of a text.
    pub(super) fn emit_delta(&mut self, kind: &str, at: usize, part: Option<(&str, usize)>, text: &str) {
        self.emit(kind, at, FRAME + text.len(), |item, writer| {
            write_position(item, at, part, writer);
            writer.field("delta", text);
            if kind == TEXT_DELTA {
                writer.raw_field("logprobs", "[]");
            }
        });
    }

    /// Writes the next pieces of the text of a message, each as an event of its own.
    pub(super) fn write_text_deltas(
        &mut self,
        at: usize,
        part: usize,
        run: &TextRun,
        after: Option<u64>,
        out: &mut Vec<u8>,
    ) {
        let mut head = begin_unnumbered(TEXT_DELTA, FRAME);
        head.key("sequence_number");
        // The number stands for that of each event, so that a comma follows it.
        let mut middle = Writer::after(b"0", FRAME);
        write_position(&self.entries[at].item, at, Some(("content_index", part)), &mut middle);
        middle.key("delta");
        let middle = middle.into_bytes(b"").split_off(1);
        let frames = TextFrames { head: head.into_bytes(b""), middle, tail: ",\"logprobs\":[]}" };
        self.number = frames.write_numbered(self.number, run.pieces(), after, out);
    }

    /// Emits the end of a text, with all of it.
    pub(super) fn emit_text_done(&mut self, kind: &str, at: usize, index: usize) {
        self.emit(kind, at, FRAME, |item, writer| match item {
            Item::FunctionCall { name, arguments, .. } => {
                write_position(item, at, None, writer);
                writer.field("name", name);
                writer.field("arguments", arguments);
            }
            Item::CustomToolCall { input, .. } => {
                write_position(item, at, None, writer);
                writer.field("input", input);
            }
            Item::McpCall { arguments, .. } => {
                write_position(item, at, None, writer);
                writer.field("arguments", arguments);
            }
            Item::Reasoning { summary, .. } => {
                write_position(item, at, Some(("summary_index", index)), writer);
                write_text(summary.get(index), writer);
            }
            Item::Message { content, .. } => {
                write_position(item, at, Some(("content_index", index)), writer);
                write_text(content.get(index), writer);
            }
            Item::FunctionCallOutput { .. }
            | Item::CustomToolCallOutput { .. }
            | Item::McpApprovalRequest { .. }
            | Item::McpApprovalResponse { .. }
            | Item::Compaction { .. } => {}
        });
    }

    /// Emits an event that says how far an item is.
    pub(super) fn emit_state(&mut self, kind: &str, at: usize) {
        self.emit(kind, at, FRAME, |item, writer| write_position(item, at, None, writer));
    }

    /// Emits an event about an item.
    fn emit(&mut self, kind: &str, at: usize, capacity: usize, fields: impl FnOnce(&Item, &mut Writer)) {
        let mut writer = begin(kind, self.number, capacity);
        fields(&self.entries[at].item, &mut writer);
        self.push_frame(writer);
    }

    fn push_frame(&mut self, mut writer: Writer) {
        writer.close_object();
        self.frames.push(Frame { number: self.number, bytes: Bytes::from(writer.into_bytes(sse::END)) });
        self.number += 1;
    }
}

fn begin(kind: &str, number: u64, capacity: usize) -> Writer {
    let mut writer = begin_unnumbered(kind, capacity);
    writer.field("sequence_number", &number);
    writer
}

fn begin_unnumbered(kind: &str, capacity: usize) -> Writer {
    let mut writer = Writer::after(b"event: ", capacity);
    writer.prefix(kind);
    writer.prefix("\ndata: ");
    writer.open_object();
    writer.field("type", kind);
    writer
}

fn write_position(item: &Item, at: usize, part: Option<(&str, usize)>, writer: &mut Writer) {
    writer.field("item_id", item.id());
    writer.field("output_index", &at);
    if let Some((name, index)) = part {
        writer.field(name, &index);
    }
}

fn write_text(part: Option<&Part>, writer: &mut Writer) {
    match part {
        Some(Part::OutputText { text, logprobs, .. }) => {
            writer.field("text", text);
            writer.field("logprobs", logprobs);
        }
        Some(Part::SummaryText { text }) => writer.field("text", text),
        Some(Part::Refusal { refusal }) => writer.field("refusal", refusal),
        _ => {}
    }
}
