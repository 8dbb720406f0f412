//! Valid requests that conflict with the state of the conversation.

use herma_model::CompactionId;

/// How a request conflicts with the state of the conversation.
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
    /// The item to delete is inherited: by a branch from this conversation, or by this conversation itself.
    #[error("a branch shares this item with its source, so it cannot be deleted; delete the branch first")]
    ItemIsShared,
    /// The message to pin is only a part of an answer.
    #[error("only a whole message can be pinned, not what was shown of an answer that was cut off")]
    NotWhole,
    /// Too many messages of the conversation are pinned.
    #[error("{limit} messages of this conversation are pinned, which is the limit; unpin another first")]
    TooManyPins {
        /// Most pinned messages.
        limit: usize,
    },
    /// There is too little to summarise, so a compaction would free nothing.
    #[error(
        "there is nothing to compact: what is kept word for word is all there is, or a summary would be no shorter"
    )]
    NothingToCompact,
    /// Another compaction was made while this one's summary was written.
    #[error("the conversation was compacted by somebody else in the meantime")]
    CompactedMeanwhile,
    /// The turn asks for no approval, or not for this call.
    #[error("no approval is asked for: the question was answered already, or was never asked")]
    NoApprovalPending,
    /// There is no rewind to undo.
    #[error("nothing was rewound since the last turn, so there is nothing to restore")]
    NothingToRestore,
    /// The compaction cannot be undone.
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
            Self::NoApprovalPending => "approval_not_pending",
            Self::NothingToRestore => "nothing_to_restore",
            Self::CannotUndo(_) => "cannot_undo",
        }
    }
}

/// Why a compaction cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UndoProblem {
    /// A later compaction has it as its base.
    #[error("a later compaction ({0}) covers this one; undo that first")]
    Covered(CompactionId),
    /// It was already undone.
    #[error("this compaction was undone already")]
    AlreadyUndone,
    /// It failed.
    #[error("this compaction failed and changed nothing, so there is nothing to undo")]
    NeverApplied,
    /// It is an undo itself.
    #[error("this is an undo itself; compact again instead")]
    IsAnUndo,
    /// The messages that it summarises were rewound.
    #[error("what this compaction stands for was rewound, so the model is not shown it")]
    Rewound,
    /// The context without the compaction does not fit into the model's window.
    #[error(
        "without this compaction the model would be shown about {tokens} tokens, and only {window} fit; \
         use a model with a larger context_window"
    )]
    DoesNotFit {
        /// Tokens of that context.
        tokens: u64,
        /// Tokens that fit.
        window: u64,
    },
}
