//! The checker: compares what clients and the model saw with what was read back. It is pure and has no clock.
//!
//! It reports only what no correct gateway could show. If a client never saw the end of its turn, the turn may be
//! stored or not, but only once. [`Turn::allowed`](super::history::Turn::allowed) has the one exception.

mod calls;
mod context;
mod order;
mod places;
mod turns;

#[cfg(test)]
mod forged;

use std::collections::HashMap;
use std::fmt;

use super::history::{Conversation, History, ReadBack, Row, Turn};
use super::marks::{Mark, Token};

/// A rule that a run can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A complete answer that a client read is stored word for word.
    AcknowledgedIsStored,
    /// A message and its answer are stored once.
    OnceOnly,
    /// A message is followed by its own answer, and turns are stored in the order in which clients saw them.
    NoInterleaving,
    /// A stored text is exactly what the client sent or the model answered.
    WordForWord,
    /// A conversation has messages of one thread and one tenant. A thread has one conversation and its branches.
    NothingForeign,
    /// Each id leads to the conversation that it was given for.
    IdsLeadHome,
    /// A conversation has one head at the end of one chain of sessions, and is listed once.
    OneHead,
    /// The model is shown the conversation from its beginning, or a summary and the end of the conversation.
    TrueContext,
    /// Gateway ids and client-chosen names never reach the model.
    NoGatewayIds,
    /// A failed turn is recorded as failed, with its streamed output as a partial message.
    FailuresAreRecorded,
    /// A request fails only with an error that the disturbances explain.
    NoWrongRefusal,
    /// A tool call of the model is made at most once.
    CallsAreMadeOnce,
    /// Where the model is shown a tool call, exactly one result follows it, and no result is without its call.
    CallsHaveOneResult,
}

impl Rule {
    /// The rule as a short sentence.
    pub(super) const fn promise(self) -> &'static str {
        match self {
            Self::AcknowledgedIsStored => "an acknowledged answer is stored word for word",
            Self::OnceOnly => "a turn is written once",
            Self::NoInterleaving => "turns never interleave",
            Self::WordForWord => "stored text is what was said",
            Self::NothingForeign => "no conversation has text of another",
            Self::IdsLeadHome => "an id leads to its conversation for ever",
            Self::OneHead => "a conversation has one head",
            Self::TrueContext => "the model sees the true conversation",
            Self::NoGatewayIds => "gateway ids never reach the model",
            Self::FailuresAreRecorded => "a failed turn is recorded with what was shown",
            Self::NoWrongRefusal => "a request is refused only for a true reason",
            Self::CallsAreMadeOnce => "a tool call is made at most once",
            Self::CallsHaveOneResult => "a tool call has exactly one result",
        }
    }
}

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) rule: Rule,
    /// The thread with the violation, if it belongs to one.
    pub(super) thread: Option<usize>,
    /// What is wrong, as a sentence.
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule.promise(), self.what)
    }
}

/// Returns all violations that the history and the read-back show.
pub(super) fn check(history: &History, read: &ReadBack) -> Vec<Finding> {
    let facts = Facts::new(history, read);
    let mut findings = Vec::new();
    turns::check(&facts, &mut findings);
    order::check(&facts, &mut findings);
    context::check(&facts, &mut findings);
    calls::check(&facts, &mut findings);
    places::check(&facts, &mut findings);
    findings
}

/// The history and the read-back, with look-ups.
struct Facts<'a> {
    history: &'a History,
    read: &'a ReadBack,
    turns: HashMap<Token, &'a Turn>,
    /// The whole text of every answer that the model began, by message and call number.
    answers: HashMap<(Token, u32), &'a str>,
}

impl<'a> Facts<'a> {
    fn new(history: &'a History, read: &'a ReadBack) -> Self {
        let turns = history.turns.iter().map(|turn| (turn.token, turn)).collect();
        let answers = history.calls.iter().filter_map(|call| match Mark::of(&call.answer) {
            Mark::Answer(token, number) => Some(((token, number), call.answer.as_str())),
            _ => None,
        });
        Self { history, read, turns, answers: answers.collect() }
    }

    fn thread_of(&self, token: Token) -> Option<usize> {
        self.turns.get(&token).map(|turn| turn.thread)
    }

    /// The thread of a conversation, taken from its first known message.
    fn thread_in(&self, conversation: &Conversation) -> Option<usize> {
        conversation.full.iter().find_map(|row| self.thread_of(row.mark().token()?))
    }

    fn finding(&self, rule: Rule, token: Token, what: String) -> Finding {
        Finding { rule, thread: self.thread_of(token), what }
    }
}

/// The rows with distinct ids. A branch shows inherited rows under the ids of its source.
fn distinct<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let mut found: Vec<&Row> = Vec::new();
    for row in rows {
        if !found.iter().any(|other| other.id == row.id) {
            found.push(row);
        }
    }
    found
}
