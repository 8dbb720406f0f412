//! The event stream of a run, as a pure state machine. Each method reports what happened and returns its events,
//! numbered from 0.
//!
//! Hermes' clients read an event's name from its data, so a frame has an id but no name. A stream ends with exactly one
//! of `run.completed`, `run.failed`, `run.cancelled` and `run.interrupted`. The same calls always give the same bytes.

use bytes::Bytes;
use herma_model::{ApprovalChoice, CompactionId, Delta, RunId, SessionId, Step, TextRun, Timestamp};

use super::object::{RunEnding, RunOutput};
use crate::chat::reasoning_text;
use crate::json::Writer;
use crate::own_tools::{CallEvent, CallEvents};
use crate::responses::ResponseError;
use crate::session::SessionObject;
use crate::sse::{self, Frame, TextFrames};

/// Bytes reserved for the JSON around a delta.
const FRAME: usize = 160;
/// The event of a piece of text.
const TEXT_DELTA: &str = "message.delta";

/// The event stream of one run.
#[derive(Debug)]
pub struct RunEvents {
    run: RunId,
    number: u64,
    /// The reasoning since the last `reasoning.available`.
    reasoning: String,
    calls: CallEvents,
    frames: Vec<Frame>,
}

impl RunEvents {
    /// A stream without events so far.
    pub fn new(run: RunId) -> Self {
        Self { run, number: 0, reasoning: String::new(), calls: CallEvents::default(), frames: Vec::new() }
    }

    /// The turn has begun: `run.started`. `created_at` is when the client requested the run.
    pub fn started(&mut self, created_at: Timestamp, session: &SessionObject) -> Vec<Frame> {
        self.emit("run.started", 2 * FRAME, |writer| {
            writer.field("created_at", &created_at.seconds());
            writer.field("session", session);
        });
        self.take_frames()
    }

    /// The context was compacted: `session.compacted`. `session` is the head after it.
    pub fn compacted(&mut self, compaction: CompactionId, session: &SessionId) -> Vec<Frame> {
        self.end_reasoning();
        self.emit("session.compacted", FRAME, |writer| {
            writer.field("compaction_id", &compaction);
            writer.field("session_id", session);
        });
        self.take_frames()
    }

    /// The turn made a step: `session.compacted`, or what happens to calls of Herma's own tools. `session` is the head
    /// after it.
    pub fn step(&mut self, step: &Step, session: &SessionId) -> Vec<Frame> {
        if let Some(id) = step.compaction() {
            return self.compacted(id, session);
        }
        let events = self.calls.step(step);
        if !events.is_empty() {
            self.end_reasoning();
        }
        for event in &events {
            self.emit_call(event);
        }
        self.take_frames()
    }

    /// A piece of the answer: `reasoning.delta` and `message.delta`. When something follows reasoning,
    /// `reasoning.available` has all of that reasoning. Tool calls are shown only at the end, whole.
    pub fn delta(&mut self, delta: &Delta) -> Vec<Frame> {
        if let Some(text) = reasoning_text(&delta.extra) {
            self.reasoning.push_str(text);
            self.emit_delta("reasoning.delta", text);
        }
        for text in [&delta.content, &delta.refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
            self.end_reasoning();
            self.emit_delta(TEXT_DELTA, text);
        }
        if !delta.tool_calls.is_empty() {
            self.end_reasoning();
        }
        self.take_frames()
    }

    /// Pieces of the answer's text. Their events are added to `out`, except those up to the number `after`.
    pub fn text(&mut self, run: &TextRun, after: Option<u64>, out: &mut Vec<u8>) {
        self.end_reasoning();
        sse::write_frames(&self.take_frames(), after, out);
        let mut middle = Writer::after(b"\ndata: ", FRAME);
        self.write_head(TEXT_DELTA, &mut middle);
        middle.key("delta");
        let frames = TextFrames { head: b"id: ".to_vec(), middle: middle.into_bytes(b""), tail: "}" };
        self.number = frames.write_numbered(self.number, run.pieces(), after, out);
    }

    /// Skips numbers. After a crash, clients may have seen events that were never stored. Later events must not reuse
    /// their numbers.
    pub const fn skip(&mut self, numbers: u64) {
        self.number = self.number.saturating_add(numbers);
    }

    /// Ends the stream and says how the run ended. Only a completed run shows its output.
    pub fn end(mut self, ending: &RunEnding, output: &RunOutput<'_>, session: Option<&SessionObject>) -> Vec<Frame> {
        self.end_reasoning();
        match ending {
            RunEnding::Completed => {
                let text = output.text.as_ref().map_or(0, |text| text.len());
                self.emit("run.completed", 2 * FRAME + text, |writer| {
                    output.write(writer);
                    if let Some(session) = session {
                        writer.field("session", session);
                    }
                });
            }
            RunEnding::Failed(error) => self.emit_error("run.failed", error),
            RunEnding::Interrupted(error) => self.emit_error("run.interrupted", error),
            RunEnding::Cancelled => self.emit("run.cancelled", FRAME, |_| {}),
        }
        self.take_frames()
    }

    fn take_frames(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.frames)
    }

    fn end_reasoning(&mut self) {
        let text = std::mem::take(&mut self.reasoning);
        if !text.is_empty() {
            self.emit("reasoning.available", FRAME + text.len(), |writer| writer.field("text", &text));
        }
    }

    fn emit_delta(&mut self, event: &str, text: &str) {
        self.emit(event, FRAME + text.len(), |writer| writer.field("delta", text));
    }

    fn emit_call(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Asked(call) => self.emit("approval.request", FRAME + call.arguments.len(), |writer| {
                event.write(writer);
                writer.field("choices", &ApprovalChoice::ALL);
            }),
            CallEvent::Responded(..) => self.emit("approval.responded", FRAME, |writer| event.write(writer)),
            CallEvent::Started(call) => {
                self.emit("tool.started", FRAME + call.arguments.len(), |writer| event.write(writer));
            }
            CallEvent::Ended(..) => self.emit("tool.completed", FRAME, |writer| event.write(writer)),
        }
    }

    fn emit_error(&mut self, event: &str, error: &ResponseError) {
        self.emit(event, FRAME + error.message.len(), |writer| {
            writer.field("error", &error.message);
            writer.field("code", &error.code);
        });
    }

    fn emit(&mut self, event: &str, capacity: usize, fields: impl FnOnce(&mut Writer)) {
        let mut writer = Writer::after(format!("id: {}\ndata: ", self.number).as_bytes(), capacity);
        self.write_head(event, &mut writer);
        fields(&mut writer);
        writer.close_object();
        self.frames.push(Frame { number: self.number, bytes: Bytes::from(writer.into_bytes(sse::END)) });
        self.number += 1;
    }

    fn write_head(&self, event: &str, writer: &mut Writer) {
        writer.open_object();
        writer.field("event", event);
        writer.field("run_id", &self.run);
    }
}
