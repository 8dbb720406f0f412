//! What people decide about calls with which an earlier response ended, as the input of a turn.
//!
//! A request that answers such a question may bring no message. Its decisions are stored with the admission. So the
//! turn has input that a further attempt is recognised by, and a call is stored as decided before it is made.

use std::sync::Arc;

use herma_model::generation::ToolCall;
use herma_model::{
    ApprovalAnswer, ApprovalChoice, CallId, Decision, EarlierCall, Message, MessageId, OwnCall, Role, TurnId,
    Utterance, tool,
};
use herma_store::Snapshot;
use herma_turn::Transcript;
use herma_wire::chat::answer_of;

use crate::answer::unknown_finish;
use crate::compaction::transcript;
use crate::request::TurnRequest;

/// A call of an earlier turn that a request decides about.
pub(crate) struct DecidedCall {
    pub(crate) own: OwnCall,
    pub(crate) call: ToolCall,
    /// The answer. `None` if the call only waited for an answer about another call.
    pub(crate) answer: Option<ApprovalAnswer>,
    /// The message that makes the call.
    message: MessageId,
    /// Its place among the own calls of that message.
    place: usize,
    /// Whether the request names it, or it waited for one that the request names.
    is_given: bool,
}

/// The calls that a request decides about. A question that it does not answer counts as denied. Empty if it answers no
/// open question.
pub(crate) fn decided_calls<'a>(
    given: &[(CallId, bool)],
    messages: impl DoubleEndedIterator<Item = &'a Arc<Message>> + Clone,
) -> Vec<DecidedCall> {
    if given.is_empty() {
        return Vec::new();
    }
    let open = tool::unsettled(messages.clone().map(|message| &message.said));
    let is_answered = |own: &OwnCall| given.iter().any(|(id, _)| *id == own.id);
    let Some(asked) = messages.rev().find(|message| message.said.role == Role::Assistant) else { return Vec::new() };
    if !open.iter().any(is_answered) {
        return Vec::new();
    }
    let (calls, all) = (answer_of(&asked.said, unknown_finish()).tool_calls, asked.said.own_calls());
    let mut order = 0..;
    let decided = open.into_iter().filter_map(|own| {
        let call = calls.iter().find(|call| *call.id == *own.id)?.clone();
        let allowed = given.iter().find(|(id, _)| *id == own.id).map(|(_, allowed)| *allowed);
        let choice = match (own.asks, allowed) {
            (false, _) => None,
            (true, Some(true)) => Some(ApprovalChoice::Once),
            (true, Some(false) | None) => Some(ApprovalChoice::Deny),
        };
        let answer = choice.and_then(|choice| Some(ApprovalAnswer::given(choice, order.next()?)));
        let place = all.iter().position(|other| other.id == own.id).unwrap_or_default();
        let is_given = allowed.is_some() || !own.asks;
        Some(DecidedCall { own, call, answer, message: asked.id, place, is_given })
    });
    decided.collect()
}

/// The decisions of a request as messages of its turn.
pub(crate) fn decisions(request: &TurnRequest, before: Option<&Snapshot>) -> Vec<Utterance> {
    let Some(before) = before else { return Vec::new() };
    let decided = decided_calls(&request.input.approvals, transcript(before).since_base().iter());
    let message = |decided: &DecidedCall| {
        let (server, tool) = (Arc::clone(&decided.own.server), Arc::clone(&decided.own.tool));
        Utterance::from(&Decision {
            id: Arc::clone(&decided.own.id),
            message: decided.message,
            place: decided.place,
            call: EarlierCall { server, tool, arguments: Arc::from(decided.call.arguments.as_str()) },
            answer: decided.answer,
        })
    };
    decided.iter().filter(|decided| decided.is_given).map(message).collect()
}

/// Whether a request answers a question with which the last response ended.
pub(crate) fn answers_open_question(request: &TurnRequest, transcript: Transcript<'_>) -> bool {
    !decided_calls(&request.input.approvals, transcript.since_base().iter()).is_empty()
}

/// The last turn, if it has no answer, and its only input was the decisions that the request brings too.
pub(crate) fn repeated_turn(request: &TurnRequest, transcript: Transcript<'_>) -> Option<TurnId> {
    let given = &request.input.approvals;
    let turn = transcript.since_base().last().map(|message| message.turn).filter(|_| !given.is_empty())?;
    transcript.ending(turn)?;
    let own = || transcript.since_base().iter().filter(|message| message.turn == turn);
    let decided: Vec<_> = own().filter_map(|message| message.said.decision()).collect();
    let answers: Vec<_> = decided.iter().filter_map(|decided| Some((&decided.id, decided.answer?.choice))).collect();
    let is_repeated = |(call, allowed): &(CallId, bool)| {
        answers.iter().any(|(id, choice)| *id == call && choice.allows() == *allowed)
    };
    let is_alone = !own().any(|message| message.said.role == Role::User);
    (is_alone && answers.len() == given.len() && given.iter().all(is_repeated)).then_some(turn)
}
