//! Why a request got no answer, in the gateway's own terms. Front doors say it in their protocol's.

use std::time::Duration;

use herma_model::{CompactionId, TurnFailure, TurnId};
use herma_store::StoreError;

/// What is wrong with a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyProblem {
    /// The conversation has another one.
    Conflict,
    /// The caller may not use it.
    NotAllowed,
}

/// Why a compaction cannot be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UndoProblem {
    /// A later one stands on it.
    #[error("a later compaction ({0}) covers this one; undo that first")]
    Covered(CompactionId),
    /// It was taken back already.
    #[error("this compaction was undone already")]
    AlreadyUndone,
    /// It failed.
    #[error("this compaction failed and changed nothing, so there is nothing to undo")]
    NeverApplied,
    /// It is an undo itself.
    #[error("this is an undo itself; compact again instead")]
    IsAnUndo,
    /// The model could not be shown what would come back.
    #[error(
        "without this compaction the model would be shown about {tokens} tokens, and only {window} fit; use a model with a larger context_window"
    )]
    DoesNotFit {
        /// Tokens of the view.
        tokens: u64,
        /// Tokens that fit.
        window: u64,
    },
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// The request itself is wrong; the caller must change it.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        param: Option<String>,
    },
    /// The name leads nowhere the caller can go.
    #[error("no conversation is known by this id")]
    NotFound,
    /// There is no such response to go on from.
    #[error("no response is known by this previous_response_id: it was deleted, or not stored")]
    PreviousNotFound,
    /// The session key does not fit.
    #[error("{}", match .0 {
        KeyProblem::Conflict => "the conversation belongs to another session key; use that key, or start another conversation",
        KeyProblem::NotAllowed => "this API key may not use this session key",
    })]
    SessionKey(KeyProblem),
    /// The conversation was ended; it can be reopened.
    #[error("the conversation was ended; to go on, reopen it: POST /api/sessions/ID/reopen")]
    Ended,
    /// Another turn is running and the caller did not wait, or waited too long.
    #[error(
        "another turn ({running}) of this conversation is running; wait for it, or send X-Hermes-Turn-Policy: interrupt"
    )]
    Busy {
        /// That turn.
        running: TurnId,
        /// When to try again.
        retry_after: Duration,
    },
    /// Too much at once; the message names the limit.
    #[error("{0}")]
    Overloaded(String),
    /// The process is about to stop.
    #[error("the gateway is shutting down; try again")]
    Draining,
    /// The idempotency key was used with another body.
    #[error("this Idempotency-Key was used with a different request body; use a new key")]
    IdempotencyMismatch,
    /// There is too little to summarise for a compaction to free anything.
    #[error(
        "there is nothing to compact: what is kept word for word is all there is, or a summary would be no shorter"
    )]
    NothingToCompact,
    /// Another compaction was made while this one's summary was written.
    #[error("the conversation was compacted by somebody else in the meantime")]
    CompactedMeanwhile,
    /// The compaction cannot be taken back.
    #[error("{0}")]
    CannotUndo(UndoProblem),
    /// The store did not do its part.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The turn ran and has no answer.
    #[error("{}", .0.message)]
    Turn(TurnFailure),
    /// The same, and somebody else ended it: more of it may have been shown than anybody knows.
    #[error("{}", .0.message)]
    CutOff(TurnFailure),
}

impl GatewayError {
    /// Nothing says which model to ask.
    pub(crate) fn no_model() -> Self {
        let message = "no model is set for requests that name none; name one in `model`, or set `upstream.model`";
        Self::Invalid { message: message.to_owned(), param: Some("model".to_owned()) }
    }
}
