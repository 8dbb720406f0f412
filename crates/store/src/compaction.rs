//! Compacting a conversation, undoing that, and the ledger of both.

use std::sync::Arc;

use herma_model::compaction::{CompactionTrigger, MadeBy, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{
    Alias, Compaction, CompactionId, ConversationFacts, ConversationId, MessageId, NewMessage, Seq, SessionId, Summary,
    TenantId, Timestamp, TurnId, Usage,
};

use crate::commit::Lease;
use crate::memories::NewMemory;
use crate::snapshot::{Revision, Scope, Version};

/// What allows a compaction.
#[derive(Debug, Clone)]
pub enum Authority {
    /// The lease of a running turn, which continues in the new head.
    Lease(Lease),
    /// A caller's request while no turn is running.
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
    /// What allows it.
    pub authority: Authority,
    /// The compaction base when this compaction was planned. If the head has another base now, the plan is void.
    pub base: Option<CompactionId>,
    /// How many rewrites the conversation had by then. After a later rewrite the plan is void, because the summary may
    /// contain removed text.
    pub rewrites: u32,
    /// Whether the session is split or compacted in place.
    pub mode: CompactionMode,
    /// Why.
    pub trigger: CompactionTrigger,
    /// Who made it.
    pub made_by: MadeBy,
    /// The last message that is summarised or carried.
    pub through: Seq,
    /// Its id. If another message has this place now, the plan used a turn that was retracted, and is void.
    pub last: MessageId,
    /// Places of earlier messages that are kept word for word.
    pub carried: Vec<Seq>,
    /// The summary, or the note that replaces it.
    pub summary: NewMessage,
    /// Why the range is left out without a summary. `None` if it is summarised.
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
    /// Facts about the conversation's session key that the summary lists. They are stored only if all that the
    /// compaction covers may be remembered ([`Store::all_recorded`](crate::Store::all_recorded)).
    pub facts: Vec<NewMemory>,
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
    /// The summary. `None` for an undo.
    pub const fn summary(&self) -> Option<&Summary> {
        self.record.summary.as_ref()
    }
}

/// The outcome of a compaction. Only `Compacted` changed anything.
#[derive(Debug, Clone)]
pub enum CompactOutcome {
    /// It is done.
    Compacted(Box<Compacted>),
    /// A turn is running.
    Busy(TurnId),
    /// The head has another base than the plan, or the range was changed since.
    Stale,
    /// The name leads nowhere for the caller.
    NotFound,
    /// The conversation was ended.
    Ended,
}

/// A request to undo a compaction.
#[derive(Debug, Clone)]
pub struct Undo {
    /// The id of the ledger's new row.
    pub id: CompactionId,
    /// Who asks.
    pub scope: Scope,
    /// A name of the conversation.
    pub alias: Alias,
    /// The compaction to undo.
    pub target: CompactionId,
    /// The version at which the caller saw that the longer context will fit.
    pub seen: Version,
    /// The context's size.
    pub sizes: Sizes,
    /// The clock.
    pub now: Timestamp,
}

/// The outcome of an undo. Only `Undone` changed anything.
#[derive(Debug, Clone)]
pub enum UndoOutcome {
    /// It is done.
    Undone(Box<Compacted>),
    /// It cannot be done, now or later.
    Refused(UndoRefusal),
    /// A turn is running.
    Busy(TurnId),
    /// The conversation has changed since it was read. Read it again.
    Stale,
    /// The name leads nowhere for the caller, or the conversation has no such compaction.
    NotFound,
}

/// Why a compaction cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoRefusal {
    /// A later compaction has it as its base.
    Covered(CompactionId),
    /// It was undone already.
    AlreadyUndone,
    /// It failed, so there is nothing to undo.
    NeverApplied,
    /// It is an undo itself.
    IsAnUndo,
    /// A rewind has removed the summarised range from the model's view.
    Rewound,
}

/// A compaction that failed because there was no summary.
#[derive(Debug, Clone)]
pub struct FailedCompaction {
    /// The id of the ledger's row.
    pub id: CompactionId,
    /// The tenant of the conversation.
    pub tenant: TenantId,
    /// Which conversation.
    pub conversation: ConversationId,
    /// The mode it would have had.
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
    /// What the attempts cost.
    pub usage: Usage,
    /// How long the attempts took, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed, without secrets.
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
    /// Where the next page begins; `None` on the last page.
    pub next: Option<i64>,
}

/// The outcome of pinning or unpinning a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinOutcome {
    /// The message is pinned or unpinned as asked.
    Done,
    /// The name leads nowhere for the caller, or the conversation has no such message.
    NotFound,
    /// The message is the partial answer of a turn that was cut off.
    NotWhole,
    /// Too many messages are pinned already.
    TooMany {
        /// The limit.
        limit: usize,
    },
}
