//! Requests that are right by themselves and do not go with what is there.

use herma_model::CompactionId;

/// Why a request does not go with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The conversation was ended; it can be reopened.
    #[error("the conversation was ended; to go on, reopen it")]
    Ended,
    /// The idempotency key was used with another request.
    #[error("this idempotency key was used with a different request; use a new key")]
    IdempotencyMismatch,
    /// The request expects another revision of the conversation.
    #[error("the conversation is not at the expected version: it was changed, or does not exist; read it again")]
    VersionMismatch,
    /// The chosen id leads to a conversation already.
    #[error("this id leads to a conversation already; use it, or choose another id")]
    Exists,
    /// What is to be deleted is inherited by a branch, or inherited itself.
    #[error("a branch shares this item with its source, so it cannot be deleted; delete the branch first")]
    ItemIsShared,
    /// What is to be pinned is a part of an answer.
    #[error("only a whole message can be pinned, not what was shown of an answer that was cut off")]
    NotWhole,
    /// Too many messages of the conversation are pinned.
    #[error("{limit} messages of this conversation are pinned, which is the limit; unpin another first")]
    TooManyPins {
        /// Most of them.
        limit: usize,
    },
    /// There is too little to summarise for a compaction to free anything.
    #[error(
        "there is nothing to compact: what is kept word for word is all there is, or a summary would be no shorter"
    )]
    NothingToCompact,
    /// Another compaction was made while this one's summary was written.
    #[error("the conversation was compacted by somebody else in the meantime")]
    CompactedMeanwhile,
    /// No rewind can be taken back.
    #[error("nothing was rewound since the last turn, so there is nothing to restore")]
    NothingToRestore,
    /// The compaction cannot be taken back.
    #[error("{0}")]
    CannotUndo(UndoProblem),
}

impl Conflict {
    /// The conflict as one of a few fixed words.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Ended => "session_ended",
            Self::IdempotencyMismatch => "idempotency_mismatch",
            Self::VersionMismatch => "version_mismatch",
            Self::Exists => "session_exists",
            Self::ItemIsShared => "item_is_shared",
            Self::NotWhole => "cannot_pin",
            Self::TooManyPins { .. } => "too_many_pins",
            Self::NothingToCompact | Self::CompactedMeanwhile => "nothing_to_compact",
            Self::NothingToRestore => "nothing_to_restore",
            Self::CannotUndo(_) => "cannot_undo",
        }
    }
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
    /// What it stands for was rewound.
    #[error("what this compaction stands for was rewound, so the model is not shown it")]
    Rewound,
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
