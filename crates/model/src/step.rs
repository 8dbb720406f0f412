//! What happens in a turn, as a sequence of steps.
//!
//! A turn is everything from one input to one final answer. Its steps are durable and ordered: a turn that is read
//! again, through any front door and after any crash, has the same steps. How the turn ended is not a step. It is the
//! state of the turn, with its finish or its failure.
//!
//! A new kind of step is a new variant here. Every `match` on it is exhaustive, so the compiler names the places that
//! have to know it.

use std::sync::Arc;

use crate::{ApprovalAnswer, CallId, CompactionId, Message, OwnCall};

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The conversation was compacted so that the context fits.
    Compacted(CompactionId),
    /// The model said this. Its status is partial if the turn ended in the middle of it. It may call tools.
    Said(Arc<Message>),
    /// A person answered whether this call of one of Herma's own tools may be made.
    Answered(OwnCall, ApprovalAnswer),
    /// This is the result of a call of one of Herma's own tools.
    ToolResult(Arc<Message>),
}

impl Step {
    /// The model message that the step is, if it is one.
    pub const fn model_message(&self) -> Option<&Arc<Message>> {
        match self {
            Self::Said(message) => Some(message),
            Self::Compacted(_) | Self::Answered(..) | Self::ToolResult(_) => None,
        }
    }

    /// The message that the step is, if it is one: of the model, or the result of a call.
    pub const fn stored_message(&self) -> Option<&Arc<Message>> {
        match self {
            Self::Said(message) | Self::ToolResult(message) => Some(message),
            Self::Compacted(_) | Self::Answered(..) => None,
        }
    }

    /// The compaction that the step is, if it is one.
    pub const fn compaction(&self) -> Option<CompactionId> {
        match self {
            Self::Compacted(id) => Some(*id),
            Self::Said(_) | Self::Answered(..) | Self::ToolResult(_) => None,
        }
    }

    /// The steps that messages of a turn are, in order.
    ///
    /// The answers of people are stored with the results of their calls. As steps they stand before all results of the
    /// same message, because no call of a message is made before all its questions are answered. `pending` has the
    /// answers to questions of calls that have no result yet.
    pub fn of_messages(messages: &[Arc<Message>], pending: &[(CallId, ApprovalAnswer)]) -> Vec<Self> {
        let mut steps = Vec::with_capacity(messages.len());
        for (at, message) in messages.iter().enumerate() {
            if message.said.call_end().is_some() {
                steps.push(Self::ToolResult(Arc::clone(message)));
                continue;
            }
            steps.push(Self::Said(Arc::clone(message)));
            let results = messages[at + 1..].iter().map_while(|message| Some((message, message.said.call_end()?)));
            let mut answers: Vec<(CallId, ApprovalAnswer)> = results
                .filter_map(|(message, end)| Some((message.said.calls.first()?.clone(), end.answer?)))
                .chain(pending.iter().cloned())
                .collect();
            answers.sort_by_key(|(_, answer)| answer.order);
            let calls = message.said.own_calls();
            for (id, answer) in answers {
                steps.extend(calls.iter().find(|call| call.id == id).map(|call| Self::Answered(call.clone(), answer)));
            }
        }
        steps
    }
}
