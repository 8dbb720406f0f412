//! The stream of a run: a pure machine that is told what happens and gives the events of it, numbered from 0.
//!
//! Hermes' clients read an event's name in its data, so frames have an id and no name of their own. A stream ends with exactly one of
//! `run.completed`, `run.failed`, `run.cancelled` and `run.interrupted`. The same steps give the same bytes, whenever they are told.

use bytes::Bytes;
use herma_model::{CompactionId, Delta, RunId, SessionId, Timestamp};

use super::object::{RunEnding, RunOutput};
use crate::chat::reasoning_text;
use crate::json::Writer;
use crate::responses::ResponseError;
use crate::session::SessionObject;
use crate::sse::{self, Frame};

/// Room for what surrounds a delta.
const FRAME: usize = 160;

/// A run's stream under way.
#[derive(Debug)]
pub struct RunEvents {
    run: RunId,
    number: u64,
    /// The reasoning that is being shown.
    reasoning: String,
    frames: Vec<Frame>,
}

impl RunEvents {
    /// A stream that has shown nothing yet.
    pub const fn new(run: RunId) -> Self {
        Self { run, number: 0, reasoning: String::new(), frames: Vec::new() }
    }

    /// The turn has begun: `run.started`. `created_at` is when the run was asked for.
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

    /// A piece of the answer: `reasoning.delta` and `message.delta`. When something follows reasoning, `reasoning.available` has all
    /// of it. Calls are shown at the end, whole.
    pub fn delta(&mut self, delta: &Delta) -> Vec<Frame> {
        if let Some(text) = reasoning_text(&delta.extra) {
            self.reasoning.push_str(text);
            self.emit_delta("reasoning.delta", text);
        }
        for text in [&delta.content, &delta.refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
            self.end_reasoning();
            self.emit_delta("message.delta", text);
        }
        if !delta.tool_calls.is_empty() {
            self.end_reasoning();
        }
        self.take_frames()
    }

    /// Leaves out numbers. After a crash, events may have been shown that nobody remembers; what follows must not bear their numbers.
    pub const fn skip(&mut self, numbers: u64) {
        self.number = self.number.saturating_add(numbers);
    }

    /// Ends the stream and says how the run ended. What it gave is shown of a completed run alone.
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

    fn emit_error(&mut self, event: &str, error: &ResponseError) {
        self.emit(event, FRAME + error.message.len(), |writer| {
            writer.field("error", &error.message);
            writer.field("code", &error.code);
        });
    }

    fn emit(&mut self, event: &str, room: usize, fields: impl FnOnce(&mut Writer)) {
        let mut writer = Writer::after(format!("id: {}\ndata: ", self.number).as_bytes(), room);
        writer.open_object();
        writer.field("event", event);
        writer.field("run_id", &self.run);
        fields(&mut writer);
        writer.close_object();
        self.frames.push(Frame { number: self.number, bytes: Bytes::from(writer.into_bytes(sse::END)) });
        self.number += 1;
    }
}
