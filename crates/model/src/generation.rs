//! One call of a model server, as data: the request, the answer, and how the call can fail.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::kind::stored_enum;
use crate::message::Payload;
use crate::text_run::TextRun;
use crate::trace::TraceContext;
use crate::turn::{FailureCode, TurnFailure};
use crate::usage::Usage;

/// Fields of a request that go to the model server as the client wrote them: name and JSON text, in order.
///
/// `model`, `messages`, `stream` and `stream_options` are never among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params(pub Vec<(Box<str>, Arc<str>)>);

impl Params {
    /// The JSON text of one field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| &**field == name).map(|(_, json)| &**json)
    }
}

/// A request to a model server.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// The model's name on that server.
    pub model: String,
    /// The whole context, system messages first.
    pub messages: Vec<Payload>,
    /// All other fields of the client's request.
    pub params: Arc<Params>,
    /// Whether the answer is streamed.
    pub streaming: bool,
    /// What happens when the call fails before an answer begins.
    pub retries: Retries,
    /// The place in a trace that the model server is told, in headers. `None` if it is told none.
    pub trace: Option<TraceContext>,
}

/// What happens when a call fails before an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Retries {
    /// The call is made again as often as the operator allows.
    #[default]
    AsConfigured,
    /// The failure is final. The client retries by itself, and both kinds of retries would multiply.
    None,
}

stored_enum!(
    /// Why an answer ended.
    FinishReason {
        /// It was complete.
        Stop = "stop",
        /// It reached a length limit.
        Length = "length",
        /// It calls tools.
        ToolCalls = "tool_calls",
        /// It was filtered.
        ContentFilter = "content_filter",
    }
);

impl FinishReason {
    /// Reads the finish reason that a model server sent. An unknown one counts as `stop`.
    pub fn from_wire(text: &str) -> Self {
        match text {
            "function_call" => Self::ToolCalls,
            "max_tokens" => Self::Length,
            other => Self::parse(other).unwrap_or(Self::Stop),
        }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCall {
    /// The id. The result of the call has to name it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, JSON text as the model wrote it. Of a custom tool, its text.
    pub arguments: String,
    /// Whether the tool is a custom one of chat completions: it takes a text.
    pub custom: bool,
    /// Other fields of the call object, sent back with it in later contexts.
    pub extra: Map<String, Value>,
}

/// A piece of one tool call of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolCallDelta {
    /// The index of the call in the answer.
    pub index: u32,
    /// Set on its first piece.
    pub id: Option<String>,
    /// Set on its first piece.
    pub name: Option<String>,
    /// The next part of the arguments.
    pub arguments: Option<String>,
    /// Whether the tool is a custom one of chat completions.
    pub custom: bool,
    /// Other fields of the piece.
    pub extra: Map<String, Value>,
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delta {
    /// The next part of the text.
    pub content: Option<String>,
    /// The next part of a refusal.
    pub refusal: Option<String>,
    /// Pieces of tool calls.
    pub tool_calls: Vec<ToolCallDelta>,
    /// Other fields of the delta object, such as `reasoning_content`.
    pub extra: Map<String, Value>,
    /// Other fields of the choice, such as `logprobs`.
    pub choice_extra: Map<String, Value>,
}

impl Delta {
    /// Whether it has nothing to show to a client.
    pub fn is_empty(&self) -> bool {
        self.content.as_ref().is_none_or(String::is_empty)
            && self.refusal.as_ref().is_none_or(String::is_empty)
            && self.tool_calls.is_empty()
            && self.extra.is_empty()
            && self.choice_extra.is_empty()
    }
}

/// How a streamed answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens, if the server counted them.
    pub usage: Option<Usage>,
    /// The model that answered, by its own name.
    pub model: Option<String>,
    /// Other fields of the answer object, such as `system_fingerprint`.
    pub extra: Map<String, Value>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text; absent when there is none.
    pub content: Option<String>,
    /// The refusal; absent when there is none.
    pub refusal: Option<String>,
    /// Tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Other fields of the message object.
    pub extra: Map<String, Value>,
    /// Other fields of the choice.
    pub choice_extra: Map<String, Value>,
    /// How it ended.
    pub finish: Finish,
}

impl Answer {
    /// An empty answer with this end.
    pub fn of_nothing(finish: Finish) -> Self {
        Self {
            content: None,
            refusal: None,
            tool_calls: Vec::new(),
            extra: Map::new(),
            choice_extra: Map::new(),
            finish,
        }
    }
}

/// What a model server sends. A streamed call yields any number of texts and deltas, then `Finished`. A call that is
/// not streamed yields `Answered` alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// Pieces of a streamed answer that have text and nothing else.
    Text(TextRun),
    /// Any other piece of a streamed answer.
    Delta(Delta),
    /// The end of a streamed answer.
    Finished(Finish),
    /// A whole answer at once.
    Answered(Box<Answer>),
}

/// How a model call can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFailureKind {
    /// There was no connection, or it broke before the answer began.
    Unreachable,
    /// The answer, or its next piece, did not come in time.
    Timeout,
    /// The server answered with an error status.
    Status,
    /// The context is too long for the model.
    ContextTooLong,
    /// The answer ended in the middle.
    CutOff,
    /// The answer breaks the protocol, or is empty.
    Nonsense,
}

/// A failed model call, with a sentence free of secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// What kind of failure.
    pub kind: ModelFailureKind,
    /// What happened, for people.
    pub message: String,
    /// The HTTP status, if the server answered.
    pub status: Option<u16>,
    /// How long the server asked to wait.
    pub retry_after_seconds: Option<u32>,
}

impl ModelFailure {
    /// A failure without a status.
    pub fn new(kind: ModelFailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after_seconds: None }
    }

    /// What happened, for a log. The server's own message is left out, because it may quote a prompt.
    pub fn for_log(&self) -> Cow<'_, str> {
        match (self.kind, self.status) {
            (ModelFailureKind::Unreachable | ModelFailureKind::Timeout | ModelFailureKind::CutOff, _) => {
                Cow::Borrowed(&self.message)
            }
            (ModelFailureKind::ContextTooLong, _) => "the model server says that the context is too long".into(),
            (ModelFailureKind::Status, Some(status)) => format!("the model server answered {status}").into(),
            (ModelFailureKind::Status, None) => "the model server reported an error".into(),
            (ModelFailureKind::Nonsense, _) => "the model server sent something that is not an answer".into(),
        }
    }
}

impl From<ModelFailure> for TurnFailure {
    fn from(failure: ModelFailure) -> Self {
        let code = match failure.kind {
            ModelFailureKind::Timeout => FailureCode::UpstreamTimeout,
            ModelFailureKind::ContextTooLong => FailureCode::ContextLengthExceeded,
            ModelFailureKind::Unreachable
            | ModelFailureKind::Status
            | ModelFailureKind::CutOff
            | ModelFailureKind::Nonsense => FailureCode::UpstreamError,
        };
        Self {
            code,
            message: failure.message,
            upstream_status: failure.status,
            retry_after_seconds: failure.retry_after_seconds,
        }
    }
}
