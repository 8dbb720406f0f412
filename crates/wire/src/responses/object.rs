//! The response object.

use herma_model::{FinishReason, Timestamp, TurnFailure, Usage};
use serde::Serialize;

use super::echo::Echo;
use super::item::Item;
use crate::json::Writer;
use crate::session::SessionObject;

/// What is known of a response from its beginning, and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its id, `resp_…`.
    pub id: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// The model, by the name the client knows.
    pub model: String,
    /// The response it continues from.
    pub previous_response_id: Option<String>,
    /// The conversation it is attached to, if it was asked for by conversation.
    pub conversation: Option<String>,
    /// What it repeats of its request.
    pub echo: Echo,
}

/// Where a response stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseState {
    /// Waiting for its turn.
    Queued,
    /// Being made.
    InProgress,
    /// Over.
    Ended(ResponseOutcome),
}

/// How a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseOutcome {
    /// The answer is whole.
    Completed,
    /// The model stopped before the answer was whole.
    Incomplete(IncompleteReason),
    /// There is no answer.
    Failed(ResponseError),
    /// Somebody called it off; the error says so to clients that look for one.
    Cancelled(ResponseError),
}

impl ResponseOutcome {
    /// How a response ends whose answer ended so.
    pub const fn of_answer(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop | FinishReason::ToolCalls => Self::Completed,
            FinishReason::Length => Self::Incomplete(IncompleteReason::MaxOutputTokens),
            FinishReason::ContentFilter => Self::Incomplete(IncompleteReason::ContentFilter),
        }
    }
}

/// Why an answer is not whole.
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
    /// What happened, for people; free of secrets.
    pub message: String,
}

impl From<&TurnFailure> for ResponseError {
    fn from(failure: &TurnFailure) -> Self {
        Self { code: failure.code.told().to_owned(), message: failure.message.clone() }
    }
}

impl ResponseState {
    /// The status, by the name the API has for it.
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

/// A response at one moment. Its JSON always has every field that OpenAI and Open Responses require; what is unknown is null.
#[derive(Debug, Clone, Copy)]
pub struct ResponseObject<'a> {
    /// What never changes.
    pub about: &'a About,
    /// Where it stands.
    pub state: &'a ResponseState,
    /// When it ended. Shown of a completed response alone.
    pub completed_at: Option<Timestamp>,
    /// What was said.
    pub output: &'a [Item],
    /// Tokens, if the model server counted them.
    pub usage: Option<Usage>,
    /// Where the conversation stands.
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
        writer.field("usage", &self.usage.map(UsageJson::from));
        about.echo.write(writer);
        if let Some(session) = self.session {
            writer.field("session", session);
        }
        writer.close_object();
    }
}

#[derive(Serialize)]
pub(super) struct UsageJson {
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

impl From<Usage> for UsageJson {
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
