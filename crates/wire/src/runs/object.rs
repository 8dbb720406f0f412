//! The run object.

use std::borrow::Cow;

use herma_model::generation::ToolCall;
use herma_model::{Answer, OwnCall, RecallStatus, RunId, Timestamp, TurnFailure, TurnState, Usage};
use serde::Serialize;

use crate::chat::tool_calls;
use crate::json::Writer;
use crate::responses::{Echo, ResponseError};
use crate::session::SessionObject;

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Waiting for the turns before it.
    Queued,
    /// Its turn is running.
    Running,
    /// It waits until people have answered whether calls may be made.
    WaitingForApproval,
    /// Cancelled, but not ended yet.
    Stopping,
    /// It has ended.
    Ended(RunEnding),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnding {
    /// With an answer.
    Completed,
    /// The model server or the gateway failed.
    Failed(ResponseError),
    /// It was cancelled.
    Cancelled,
    /// Another turn interrupted it, or its process ended.
    Interrupted(ResponseError),
}

impl From<&TurnFailure> for RunEnding {
    fn from(failure: &TurnFailure) -> Self {
        match failure.code.ends_as() {
            TurnState::Cancelled => Self::Cancelled,
            TurnState::Interrupted => Self::Interrupted(failure.into()),
            _ => Self::Failed(failure.into()),
        }
    }
}

impl RunState {
    /// The status, by Hermes' name.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingForApproval => "waiting_for_approval",
            Self::Stopping => "stopping",
            Self::Ended(RunEnding::Completed) => "completed",
            Self::Ended(RunEnding::Failed(_)) => "failed",
            Self::Ended(RunEnding::Cancelled) => "cancelled",
            Self::Ended(RunEnding::Interrupted(_)) => "interrupted",
        }
    }

    const fn error(&self) -> Option<&ResponseError> {
        match self {
            Self::Ended(RunEnding::Failed(error) | RunEnding::Interrupted(error)) => Some(error),
            _ => None,
        }
    }
}

/// The output of a run, complete or partial.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOutput<'a> {
    /// The text and the refusal.
    pub text: Option<Cow<'a, str>>,
    /// Calls of the client's tools.
    pub tool_calls: &'a [ToolCall],
    /// Tokens, if the model server counted them.
    pub usage: Option<Usage>,
}

impl<'a> From<&'a Answer> for RunOutput<'a> {
    fn from(answer: &'a Answer) -> Self {
        let text = match (&answer.content, &answer.refusal) {
            (Some(content), Some(refusal)) => Some(Cow::Owned(format!("{content}{refusal}"))),
            (content, refusal) => content.as_deref().or(refusal.as_deref()).map(Cow::Borrowed),
        };
        Self { text, tool_calls: &answer.tool_calls, usage: answer.finish.usage }
    }
}

impl RunOutput<'_> {
    /// Writes these fields.
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.field("output", &self.text);
        if !self.tool_calls.is_empty() {
            writer.key("tool_calls");
            tool_calls::write(self.tool_calls, writer);
        }
        writer.field("usage", &self.usage.map(RunUsage::from));
    }
}

/// A call that a person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingCall<'a> {
    /// The call.
    pub call: &'a OwnCall,
    /// The arguments, JSON text as the model wrote it.
    pub arguments: &'a str,
    /// Since when.
    pub asked_at: Timestamp,
}

impl PendingCall<'_> {
    fn write(&self, writer: &mut Writer) {
        writer.open_object();
        writer.field("call_id", &self.call.id);
        writer.field("tool", &self.call.tool);
        writer.field("server", &self.call.server);
        writer.field("arguments", self.arguments);
        writer.field("asked_at", &self.asked_at.seconds());
        writer.close_object();
    }
}

/// A run at one moment: the body of `GET /v1/runs/{id}`, and of the answer to the request that created it.
#[derive(Debug, Clone, Copy)]
pub struct RunObject<'a> {
    /// Its id.
    pub id: RunId,
    /// Its state.
    pub state: &'a RunState,
    /// When the client requested it.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The model, by the name the client knows.
    pub model: &'a str,
    /// The repeatable fields of the request. The object shows instructions and metadata.
    pub echo: &'a Echo,
    /// Its output.
    pub output: &'a RunOutput<'a>,
    /// The questions that it waits for, oldest first. The object shows them only if there are any.
    pub pending: &'a [PendingCall<'a>],
    /// What memory did for it. `None` if it has not begun.
    pub memory: Option<RecallStatus>,
    /// The state of its conversation.
    pub session: &'a SessionObject,
}

impl RunObject<'_> {
    /// The JSON body.
    pub fn to_json(&self) -> Vec<u8> {
        let error = self.state.error();
        let mut writer = Writer::with_capacity(1024);
        writer.open_object();
        writer.field("object", "hermes.run");
        writer.field("id", &self.id);
        writer.field("run_id", &self.id);
        writer.field("status", self.state.status());
        writer.field("created_at", &self.created_at.seconds());
        writer.field("updated_at", &self.updated_at.seconds());
        writer.field("model", self.model);
        writer.field("session_id", &self.session.session_id);
        writer.field("conversation_id", &self.session.conversation_id);
        self.output.write(&mut writer);
        writer.field("error", &error.map(|error| &error.message));
        writer.field("error_code", &error.map(|error| &error.code));
        if !self.pending.is_empty() {
            writer.key("pending_approvals");
            writer.open_array();
            self.pending.iter().for_each(|call| call.write(&mut writer));
            writer.close_array();
        }
        for name in ["instructions", "metadata"] {
            if let Some(json) = self.echo.get(name) {
                writer.raw_field(name, json);
            }
        }
        if let Some(status) = self.memory {
            writer.key("memory");
            writer.open_object();
            writer.field("status", status.as_str());
            writer.close_object();
        }
        writer.field("session", self.session);
        writer.close_object();
        writer.into_bytes(b"")
    }
}

/// Tokens, under Hermes' names.
#[derive(Serialize)]
pub(crate) struct RunUsage {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
}

impl From<Usage> for RunUsage {
    fn from(usage: Usage) -> Self {
        Self { input_tokens: usage.input, output_tokens: usage.output, total_tokens: usage.total() }
    }
}
