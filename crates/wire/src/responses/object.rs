//! The response object.

use herma_model::{FinishReason, Timestamp, TurnFailure, Usage};
use serde::Serialize;

use super::echo::Echo;
use super::item::Item;
use crate::json::Writer;
use crate::session::SessionObject;

/// The fields of a response that are known from its beginning and never change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its id, `resp_…`.
    pub id: String,
    /// When the client requested it.
    pub created_at: Timestamp,
    /// The model, by the name the client knows.
    pub model: String,
    /// The response it continues from.
    pub previous_response_id: Option<String>,
    /// The conversation, if the request named one.
    pub conversation: Option<String>,
    /// The request fields that it repeats.
    pub echo: Echo,
}

/// The state of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseState {
    /// Waiting for the turns before it.
    Queued,
    /// Its turn is running.
    InProgress,
    /// It has ended.
    Ended(ResponseOutcome),
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// The answer is complete.
    Completed,
    /// The model stopped before the answer was complete.
    Incomplete(IncompleteReason),
    /// There is no answer.
    Failed(ResponseError),
    /// It was cancelled. The error says so to clients that look for one.
    Cancelled(ResponseError),
}

impl ResponseOutcome {
    /// The outcome of a response whose answer has this finish reason.
    pub const fn of_answer(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop | FinishReason::ToolCalls => Self::Completed,
            FinishReason::Length => Self::Incomplete(IncompleteReason::MaxOutputTokens),
            FinishReason::ContentFilter => Self::Incomplete(IncompleteReason::ContentFilter),
        }
    }
}

/// Why an answer is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IncompleteReason {
    /// It reached a length limit.
    MaxOutputTokens,
    /// It was filtered.
    ContentFilter,
}

/// Why a response has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResponseError {
    /// The error, for programs.
    pub code: String,
    /// What happened, for people. It holds no secrets.
    pub message: String,
}

impl From<&TurnFailure> for ResponseError {
    fn from(failure: &TurnFailure) -> Self {
        Self { code: failure.code.told().to_owned(), message: failure.message.clone() }
    }
}

impl ResponseState {
    /// The status, by the API's name.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Ended(ResponseOutcome::Completed) => "completed",
            Self::Ended(ResponseOutcome::Incomplete(_)) => "incomplete",
            Self::Ended(ResponseOutcome::Failed(_)) => "failed",
            Self::Ended(ResponseOutcome::Cancelled(_)) => "cancelled",
        }
    }

    const fn error(&self) -> Option<&ResponseError> {
        match self {
            Self::Ended(ResponseOutcome::Failed(error) | ResponseOutcome::Cancelled(error)) => Some(error),
            _ => None,
        }
    }

    const fn incomplete(&self) -> Option<IncompleteDetails> {
        match self {
            Self::Ended(ResponseOutcome::Incomplete(reason)) => Some(IncompleteDetails { reason: *reason }),
            _ => None,
        }
    }
}

#[derive(Serialize)]
struct IncompleteDetails {
    reason: IncompleteReason,
}

/// A response at one moment. Its JSON always has every field that OpenAI and Open Responses require. An unknown value
/// is null.
#[derive(Debug, Clone, Copy)]
pub struct ResponseObject<'a> {
    /// The fields that never change.
    pub about: &'a About,
    /// Its state.
    pub state: &'a ResponseState,
    /// When it ended. Only a completed response shows it.
    pub completed_at: Option<Timestamp>,
    /// Its items.
    pub output: &'a [Item],
    /// Tokens, if the model server counted them.
    pub usage: Option<Usage>,
    /// The state of the conversation.
    pub session: Option<&'a SessionObject>,
}

impl ResponseObject<'_> {
    /// The JSON body.
    pub fn to_json(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(2048);
        self.write(&mut writer);
        writer.into_bytes(b"")
    }

    /// Writes the object, as a value.
    pub(super) fn write(&self, writer: &mut Writer) {
        let about = self.about;
        let is_completed = matches!(self.state, ResponseState::Ended(ResponseOutcome::Completed));
        writer.open_object();
        writer.field("id", &about.id);
        writer.field("object", "response");
        writer.field("created_at", &about.created_at.seconds());
        writer.field("completed_at", &self.completed_at.filter(|_| is_completed).map(Timestamp::seconds));
        writer.field("status", self.state.status());
        writer.field("error", &self.state.error());
        writer.field("incomplete_details", &self.state.incomplete());
        writer.field("model", &about.model);
        writer.field("previous_response_id", &about.previous_response_id);
        if let Some(id) = &about.conversation {
            writer.key("conversation");
            writer.open_object();
            writer.field("id", id);
            writer.close_object();
        }
        writer.field("output", self.output);
        writer.field("usage", &self.usage.map(ResponseUsage::from));
        about.echo.write(writer);
        if let Some(session) = self.session {
            writer.field("session", session);
        }
        writer.close_object();
    }
}

#[derive(Serialize)]
pub(super) struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for ResponseUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            input_tokens_details: InputDetails { cached_tokens: usage.cached, cache_write_tokens: usage.cache_write },
            output_tokens: usage.output,
            output_tokens_details: OutputDetails { reasoning_tokens: usage.reasoning },
            total_tokens: usage.total(),
        }
    }
}
