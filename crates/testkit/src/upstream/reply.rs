//! The replies of a script. Each is a value that a small constructor makes.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::Gate;

/// One answer of the script.
#[derive(Debug, Clone)]
pub enum Reply {
    /// `reply to: <last user text>`, word by word when streamed, with usage.
    Echo,
    /// A completion, as JSON or as a stream, as the request asks.
    Completion(Completion),
    /// A status with a JSON body and headers.
    Status {
        /// The status code.
        code: u16,
        /// The whole body.
        body: Value,
        /// Headers in addition to the content type.
        headers: Vec<(String, String)>,
    },
    /// Status 200, the content type that the request asks for, and these bytes.
    Garbage(Bytes),
    /// Takes the request and never answers.
    Hang,
    /// Takes the request and closes the connection.
    CloseBeforeHeaders,
    /// Waits at the gate and then sends the reply.
    Held(Gate, Box<Reply>),
}

impl Reply {
    /// An answer with this text; a stream has one chunk per word.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Completion(Completion::text(text))
    }

    /// An answer whose stream has exactly these chunks.
    pub fn chunks<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Completion(Completion::chunks(texts))
    }

    /// An answer that calls tools.
    pub fn tool_calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::Completion(Completion { calls: calls.into_iter().collect(), ..Completion::default() })
    }

    /// A valid completion without content.
    pub fn empty() -> Self {
        Self::Completion(Completion::default())
    }

    /// The connection breaks after `count` chunks of text; a JSON answer breaks in its middle.
    pub fn cut_off_after(count: usize) -> Self {
        Self::Completion(Completion::counted(count + 3).ending(Ending::CutOffAfter(count)))
    }

    /// The server sends nothing more after `count` chunks of text; a JSON answer stops in its middle.
    pub fn hang_after(count: usize) -> Self {
        Self::Completion(Completion::counted(count + 3).ending(Ending::HangAfter(count)))
    }

    /// A stream with an error after `count` chunks of text. A JSON answer is a 500 with the same error.
    pub fn error_after(count: usize, message: &str) -> Self {
        Self::Completion(Completion::counted(count + 3).ending(Ending::ErrorAfter(count, message.to_owned())))
    }

    /// An error in OpenAI's envelope.
    pub fn status(code: u16, message: &str) -> Self {
        let kind = if code < 500 { "invalid_request_error" } else { "server_error" };
        Self::Status { code, body: envelope(message, kind, None), headers: Vec::new() }
    }

    /// 429 with `Retry-After` in seconds.
    pub fn rate_limited(retry_after: &str) -> Self {
        Self::Status {
            code: 429,
            body: envelope("Rate limit reached", "rate_limit_error", Some("rate_limit_exceeded")),
            headers: vec![("retry-after".to_owned(), retry_after.to_owned())],
        }
    }

    /// OpenAI's error when the messages are too long for the model.
    pub fn context_too_long() -> Self {
        let message = "This model's maximum context length is 8192 tokens. Please reduce the length of the messages.";
        let body = envelope(message, "invalid_request_error", Some("context_length_exceeded"));
        Self::Status { code: 400, body, headers: Vec::new() }
    }

    /// Bytes that are not a completion.
    pub fn garbage(bytes: impl Into<Bytes>) -> Self {
        Self::Garbage(bytes.into())
    }

    /// The same reply, which waits at the gate before its first byte.
    pub fn held(self, gate: &Gate) -> Self {
        Self::Held(gate.clone(), Box::new(self))
    }
}

/// A completion: its text and tool calls, its pace, and how it ends.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// The chunks of text, in order.
    pub texts: Vec<String>,
    /// Tool calls after the text.
    pub calls: Vec<ToolCall>,
    /// What happens before each chunk of text.
    pub pace: Pace,
    /// How it ends.
    pub ending: Ending,
    /// The finish reason; by default `stop`, or `tool_calls` with calls.
    pub finish_reason: Option<String>,
    /// The usage that is reported; by default each word counts as a token.
    pub usage: Option<Value>,
}

impl Completion {
    /// This text, one chunk per word.
    pub fn text(text: impl Into<String>) -> Self {
        Self::chunks(text.into().split_inclusive(' ').map(str::to_owned))
    }

    /// Exactly these chunks.
    pub fn chunks<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self { texts: texts.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// `chunk1 `, `chunk2 ` and so on.
    fn counted(count: usize) -> Self {
        Self::chunks((1..=count).map(|number| format!("chunk{number} ")))
    }

    /// Sets what happens before each chunk.
    #[must_use]
    pub fn pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Sets how it ends.
    #[must_use]
    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// Sets the finish reason.
    #[must_use]
    pub fn finish_reason(self, reason: &str) -> Self {
        Self { finish_reason: Some(reason.to_owned()), ..self }
    }

    /// Sets the usage that is reported.
    #[must_use]
    pub fn usage(self, prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self { usage: Some(usage(prompt_tokens, completion_tokens)), ..self }
    }
}

impl From<Completion> for Reply {
    fn from(completion: Completion) -> Self {
        Self::Completion(completion)
    }
}

/// What happens before each chunk of text. A JSON answer waits the sum of all these times.
#[derive(Debug, Clone, Default)]
pub enum Pace {
    /// Nothing.
    #[default]
    AtOnce,
    /// A pause, for benchmarks and demonstrations; tests use a gate.
    Every(Duration),
    /// One pass of the gate per chunk.
    Gated(Gate),
}

/// How a completion ends.
#[derive(Debug, Clone, Default)]
pub enum Ending {
    /// Completely.
    #[default]
    Complete,
    /// The connection breaks after so many chunks of text.
    CutOffAfter(usize),
    /// The server sends nothing more after so many chunks of text.
    HangAfter(usize),
    /// An error frame after so many chunks of text.
    ErrorAfter(usize, String),
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them. They need not be valid JSON.
    pub arguments: String,
}

impl ToolCall {
    /// A call with these arguments.
    pub fn new(id: &str, name: &str, arguments: impl Into<String>) -> Self {
        Self { id: id.to_owned(), name: name.to_owned(), arguments: arguments.into() }
    }
}

/// An error in OpenAI's envelope.
pub(super) fn envelope(message: &str, kind: &str, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Usage as chat completions report it.
pub(super) fn usage(prompt_tokens: u64, completion_tokens: u64) -> Value {
    json!({
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens.saturating_add(completion_tokens),
    })
}
