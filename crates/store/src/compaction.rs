//! Compacting a conversation, taking that back, and the ledger of both.

use std::sync::Arc;

use herma_model::compaction::{CompactionTrigger, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{
    Alias, Compaction, CompactionId, ConversationFacts, ConversationId, MessageId, NewMessage, Seq, SessionId, Summary,
    TenantId, Timestamp, TurnId, Usage,
};

use crate::commit::Lease;
use crate::snapshot::{Revision, Scope, Version};

/// By what right a conversation is compacted.
#[derive(Debug, Clone)]
pub enum Authority {
    /// By the turn that holds its lease, which goes on in the new head.
    Lease(Lease),
    /// Because a caller asked, while no turn is running.
    Idle {
        /// Who asks.
        scope: Scope,
        /// A name of the conversation.
        alias: Alias,
    },
}

/// A compaction with its summary, ready to be written.
#[derive(Debug, Clone)]
pub struct NewCompaction {
    /// Its id.
    pub id: CompactionId,
    /// By what right.
    pub authority: Authority,
    /// The compaction on which the head stood when this one was planned. If that is another now, the plan is void.
    pub base: Option<CompactionId>,
    /// How often something had been taken out of what was said by then. If it was again since, the summary may still tell it.
    pub rewrites: u32,
    /// How the session is treated.
    pub mode: CompactionMode,
    /// Why.
    pub trigger: CompactionTrigger,
    /// The last message that is summarised or carried.
    pub through: Seq,
    /// Its id. If another message stands there now, the plan was made with a turn that was taken back, and is void.
    pub last: MessageId,
    /// Messages up to there that are kept word for word.
    pub carried: Vec<Seq>,
    /// The summary, or the note that stands in its place.
    pub summary: NewMessage,
    /// Why the range is left out without a summary. Absent if it is summarised.
    pub trimmed: Option<String>,
    /// The id of the continuation, if the mode makes one.
    pub session: SessionId,
    /// The model that summarised.
    pub model: Option<String>,
    /// The context's size.
    pub sizes: Sizes,
    /// What the summary cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The clock.
    pub now: Timestamp,
}

/// A conversation after a compaction or an undo.
#[derive(Debug, Clone)]
pub struct Compacted {
    /// The conversation, at its head.
    pub facts: Arc<ConversationFacts>,
    /// The version after it.
    pub version: Version,
    /// The revision after it.
    pub revision: Revision,
    /// The row of the ledger.
    pub record: Compaction,
}

impl Compacted {
    /// What was written; an undo writes nothing.
    pub const fn summary(&self) -> Option<&Summary> {
        self.record.summary.as_ref()
    }
}

/// What came of a compaction. Only `Compacted` changed anything.
#[derive(Debug, Clone)]
pub enum CompactOutcome {
    /// It is done.
    Compacted(Box<Compacted>),
    /// A turn is running.
    Busy(TurnId),
    /// The head stands on another compaction than the plan, or what it covers was changed since.
    Stale,
    /// The name leads nowhere the caller can go.
    NotFound,
    /// The conversation was ended.
    Ended,
}

/// Taking a compaction back.
#[derive(Debug, Clone)]
pub struct Undo {
    /// The id of the ledger's new row.
    pub id: CompactionId,
    /// Who asks.
    pub scope: Scope,
    /// A name of the conversation.
    pub alias: Alias,
    /// The compaction to take back.
    pub target: CompactionId,
    /// The version at which the caller saw that the view will fit.
    pub seen: Version,
    /// The context's size.
    pub sizes: Sizes,
    /// The clock.
    pub now: Timestamp,
}

/// What came of an undo. Only `Undone` changed anything.
#[derive(Debug, Clone)]
pub enum UndoOutcome {
    /// It is done.
    Undone(Box<Compacted>),
    /// It cannot be done, now or later.
    Refused(UndoRefusal),
    /// A turn is running.
    Busy(TurnId),
    /// The conversation is not as it was seen; look again.
    Stale,
    /// The name leads nowhere the caller can go, or the conversation has no such compaction.
    NotFound,
}

/// Why a compaction cannot be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoRefusal {
    /// A later compaction stands on it.
    Covered(CompactionId),
    /// It was taken back already.
    AlreadyUndone,
    /// It failed, so there is nothing to take back.
    NeverApplied,
    /// It is an undo itself.
    IsAnUndo,
    /// A rewind has taken out of the model's view what it stands for.
    Rewound,
}

/// A compaction for which no summary could be had.
#[derive(Debug, Clone)]
pub struct FailedCompaction {
    /// The id of the ledger's row.
    pub id: CompactionId,
    /// Whose conversation.
    pub tenant: TenantId,
    /// Which conversation.
    pub conversation: ConversationId,
    /// How the session would have been treated.
    pub mode: CompactionMode,
    /// Why it was tried.
    pub trigger: CompactionTrigger,
    /// The first message of the range.
    pub first: Seq,
    /// The last message of the range.
    pub through: Seq,
    /// The model that was asked.
    pub model: Option<String>,
    /// The context's size.
    pub tokens: u64,
    /// What the tries cost.
    pub usage: Usage,
    /// How long they took, in milliseconds.
    pub duration_ms: u64,
    /// Why, free of secrets.
    pub failure: String,
    /// The turn that needed it.
    pub turn: Option<TurnId>,
    /// The clock.
    pub now: Timestamp,
}

/// Part of a ledger, newest first.
#[derive(Debug, Clone)]
pub struct LedgerPage {
    /// The rows.
    pub rows: Vec<Compaction>,
    /// Where the next page begins; absent on the last one.
    pub next: Option<i64>,
}

/// What came of pinning a message or letting go of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinOutcome {
    /// It is as asked for.
    Done,
    /// The name leads nowhere the caller can go, or the conversation has no such message.
    NotFound,
    /// It is what was shown of an answer that was cut off.
    NotWhole,
    /// So many are pinned already.
    TooMany {
        /// The limit.
        limit: usize,
    },
}
