//! Turns that wait for people: questions whether a call may be made, their answers, and what was allowed for longer.
//!
//! A turn that asks is *parked*. It keeps its place as the conversation's running turn, but it belongs to no process.
//! So it does not end when the process ends that parked it. When all its questions are answered, any process can
//! resume it.

use std::sync::Arc;

use herma_model::{ApprovalAnswer, CallId, ConversationId, OwnCall, TenantId, Timestamp};

use crate::admission::Running;
use crate::commit::Lease;
use crate::snapshot::Snapshot;
use crate::turns::TurnRecord;

/// A running turn that waits for people.
#[derive(Debug, Clone)]
pub struct Park {
    /// The lease. Parking ends it.
    pub lease: Lease,
    /// What the gateway needs to go on with the turn. Opaque.
    pub request: String,
    /// The calls that people are asked about, in order. All belong to the last message that the turn has appended.
    pub asks: Vec<AskedCall>,
    /// The clock.
    pub now: Timestamp,
}

/// A call that a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// The call.
    pub call: OwnCall,
    /// The name under which the model was offered the tool.
    pub name: Arc<str>,
    /// The arguments, JSON text as the model wrote it.
    pub arguments: Arc<str>,
}

/// A question whether a call may be made, with its answer if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApproval {
    /// The call.
    pub call: OwnCall,
    /// The name under which the model was offered the tool.
    pub name: Arc<str>,
    /// The arguments, JSON text as the model wrote it.
    pub arguments: Arc<str>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// The answer.
    pub answer: Option<ApprovalAnswer>,
}

/// Which questions of a turn an answer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The first one that has no answer.
    Oldest,
    /// The one about this call.
    Call(CallId),
    /// All that have no answer.
    All,
}

/// The outcome of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The turn does not exist for this scope, or is not parked.
    NotFound,
    /// No question without an answer is left, or none about the call that was named.
    NothingAsked,
    /// The answer is written. Other questions are open. This is the call that it is about.
    Answered(OwnCall),
    /// The answer is written. It was the last one, so the turn can be resumed. This is the last call that it is about.
    Complete(OwnCall),
}

/// A parked turn that this process goes on with.
#[derive(Debug)]
pub struct Resumed {
    /// The turn, under a new lease with a higher fence. Its messages are the turn's input, and the attempt is the same.
    pub running: Running,
    /// What the model is shown, with the messages of this turn so far.
    pub snapshot: Snapshot,
    /// The turn so far.
    pub record: TurnRecord,
    /// What the gateway stored when it parked the turn.
    pub request: String,
    /// The questions, in order. All have answers.
    pub approvals: Vec<PendingApproval>,
}

/// A tool whose calls are made without a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The tenant.
    pub tenant: TenantId,
    /// The tenant's name.
    pub tenant_name: Arc<str>,
    /// The conversation that it is for; `None` if it is for all conversations of the tenant.
    pub conversation: Option<ConversationId>,
    /// The label of the server that has the tool.
    pub server: Arc<str>,
    /// The tool, by its server's own name.
    pub tool: Arc<str>,
    /// When it was first granted.
    pub created_at: Timestamp,
}
