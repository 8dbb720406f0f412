//! A stored turn, for callers that join it or ask for it later.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::turn::FailureCode;
use herma_model::{
    CompactionId, ConversationFacts, Message, Recall, Resolution, Step, TenantId, Timestamp, TurnFailure, TurnId,
    TurnState,
};

use crate::approvals::PendingApproval;
use crate::commit::StreamedOutput;

/// The outcome of cancelling a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// The caller can reach no such turn.
    NotFound,
    /// It has ended, now or before, with an answer or without.
    Ended,
    /// It is running and was asked to stop.
    Asked,
}

/// The result of one call that makes old responses unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// How many responses became unavailable.
    pub responses: usize,
    /// True if no more responses are old enough.
    pub is_all: bool,
}

/// The record of a stateless turn: what it cost and how it ended. Its messages are not stored.
#[derive(Debug, Clone)]
pub struct StatelessTurn {
    /// The tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: TurnId,
    /// The API style of the request.
    pub api: &'static str,
    /// How it ended.
    pub outcome: StatelessOutcome,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// How a stateless turn ended.
#[derive(Debug, Clone)]
pub enum StatelessOutcome {
    /// With an answer.
    Completed(Finish),
    /// Without an answer.
    Unanswered {
        /// `Failed`, `Cancelled` or `Interrupted`.
        state: TurnState,
        /// Why.
        failure: TurnFailure,
    },
}

/// A place in the streamed output of a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamedThrough {
    /// The attempt that streamed it.
    pub attempt: u32,
    /// How many messages that attempt had appended before.
    pub appended: usize,
    /// How many parts of the journal since then come before this place.
    pub parts: u32,
}

/// Streamed output of a running turn after a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedPart {
    /// Whole parts of the journal, joined. Empty if there is nothing new.
    pub shown: StreamedOutput,
    /// The place after this output.
    pub through: StreamedThrough,
}

/// All data that is needed to show a turn again.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// Its state.
    pub state: TurnState,
    /// Whether it is running and was asked to stop.
    pub stopping: bool,
    /// Whether it is parked: it is running, but it belongs to no process and waits for people.
    pub parked: bool,
    /// Whether a further attempt waits under this id. Until that attempt begins, the other fields describe the attempt
    /// before.
    pub waits_again: bool,
    /// Whether it was cancelled by its id. Then it stays cancelled, and a repeated request becomes another turn.
    pub called_off: bool,
    /// Its last attempt.
    pub attempt: u32,
    /// The conversation as it was when the turn ended. If the turn has not begun or not ended, as it is now.
    pub facts: Arc<ConversationFacts>,
    /// The conversation as it was when the turn began.
    pub began: Arc<ConversationFacts>,
    /// How the name in the request led to the conversation.
    pub resolution: Resolution,
    /// Whether the head moved while it ran.
    pub rotated: bool,
    /// The API style of the request.
    pub api: Arc<str>,
    /// The request fields that the response repeats. `None` if the turn is no response or was made unavailable as one.
    pub echo: Option<Arc<str>>,
    /// Whether it can be fetched as a response.
    pub kept: bool,
    /// When it was admitted or queued.
    pub started_at: Timestamp,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// How its answer ended, if it has one.
    pub finish: Option<Finish>,
    /// Why it has no answer.
    pub failure: Option<TurnFailure>,
    /// Whether it ever held the lease.
    pub has_begun: bool,
    /// The messages it brought.
    pub input: Vec<Arc<Message>>,
    /// Its steps, in order. If the turn has not ended, those that are written so far.
    pub steps: Vec<Step>,
    /// The questions that it waits for, in order, with the answers so far. Empty if it is not parked.
    pub pending: Vec<PendingApproval>,
    /// What memory did for it. `None` if no session key was in force, or if that is not written yet.
    pub recall: Option<Arc<Recall>>,
    /// The streamed output in the journal. If the turn is running, the output so far.
    pub shown: StreamedOutput,
    /// The place after `shown`, if the turn is running.
    pub streamed_through: StreamedThrough,
    /// Whether another turn or process ended it. Then the client may have seen more than the journal has.
    pub cut_off: bool,
}

impl TurnRecord {
    /// The messages of its answer. If it has none, the partial answer that was streamed.
    pub fn said(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.steps.iter().filter_map(Step::model_message)
    }

    /// Why it has no answer. For a turn that ended without one.
    pub fn why_unanswered(&self) -> TurnFailure {
        let unknown = || TurnFailure::new(FailureCode::Internal, "the turn ended without an answer");
        self.failure.clone().unwrap_or_else(unknown)
    }

    /// The compactions that it made, in order.
    pub fn compactions(&self) -> impl DoubleEndedIterator<Item = CompactionId> {
        self.steps.iter().filter_map(Step::compaction)
    }

    /// The turn as its clients see it. While a further attempt waits, the turn counts as queued, and the end of the
    /// attempt before is hidden.
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
