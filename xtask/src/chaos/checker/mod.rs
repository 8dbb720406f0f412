//! The checker: compares what clients and the model saw with what was read back. Pure, and without a clock.
//!
//! It reports only what no correct gateway could show. A turn whose client never saw its end may be there or
//! not, but once; see [`Turn::allowed`](super::history::Turn::allowed) for the one case in which a second is allowed.

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

/// A promise that can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// An answer that a client saw to its end is stored word for word.
    AcknowledgedIsStored,
    /// A message is written once, and so is its answer.
    OnceOnly,
    /// A message is followed by its own answer, and turns keep the order in which clients saw them.
    NoInterleaving,
    /// A stored text is exactly what the client sent or the model said.
    WordForWord,
    /// A conversation has messages of one thread of one tenant, and a thread has one conversation and its branches.
    NothingForeign,
    /// Each id leads to the conversation that it was given for.
    IdsLeadHome,
    /// A conversation has one head at the end of one chain, and is listed once.
    OneHead,
    /// The model sees the true beginning of the conversation, or a summary and its true end.
    TrueContext,
    /// Gateway ids and names never reach the model.
    NoGatewayIds,
    /// A failed turn is recorded as such, with what was shown as partial text.
    FailuresAreRecorded,
    /// A request is refused only for a reason that exists.
    NoWrongRefusal,
}

impl Rule {
    /// The promise in a few words.
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
        }
    }
}

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) rule: Rule,
    /// The thread that it happened in, where there is one.
    pub(super) thread: Option<usize>,
    /// What is wrong, in plain words.
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.rule.promise(), self.what)
    }
}

/// Everything that the history and the reading show to be broken.
pub(super) fn check(history: &History, read: &ReadBack) -> Vec<Finding> {
    let facts = Facts::new(history, read);
    let mut findings = Vec::new();
    turns::check(&facts, &mut findings);
    order::check(&facts, &mut findings);
    context::check(&facts, &mut findings);
    places::check(&facts, &mut findings);
    findings
}

/// The history and the reading, with look-ups.
struct Facts<'a> {
    history: &'a History,
    read: &'a ReadBack,
    turns: HashMap<Token, &'a Turn>,
    /// The whole text of every answer that the model began, by message and call.
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

    /// The thread of a conversation: that of its first known message.
    fn thread_in(&self, conversation: &Conversation) -> Option<usize> {
        conversation.full.iter().find_map(|row| self.thread_of(row.mark().token()?))
    }

    fn finding(&self, rule: Rule, token: Token, what: String) -> Finding {
        Finding { rule, thread: self.thread_of(token), what }
    }
}

/// Rows that differ by id. A branch shows the rows that it inherits under the ids of its source.
fn distinct<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let mut found: Vec<&Row> = Vec::new();
    for row in rows {
        if !found.iter().any(|other| other.id == row.id) {
            found.push(row);
        }
    }
    found
}
