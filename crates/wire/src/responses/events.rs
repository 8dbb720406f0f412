//! The event stream of a response, as a pure state machine. Each method reports what happened and returns its events,
//! numbered from 0.
//!
//! An item ends when the next one begins. A later piece of an ended item begins a new item. Only a call stays open:
//! until its arguments are a whole JSON object. Some model servers interleave the pieces of several calls. A call of
//! one of Herma's own tools stays open until its result is there.
//!
//! The terminal events are the three that both OpenAI and Open Responses know. A cancelled response ends with
//! `response.failed`, and its object has the status `cancelled`. A new event name would make clients throw, and
//! `response.incomplete` means that the model ended the answer.
//!
//! If there is no answer, open texts end as incomplete. Calls do not end at all, because clients execute calls that
//! end. The last object has no reasoning and no calls of the message that was cut off, because they are not stored.

mod closing;
mod frames;
mod opening;
mod own_calls;
mod steps;

use herma_model::generation::ToolCallDelta;
use herma_model::{CallId, Delta, MessageId, TextRun, Timestamp, Usage};
use serde_json::Value;

use super::item::{Item, ItemStatus, Part};
use super::logprobs;
use super::object::{About, ResponseOutcome, ResponseState};
use crate::chat::reasoning_text;
use crate::client_tools::{ClientTools, CustomInput};
use crate::session::SessionObject;
use crate::sse::{Frame, write_frames};

pub use steps::output;

/// How a response ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The outcome.
    pub outcome: ResponseOutcome,
    /// When it ended.
    pub at: Timestamp,
    /// Tokens, if the model server counted them.
    pub usage: Option<Usage>,
}

/// The event stream of one response.
#[derive(Debug)]
pub struct Events {
    about: About,
    /// The model message that is being said.
    message: MessageId,
    number: u64,
    entries: Vec<Entry>,
    /// Where the items of that message begin.
    first_entry: usize,
    /// Its calls of the client's tools.
    calls: Vec<Call>,
    /// What the model calls the client's tools. Known from the first call on.
    client_tools: Option<ClientTools>,
    /// Calls of Herma's own tools in the message before, and their items.
    own_calls: Vec<(CallId, usize)>,
    /// Whether calls of the client's tools are still to come, after the results of the other calls of their message.
    client_calls_follow: bool,
    /// Log probabilities whose text has not come yet.
    logprobs: Vec<Value>,
    frames: Vec<Frame>,
}

/// An item of the output. Its index in the list is its `output_index`.
#[derive(Debug)]
struct Entry {
    item: Item,
    is_open: bool,
    /// The arguments of a custom tool's call, from which its text is taken.
    custom: Option<CustomInput>,
}

/// The kind of a part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Text,
    Refusal,
}

/// What is known of a call. Its item begins when its name is known.
#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    /// Arguments that came before the name.
    early_arguments: String,
    entry: Option<usize>,
}

impl Events {
    /// Begins a stream with `response.created`, and `response.queued` if the response runs in the background. `message`
    /// is the id that the answer will have in the transcript.
    pub fn begin(about: About, message: MessageId, session: Option<&SessionObject>) -> (Self, Vec<Frame>) {
        let mut events = Self {
            about,
            message,
            number: 0,
            entries: Vec::new(),
            first_entry: 0,
            calls: Vec::new(),
            client_tools: None,
            own_calls: Vec::new(),
            client_calls_follow: false,
            logprobs: Vec::new(),
            frames: Vec::new(),
        };
        let is_queued = events.about.echo.background();
        let state = if is_queued { ResponseState::Queued } else { ResponseState::InProgress };
        events.emit_response("response.created", &state, None, session);
        if is_queued {
            events.emit_response("response.queued", &state, None, None);
        }
        let frames = events.take_frames();
        (events, frames)
    }

    /// The turn has begun: `response.in_progress`.
    pub fn started(&mut self) -> Vec<Frame> {
        self.emit_response("response.in_progress", &ResponseState::InProgress, None, None);
        self.take_frames()
    }

    /// The context was compacted. `item` is a [`super::compaction_item`].
    pub fn compacted(&mut self, item: Item) -> Vec<Frame> {
        self.emit_compaction(item);
        self.take_frames()
    }

