//! Compactions: which messages were summarised, and what the model is shown in their place.
//!
//! A compaction moves no message. It adds a [`Summary`] to the transcript. The summary and a few messages that are
//! carried word for word become the [`Base`] of all later messages. An undo restores the base before it.

use std::sync::Arc;

use crate::ids::{CompactionId, MessageId, SessionId, TurnId};
use crate::kind::stored_enum;
use crate::message::{Message, Seq, Utterance};
use crate::provenance::CompactionMode;
use crate::time::Timestamp;
use crate::usage::Usage;

stored_enum!(
    /// What a row of the compaction ledger did.
    CompactionAction {
        /// Put a summary in place of a range of messages.
        Compact = "compact",
        /// Took a compaction back: the model is shown its range again.
        Undo = "undo",
    }
);

stored_enum!(
    /// Why a compaction was made.
    CompactionTrigger {
        /// The context would have been longer than the threshold.
        Threshold = "threshold",
        /// The model server said that the context is too long.
        ContextLength = "context_length",
        /// A client or an operator asked for it.
        Manual = "manual",
    }
);

stored_enum!(
    /// Who made a compaction.
    MadeBy {
        /// Herma.
        Herma = "herma",
        /// A client that compacts its context itself, and sends the result in place of its history.
        Client = "client",
    }
);

impl MadeBy {
    /// That of a compaction whose record says nothing else.
    pub const fn herma() -> Self {
        Self::Herma
    }

    /// Whether Herma made it.
    pub const fn is_herma(&self) -> bool {
        matches!(self, Self::Herma)
    }
}

stored_enum!(
    /// How a compaction ended.
    CompactionOutcome {
        /// It is part of the conversation's history.
        Applied = "applied",
        /// There was no usable summary, so nothing changed.
        Failed = "failed",
        /// The model is not shown its range. A note stands in its place, not a summary.
        Trimmed = "trimmed",
        /// It was applied, and a later undo took it back.
        Undone = "undone",
    }
);

/// A summary: a message in the transcript that the gateway wrote itself. It belongs to no turn, and a client's history
/// is never compared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its id. It never changes.
    pub id: MessageId,
    /// Its place in the full view: where the compaction happened.
    pub seq: Seq,
    /// The session that it was written in. After a split, it is the first message of the new session.
    pub session: SessionId,
    /// The compaction it belongs to.
    pub compaction: CompactionId,
    /// When it was written.
    pub created_at: Timestamp,
    /// The message that the model is shown.
    pub said: Utterance,
}

/// What the model is shown in place of all messages up to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The place of the last message that is summarised or carried.
    pub through: Seq,
    /// The summary of the messages up to that place.
    pub summary: Summary,
    /// Messages up to that place that are kept word for word, in order.
    pub carried: Vec<Arc<Message>>,
    /// Who made it. Herma's summary comes before the carried messages, a client's after them, as clients send it.
    pub made_by: MadeBy,
}

/// Estimated tokens of a context before and after a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// A row of the compaction ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// Its id. It never changes.
    pub id: CompactionId,
    /// What it did.
    pub action: CompactionAction,
    /// How it treats the session.
    pub mode: CompactionMode,
    /// Why it was made.
    pub trigger: CompactionTrigger,
    /// Who made it.
    pub made_by: MadeBy,
    /// How it ended.
    pub outcome: CompactionOutcome,
    /// The head before it.
    pub session_before: SessionId,
    /// The head after it. It is the same unless the compaction split the session.
    pub session_after: SessionId,
    /// The first message of its range.
    pub first: Seq,
    /// The last message of its range.
    pub through: Seq,
    /// Places up to the end of the range whose messages are kept word for word.
    pub carried: Vec<Seq>,
    /// The summary that was written; absent if the compaction failed or is an undo.
    pub summary: Option<Summary>,
    /// The model that wrote the summary.
    pub model: Option<String>,
    /// The size of the context before and after.
    pub sizes: Sizes,
    /// What the summary cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed, or why there is no summary of its range. Free of secrets.
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
