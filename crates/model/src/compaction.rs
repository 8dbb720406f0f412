//! Compactions: what was summarised, into what, and what the model is shown in its place.
//!
//! Messages are immutable, so a compaction moves nothing. It adds a [`Summary`] to the transcript and makes it, with a few messages
//! carried over word for word, the [`Base`] that everything said later stands on. Undoing one puts the base before it back.

use std::sync::Arc;

use crate::ids::{CompactionId, MessageId, SessionId, TurnId};
use crate::kind::stored_enum;
use crate::message::{Message, Seq, Utterance};
use crate::provenance::CompactionMode;
use crate::time::Timestamp;
use crate::usage::Usage;

stored_enum!(
    /// What a row of the ledger did.
    CompactionAction {
        /// Put a summary in place of a range.
        Compact = "compact",
        /// Gave the model a range back.
        Undo = "undo",
    }
);

stored_enum!(
    /// Why a compaction was made.
    CompactionTrigger {
        /// The context would have passed the threshold.
        Threshold = "threshold",
        /// The model server said that the context is too long.
        ContextLength = "context_length",
        /// Somebody asked for it.
        Manual = "manual",
    }
);

stored_enum!(
    /// What came of it.
    CompactionOutcome {
        /// It is part of the conversation's history.
        Applied = "applied",
        /// There was no summary to use; nothing changed.
        Failed = "failed",
        /// Its range was left out of the model's view without a summary; a note stands in its place.
        Trimmed = "trimmed",
        /// It was applied, and a later row took it back.
        Undone = "undone",
    }
);

/// A summary: a message of the gateway's own in the transcript. It is no turn's and never part of what a client's history is compared
/// with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its id, for ever.
    pub id: MessageId,
    /// Where it stands in the full view: where the compaction happened.
    pub seq: Seq,
    /// The session it was written in: with a split, the one it begins.
    pub session: SessionId,
    /// The compaction it belongs to.
    pub compaction: CompactionId,
    /// When it was written.
    pub created_at: Timestamp,
    /// What it says, in the form the model is shown.
    pub said: Utterance,
}

/// What stands, in the model's context, for everything up to a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The last message that is summarised or carried.
    pub through: Seq,
    /// The summary of what came before.
    pub summary: Summary,
    /// Messages from before that point which are kept word for word, in order.
    pub carried: Vec<Arc<Message>>,
}

/// Estimated tokens of a context before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// Its id, for ever.
    pub id: CompactionId,
    /// What it did.
    pub action: CompactionAction,
    /// How it treats the session.
    pub mode: CompactionMode,
    /// Why it was made.
    pub trigger: CompactionTrigger,
    /// What came of it.
    pub outcome: CompactionOutcome,
    /// The head before it.
    pub session_before: SessionId,
    /// The head after it; the same unless it split.
    pub session_after: SessionId,
    /// The first message of its range.
    pub first: Seq,
    /// The last message of its range.
    pub through: Seq,
    /// Messages kept word for word although they are not after the range.
    pub carried: Vec<Seq>,
    /// What was written; absent if it failed or is an undo.
    pub summary: Option<Summary>,
    /// The model that summarised.
    pub model: Option<String>,
    /// The context's size.
    pub sizes: Sizes,
    /// What the summary cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed, or why its range was left out without a summary. Free of secrets.
    pub failure: Option<String>,
    /// Of an undo, the compaction it took back.
    pub undoes: Option<CompactionId>,
    /// The undo that took it back.
    pub undone_by: Option<CompactionId>,
    /// The turn that needed it.
    pub turn: Option<TurnId>,
    /// When it happened.
    pub created_at: Timestamp,
}
