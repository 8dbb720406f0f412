//! The states of a turn, and how it can fail.

use crate::kind::stored_enum;

stored_enum!(
    /// The state of a turn. The last four are final for an attempt. A new attempt can leave them, except `completed`.
    TurnState {
        /// It waits for the turns before it.
        Queued = "queued",
        /// It holds the conversation's lease, or it is parked.
        Running = "running",
        /// Its answer is part of the transcript.
        Completed = "completed",
        /// The model server or the gateway failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// Another turn, or the end of its process, cut it off.
        Interrupted = "interrupted",
    }
);

impl TurnState {
    /// Whether the turn is queued or running.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    /// Whether the turn ended without an answer, so that it can be tried again.
    pub const fn is_unanswered(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled | Self::Interrupted)
    }
}

/// How a turn without an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered {
    /// `Failed`, `Cancelled` or `Interrupted`.
    pub state: TurnState,
    /// The number of its last attempt.
    pub attempt: u32,
}

/// The number of a lease. A write under an older number is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

stored_enum!(
    /// Why a turn has no answer, as clients see it.
    FailureCode {
        /// The model server sent an error, ended its answer in the middle, or sent something that is not an answer.
        UpstreamError = "upstream_error",
        /// The model server did not answer in time.
        UpstreamTimeout = "upstream_timeout",
        /// The context does not fit the model's window.
        ContextLengthExceeded = "context_length_exceeded",
        /// A token budget is used up.
        BudgetExceeded = "budget_exceeded",
        /// Another turn's `interrupt` stopped this one.
        Interrupted = "interrupted",
        /// The process that ran it ended or gave it up. The client can send the same request again.
        Abandoned = "abandoned",
        /// The client cancelled it.
        Cancelled = "cancelled",
        /// It waited too long for other turns of its conversation.
        Busy = "conversation_busy",
        /// It was refused after it had waited, because its conversation had changed.
        Refused = "refused",
        /// A defect of the gateway.
        Internal = "internal_error",
    }
);

stored_enum!(
    /// How a turn was asked to stop.
    StopKind {
        /// Another turn goes first.
        Interrupt = "interrupt",
        /// The client does not want it any more.
        Cancel = "cancel",
    }
);

impl FailureCode {
    /// The code that clients see. For them it makes no difference whether another turn or the end of a process cut the
    /// turn off.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Abandoned => Self::Interrupted.as_str(),
            code => code.as_str(),
        }
    }

    /// The state of a turn that ends for this reason.
    pub const fn ends_as(self) -> TurnState {
        match self {
            Self::Interrupted | Self::Abandoned => TurnState::Interrupted,
            Self::Cancelled => TurnState::Cancelled,
            Self::UpstreamError
            | Self::UpstreamTimeout
            | Self::ContextLengthExceeded
            | Self::BudgetExceeded
            | Self::Busy
            | Self::Refused
            | Self::Internal => TurnState::Failed,
        }
    }
}

/// Why a turn has no answer: a code for programs, and a sentence without secrets for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnFailure {
    /// What kind of failure.
    pub code: FailureCode,
    /// What happened, free of secrets.
    pub message: String,
    /// The model server's HTTP status, if it answered at all.
    pub upstream_status: Option<u16>,
    /// How long the model server asked to wait.
    pub retry_after_seconds: Option<u32>,
}

impl TurnFailure {
    /// A failure without a status and a time to wait.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), upstream_status: None, retry_after_seconds: None }
    }
}
