//! Calls of Herma's own tools, read from stored messages, and the events that tell of them.
//!
//! Runs, chat streams and session chats tell the same story under different names. [`CallEvents`] decides what is told
//! and in which order. It looks at steps alone, so a turn that is read again tells the same.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use herma_model::generation::Finish;
use herma_model::{ApprovalChoice, CallId, CallStatus, EarlierCall, FinishReason, OwnCall, Step, Utterance};
use serde_json::Map;

use crate::chat::{answer_of, shown_text};
use crate::json::Writer;
use crate::sse;

/// A call of one of Herma's own tools, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCall {
    /// The call.
    pub own: OwnCall,
    /// The arguments, JSON text as the model wrote it.
    pub arguments: String,
}

/// The calls of Herma's own tools that a message makes, in order.
pub fn made_calls(said: &Utterance) -> Vec<MadeCall> {
    let own = said.own_calls();
    if own.is_empty() {
        return Vec::new();
    }
    let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() };
    let calls = answer_of(said, finish).tool_calls;
    let with_arguments = |own: OwnCall| {
        let call = calls.iter().find(|call| *call.id == *own.id);
        MadeCall { arguments: call.map(|call| call.arguments.clone()).unwrap_or_default(), own }
    };
    own.into_iter().map(with_arguments).collect()
}

/// The end of a call of one of Herma's own tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// The call.
    pub id: CallId,
    /// How it ended.
    pub status: CallStatus,
    /// How long it took.
    pub duration_ms: u64,
    /// The result that the model sees.
    pub text: String,
    /// The call itself, if an earlier turn made it.
    pub earlier: Option<EarlierCall>,
    /// The text that it replaced, if it changed a file.
    pub old_text: Option<Arc<str>>,
}

impl CallResult {
    /// Reads a message. `None` if it is not the result of one of Herma's own tools.
    pub fn of(said: &Utterance) -> Option<Self> {
        let end = said.call_end()?;
        Some(Self {
            id: said.calls.first()?.clone(),
            status: end.status,
            duration_ms: end.duration_ms,
            text: shown_text(said).unwrap_or_default(),
            earlier: end.call,
            old_text: end.old_text,
        })
    }

    /// Whether the tool answered, and did not say that it failed.
    pub fn is_done(&self) -> bool {
        self.status == CallStatus::Done
    }

    /// How long it took, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.duration_ms as f64 / 1000.0
    }

    /// The call, if an earlier turn made it.
    pub(crate) fn earlier_call(&self) -> Option<MadeCall> {
        let earlier = self.earlier.as_ref()?;
        let (server, tool) = (earlier.server.clone(), earlier.tool.clone());
        let own = OwnCall { id: self.id.clone(), server, tool, asks: false, waits: false, max_output: None };
        Some(MadeCall { own, arguments: earlier.arguments.to_string() })
    }

    /// Whether the call was made, or may have been made.
    const fn was_made(&self) -> bool {
        matches!(self.status, CallStatus::Done | CallStatus::Failed | CallStatus::Uncertain)
    }
}

/// Something that happened to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// A person is asked whether it may be made.
    Asked(MadeCall),
    /// A person answered.
    Responded(OwnCall, ApprovalChoice),
    /// It is made.
    Started(MadeCall),
    /// It has ended. A call that was not allowed ends without having been started.
    Ended(MadeCall, CallResult),
}

/// Most characters of the arguments or of a result that an event shows as its preview.
const PREVIEW: usize = 200;

impl CallEvent {
    /// Writes the fields that runs and chat streams show.
    pub(crate) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Asked(call) | Self::Started(call) => {
                write_call(&call.own, writer);
                writer.field("arguments", &call.arguments);
                writer.field("preview", preview(&call.arguments));
            }
            Self::Responded(call, choice) => {
                write_call(call, writer);
                writer.field("choice", choice);
            }
            Self::Ended(call, result) => {
                write_call(&call.own, writer);
                writer.field("duration", &result.seconds());
                writer.field("error", &!result.is_done());
                writer.field("status", &result.status);
                writer.field("preview", preview(&result.text));
            }
        }
    }

    /// The event as a frame of a chat stream, for clients that asked for such events. Chats ask nobody, so `None` for
    /// questions and answers.
    pub fn chat_frame(&self) -> Option<Bytes> {
        let name = match self {
            Self::Started(_) => "tool.started",
            Self::Ended(..) => "tool.completed",
            Self::Asked(_) | Self::Responded(..) => return None,
        };
        let mut writer = Writer::with_capacity(256);
        writer.open_object();
        self.write(&mut writer);
        writer.close_object();
        Some(sse::event(name, &writer.into_text()))
    }
}

fn write_call(call: &OwnCall, writer: &mut Writer) {
    writer.field("tool", &call.tool);
    writer.field("server", &call.server);
    writer.field("call_id", &call.id);
}

/// The beginning of a text.
pub(crate) fn preview(text: &str) -> &str {
    text.char_indices().nth(PREVIEW).map_or(text, |(end, _)| &text[..end])
}

/// Says what happens to the calls of a turn, step by step.
#[derive(Debug, Default)]
pub struct CallEvents {
    /// The calls of the last message.
    calls: Vec<MadeCall>,
    started: HashSet<CallId>,
    /// Questions that have no answer yet.
    open_questions: usize,
}

impl CallEvents {
    /// The events of a step.
    ///
    /// A call that waits for answers about other calls of its message starts when the last of them is answered. If
    /// nobody answers in time, it starts just before its end.
    pub fn step(&mut self, step: &Step) -> Vec<CallEvent> {
        match step {
            Step::Compacted(_) => Vec::new(),
            Step::Said(message) => self.said(&message.said),
            Step::Answered(call, answer) => self.answered(call, answer.choice),
            Step::ToolResult(message) => {
                CallResult::of(&message.said).map(|result| self.ended(result)).unwrap_or_default()
            }
        }
    }

    fn said(&mut self, said: &Utterance) -> Vec<CallEvent> {
        self.calls = made_calls(said);
        self.started.clear();
        self.open_questions = self.calls.iter().filter(|call| call.own.asks).count();
        let asked = self.calls.iter().filter(|call| call.own.asks).cloned().map(CallEvent::Asked);
        let mut events: Vec<CallEvent> = asked.collect();
        events.extend(self.start(|call| !call.own.waits));
        events
    }

    fn answered(&mut self, call: &OwnCall, choice: ApprovalChoice) -> Vec<CallEvent> {
        self.open_questions = self.open_questions.saturating_sub(1);
        let mut events = vec![CallEvent::Responded(call.clone(), choice)];
        if choice.allows() {
            events.extend(self.start(|made| made.own.id == call.id));
        }
        if self.open_questions == 0 {
            events.extend(self.start(|made| !made.own.asks));
        }
        events
    }

    fn ended(&mut self, result: CallResult) -> Vec<CallEvent> {
        let of_last_message = || self.calls.iter().find(|call| call.own.id == result.id).cloned();
        let Some(call) = result.earlier_call().or_else(of_last_message) else { return Vec::new() };
        let mut events = Vec::new();
        if result.was_made() && self.started.insert(result.id.clone()) {
            events.push(CallEvent::Started(call.clone()));
        }
        events.push(CallEvent::Ended(call, result));
        events
    }

    /// Starts calls that have not started.
    fn start(&mut self, starts: impl Fn(&MadeCall) -> bool) -> Vec<CallEvent> {
        let calls = self.calls.iter().filter(|call| starts(call));
        calls.filter(|call| self.started.insert(call.own.id.clone())).cloned().map(CallEvent::Started).collect()
    }
}
