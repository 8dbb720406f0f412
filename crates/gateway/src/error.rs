//! Why a request got no answer, in the gateway's own terms.
//!
//! An error names fields of the gateway's own requests ([`Field`]) and never a header, a route or a key of a body. A
//! front door says what a field is called in its protocol, and how its clients can correct the request.
//! [`GatewayError::code`] is the word for the error that all front doors use.

mod conflict;
mod invalid;

use std::time::Duration;

use herma_model::{TurnFailure, TurnId};
use herma_store::StoreError;

pub use conflict::{Conflict, UndoProblem};
pub use invalid::{Field, InvalidRequest};

/// How long a client is told to wait before it tries a busy conversation again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is wrong with a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyProblem {
    /// The conversation has another one.
    Conflict,
    /// The caller may not use it.
    NotAllowed,
}

/// What was not found by a name or an id, or is not visible to this caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A conversation.
    Conversation,
    /// The response that a request continues.
    PreviousResponse,
    /// A turn, whichever front door shows it.
    Turn,
    /// A message of the conversation.
    Message,
    /// A part of a message of the conversation.
    Item,
    /// A compaction of the conversation.
    Compaction,
    /// A fact in long-term memory.
    Memory,
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// The request itself is wrong; the caller must change it.
    #[error("{0}")]
    Invalid(InvalidRequest),
    /// A name or an id leads to nothing that the caller may see.
    #[error("{}", match .0 {
        Missing::Conversation => "no conversation is known by this id",
        Missing::PreviousResponse => "no response is known by this id: it was deleted, or not stored",
        Missing::Turn => "no turn is known by this id",
        Missing::Message => "no message of the conversation is known by this id",
        Missing::Item => "no item of this conversation is known by this id",
        Missing::Compaction => "no compaction of the conversation is known by this id",
        Missing::Memory => "no memory is known by this id",
    })]
    NotFound(Missing),
    /// The session key is not the conversation's, or the caller may not use it.
    #[error("{}", match .0 {
        KeyProblem::Conflict => {
            "the conversation belongs to another session key; use that key, or start another conversation"
        }
        KeyProblem::NotAllowed => "this API key may not use this session key",
    })]
    SessionKey(KeyProblem),
    /// Another turn is running and the caller did not wait, or waited too long.
    #[error("another turn ({running}) of this conversation is running; wait for it, or interrupt it")]
    Busy {
        /// That turn.
        running: TurnId,
        /// When to try again.
        retry_after: Duration,
    },
    /// The request conflicts with the state of the conversation. Trying again does not help.
    #[error("{0}")]
    Conflict(Conflict),
    /// A limit is reached; the message names it.
    #[error("{}", .0.message)]
    Overloaded(LimitReached),
    /// The process is about to stop.
    #[error("the gateway is shutting down; try again")]
    Draining,
    /// The store failed.
    #[error("{0}")]
    Store(StoreError),
    /// The turn ran and has no answer.
    #[error("{}", .0.message)]
    Turn(TurnFailure),
    /// The turn was ended by another process than its own. Clients may have been shown more of it than is stored.
    #[error("{}", .0.message)]
    CutOff(TurnFailure),
}

/// A limit that a request would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    message: String,
    whose: LimitOwner,
    retry_after: Duration,
}

impl LimitReached {
    /// After how many seconds a retry can succeed, at least 1.
    pub fn retry_after_seconds(&self) -> u32 {
        u32::try_from(self.retry_after.as_millis().div_ceil(1_000).max(1)).unwrap_or(u32::MAX)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitOwner {
    Gateway,
    ApiKey,
}

impl From<StoreError> for GatewayError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::VersionMismatch => Self::Conflict(Conflict::VersionMismatch),
            error => Self::Store(error),
        }
    }
}

impl GatewayError {
    /// Neither the request nor the settings name a model.
    pub(crate) const fn no_model() -> Self {
        Self::Invalid(InvalidRequest::NoModel)
    }

    /// No conversation is known by the name.
    pub(crate) const fn unknown() -> Self {
        Self::NotFound(Missing::Conversation)
    }

    /// The response that a request continues does not exist.
    pub(crate) const fn previous_not_found() -> Self {
        Self::NotFound(Missing::PreviousResponse)
    }

    /// Another turn is running.
    pub(crate) const fn busy(running: TurnId) -> Self {
        Self::Busy { running, retry_after: RETRY_AFTER }
    }

    /// A limit of the gateway is reached.
    pub fn overloaded(message: impl Into<String>) -> Self {
        let retry_after = Duration::from_secs(1);
        Self::Overloaded(LimitReached { message: message.into(), whose: LimitOwner::Gateway, retry_after })
    }

    /// A limit of the caller's API key is reached.
    pub(crate) fn over_key_limit(message: String, retry_after: Duration) -> Self {
        Self::Overloaded(LimitReached { message, whose: LimitOwner::ApiKey, retry_after })
    }

    /// Other requests changed the conversation each time that this one had read it.
    pub(crate) fn changes_too_fast() -> Self {
        Self::overloaded("this conversation changes too fast to be read; try again".to_owned())
    }

    /// The error as one of a few fixed words, for clients of every protocol and for metric labels.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::NotFound(Missing::PreviousResponse) => "previous_response_not_found",
            Self::NotFound(_) => "not_found",
            Self::SessionKey(KeyProblem::Conflict) => "session_key_conflict",
            Self::SessionKey(KeyProblem::NotAllowed) => "session_key_not_allowed",
            Self::Busy { .. } => "conversation_busy",
            Self::Conflict(conflict) => conflict.code(),
            Self::Overloaded(limit) => match limit.whose {
                LimitOwner::Gateway => "overloaded",
                LimitOwner::ApiKey => "rate_limit_exceeded",
            },
            Self::Draining => "draining",
            Self::Store(_) => "store_unavailable",
            Self::Turn(failure) | Self::CutOff(failure) => failure.code.told(),
        }
    }
}
