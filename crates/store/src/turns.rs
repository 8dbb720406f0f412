//! A turn as it is stored, for those who join it or ask for it later.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{
    CompactionId, ConversationFacts, Message, Resolution, Step, TenantId, Timestamp, TurnFailure, TurnId, TurnState,
};

use crate::commit::StreamedOutput;

/// What came of calling a turn off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// There is no such turn for the caller.
    NotFound,
    /// It has ended, now or before, whether with an answer or without.
    Ended,
    /// It runs and was asked to end.
    Asked,
}

/// What one step of forgetting old responses came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// How many were forgotten.
    pub responses: usize,
    /// Whether there is nothing left that is old enough.
    pub is_all: bool,
}

/// What is kept of a turn that belongs to no conversation: not what was said, only what it cost and how it ended.
#[derive(Debug, Clone)]
pub struct StatelessTurn {
    /// Whose.
    pub tenant: TenantId,
    /// Its id.
    pub id: TurnId,
    /// Which API style asked.
    pub api: &'static str,
    /// How it ended.
    pub outcome: StatelessOutcome,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// How a turn of no conversation ended.
#[derive(Debug, Clone)]
pub enum StatelessOutcome {
    /// With an answer.
    Completed(Finish),
    /// Without one.
    Unanswered {
        /// `Failed`, `Cancelled` or `Interrupted`.
        state: TurnState,
        /// Why.
        failure: TurnFailure,
    },
}

/// A place in what a running turn has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamedThrough {
    /// The attempt that showed it.
    pub attempt: u32,
    /// How many messages that attempt had appended.
    pub appended: usize,
    /// How many parts of its journal since then lie before it.
    pub parts: u32,
}

/// What a running turn has shown since a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedPart {
    /// Whole parts of the journal, put together. Empty if there is nothing new.
    pub shown: StreamedOutput,
    /// The place after it.
    pub through: StreamedThrough,
}

/// All that is needed to show a turn again.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// Where it stands.
    pub state: TurnState,
    /// Whether it runs and was asked to end.
    pub stopping: bool,
    /// Whether a further attempt of it waits whose id was given out. Until that begins, the rest tells of the attempt
    /// before.
    pub waits_again: bool,
    /// Whether it was cancelled by its id: then it stays so, and what it was asked is asked by another turn.
    pub called_off: bool,
    /// Its last attempt.
    pub attempt: u32,
    /// The conversation as it was when the turn ended; of one that has not begun or not ended, as it is now.
    pub facts: Arc<ConversationFacts>,
    /// The conversation as it was when the turn began.
    pub began: Arc<ConversationFacts>,
    /// How the name it was asked under led to its conversation.
    pub resolution: Resolution,
    /// Whether the head moved while it ran.
    pub rotated: bool,
    /// Which API style asked.
    pub api: Arc<str>,
    /// What the response repeats of its request, if the turn is one and it was not forgotten.
    pub echo: Option<Arc<str>>,
    /// Whether it can be fetched as a response.
    pub kept: bool,
    /// When it was admitted or queued.
    pub started_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// How its answer ended, if it has one.
    pub finish: Option<Finish>,
    /// Why it has none.
    pub failure: Option<TurnFailure>,
    /// Whether it ever held the lease.
    pub has_begun: bool,
    /// The messages it brought.
    pub input: Vec<Arc<Message>>,
    /// Its steps, in order. Those of a turn that has not ended are those that were written so far.
    pub steps: Vec<Step>,
    /// What was shown, as it was written down: of a turn that runs, so far.
    pub shown: StreamedOutput,
    /// Of a turn that runs, the place after that.
    pub streamed_through: StreamedThrough,
    /// Whether somebody else ended it, so that more may have been shown than was written down.
    pub cut_off: bool,
}

impl TurnRecord {
    /// The messages it answered with; of a turn without an answer, what had been shown of one.
    pub fn said(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.steps.iter().filter_map(Step::message)
    }

    /// The compactions that it made, in order.
    pub fn compactions(&self) -> impl DoubleEndedIterator<Item = CompactionId> {
        self.steps.iter().filter_map(Step::compaction)
    }

    /// The turn as its clients see it: while a further attempt waits, it waits, and how the attempt before ended does
    /// not count.
    pub fn as_it_stands(self) -> Self {
        if !self.waits_again {
            return self;
        }
        Self {
            state: TurnState::Queued,
            has_begun: false,
            ended_at: None,
            failure: None,
            steps: Vec::new(),
            shown: StreamedOutput::default(),
            streamed_through: StreamedThrough::default(),
            cut_off: false,
            ..self
        }
    }
}