    /// A piece of the answer.
    pub fn delta(&mut self, delta: &Delta) -> Vec<Frame> {
        self.logprobs.extend(logprobs::of_choice(&delta.choice_extra));
        if let Some(text) = reasoning_text(&delta.extra) {
            self.reasoning(text);
        }
        if let Some(text) = delta.content.as_deref().filter(|text| !text.is_empty()) {
            self.push_text(PartKind::Text, text);
        }
        if let Some(text) = delta.refusal.as_deref().filter(|text| !text.is_empty()) {
            self.push_text(PartKind::Refusal, text);
        }
        for piece in &delta.tool_calls {
            self.call(piece);
        }
        self.take_frames()
    }

    /// Pieces of the answer's text. Their events are added to `out`, except those up to the number `after`.
    pub fn text(&mut self, run: &TextRun, after: Option<u64>, out: &mut Vec<u8>) {
        let (at, part) = self.part_entry(PartKind::Text);
        write_frames(&self.take_frames(), after, out);
        if let Item::Message { content, .. } = &mut self.entries[at].item
            && let Some(Part::OutputText { text: whole, logprobs, .. }) = content.last_mut()
        {
            whole.push_str(run.whole());
            logprobs.append(&mut self.logprobs);
        }
        self.write_text_deltas(at, part, run, after, out);
    }

    /// Skips numbers. After a crash, clients may have seen events that were never stored. Later events must not reuse
    /// their numbers.
    pub const fn skip(&mut self, numbers: u64) {
        self.number = self.number.saturating_add(numbers);
    }

    fn take_frames(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.frames)
    }

    fn emit_compaction(&mut self, mut item: Item) {
        self.end_last();
        item.set_status(ItemStatus::InProgress);
        let at = self.open(item);
        self.close(at, ItemStatus::Completed);
    }

    fn reasoning(&mut self, text: &str) {
        let at = self.reasoning_entry();
        if let Item::Reasoning { summary, .. } = &mut self.entries[at].item
            && let Some(Part::SummaryText { text: whole }) = summary.last_mut()
        {
            whole.push_str(text);
        }
        self.emit_delta("response.reasoning_summary_text.delta", at, Some(("summary_index", 0)), text);
    }

    fn push_text(&mut self, kind: PartKind, text: &str) {
        let (at, part) = self.part_entry(kind);
        let mut event = frames::TEXT_DELTA;
        if let Item::Message { content, .. } = &mut self.entries[at].item {
            match content.last_mut() {
                Some(Part::OutputText { text: whole, logprobs, .. }) => {
                    whole.push_str(text);
                    logprobs.append(&mut self.logprobs);
                }
                Some(Part::Refusal { refusal }) => {
                    refusal.push_str(text);
                    event = "response.refusal.delta";
                }
                _ => {}
            }
        }
        self.emit_delta(event, at, Some(("content_index", part)), text);
    }

    fn call(&mut self, piece: &ToolCallDelta) {
        let index = piece.index as usize;
        // Model servers number their calls without gaps. A piece after a gap belongs to no call and is ignored.
        if index > self.calls.len() {
            return;
        }
        if index == self.calls.len() {
            self.calls.push(Call::default());
        }
        let call = &mut self.calls[index];
        if let Some(id) = &piece.id {
            call.id.clone_from(id);
        }
        let arguments = piece.arguments.as_deref().unwrap_or_default();
        match call.entry {
            Some(at) => self.arguments(at, arguments),
            None => {
                call.name.push_str(piece.name.as_deref().unwrap_or_default());
                call.early_arguments.push_str(arguments);
                if !call.name.is_empty() {
                    self.begin_call(piece.index);
                }
            }
        }
    }

    /// Adds a piece of a call's arguments. It is ignored if the item has ended, because the arguments were whole then.
    fn arguments(&mut self, at: usize, text: &str) {
        let entry = &mut self.entries[at];
        if !entry.is_open || text.is_empty() {
            return;
        }
        if let Item::FunctionCall { arguments, .. } = &mut entry.item {
            arguments.push_str(text);
            self.emit_delta("response.function_call_arguments.delta", at, None, text);
        } else if let Some(custom) = &mut entry.custom {
            let text = custom.push(text);
            self.custom_text(at, &text);
        }
    }

    /// Adds a piece of the text of a custom tool's call.
    fn custom_text(&mut self, at: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Item::CustomToolCall { input, .. } = &mut self.entries[at].item {
            input.push_str(text);
        }
        self.emit_delta("response.custom_tool_call_input.delta", at, None, text);
    }
}
