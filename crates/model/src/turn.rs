//! The life of a turn, as it is stored.

use crate::kind::stored_enum;

stored_enum!(
    /// Where a turn stands. The last four are final for an attempt; only a new attempt leaves them, and never `completed`.
    TurnState {
        /// Waiting for the turns before it.
        Queued = "queued",
        /// Holds the conversation's lease.
        Running = "running",
        /// Its answer is part of the transcript.
        Completed = "completed",
        /// The model server or the gateway failed.
        Failed = "failed",
        /// Its client or a person called it off.
        Cancelled = "cancelled",
        /// Another turn, or the end of its process, cut it off.
        Interrupted = "interrupted",
    }
);

impl TurnState {
    /// Whether the turn holds or waits for the lease.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }

    /// Whether the turn ended without an answer, so that it can be tried again.
    pub const fn is_unanswered(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled | Self::Interrupted)
    }
}

/// How a turn ended that has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered {
    /// `Failed`, `Cancelled` or `Interrupted`.
    pub state: TurnState,
    /// Its last attempt.
    pub attempt: u32,
}

/// The number a lease was given; a write with an older one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

stored_enum!(
    /// Why a turn has no answer, as clients see it.
    FailureCode {
        /// The model server answered with an error, cut off, or sent nonsense.
        UpstreamError = "upstream_error",
        /// The model server did not answer in time.
        UpstreamTimeout = "upstream_timeout",
        /// The context does not fit the model's window.
        ContextLengthExceeded = "context_length_exceeded",
        /// Another turn's `interrupt` stopped this one.
        Interrupted = "interrupted",
        /// The process that ran it ended or gave it up; the same request can be sent again.
        Abandoned = "abandoned",
        /// The client called it off.
        Cancelled = "cancelled",
        /// It waited for other turns of its conversation longer than turns may.
        Busy = "conversation_busy",
        /// It was refused after it had waited: what it was for had changed.
        Refused = "refused",
        /// A defect of the gateway.
        Internal = "internal_error",
    }
);

stored_enum!(
    /// In what way somebody asked a turn to stop.
    StopKind {
        /// Another turn goes first.
        Interrupt = "interrupt",
        /// It is not wanted any more.
        Cancel = "cancel",
    }
);

impl FailureCode {
    /// The code by which clients know it: to them it is the same whether another turn or the end of a process cut a turn off.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Abandoned => Self::Interrupted.as_str(),
            code => code.as_str(),
        }
    }

    /// How a turn is recorded that ends for this reason.
    pub const fn ends_as(self) -> TurnState {
        match self {
            Self::Interrupted | Self::Abandoned => TurnState::Interrupted,
            Self::Cancelled => TurnState::Cancelled,
            Self::UpstreamError
            | Self::UpstreamTimeout
            | Self::ContextLengthExceeded
            | Self::Busy
            | Self::Refused
            | Self::Internal => TurnState::Failed,
        }
    }
}

/// Why a turn has no answer: a code for programs, a redacted sentence for people.
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
    /// A failure with nothing more to say than its code and sentence.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), upstream_status: None, retry_after_seconds: None }
    }
}
