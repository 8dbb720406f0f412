//! What a run records: what clients sent and saw, what the model was shown, and what was read back afterwards.
//!
//! Data alone. The checker compares these values and does nothing else, so its tests can forge them.

use super::marks::{Mark, Token};

/// Milliseconds since the run began, by one clock for all clients.
pub(super) type Moment = u64;

/// Everything that the clients and the model server recorded.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The threads, by number. A thread is one name of one tenant, with all branches that come from it.
    pub(super) threads: Vec<Thread>,
    /// The turns that clients asked for.
    pub(super) turns: Vec<Turn>,
    /// The model server's calls, in the order of arrival.
    pub(super) calls: Vec<ModelCall>,
    /// Every id that a client was given, with the conversation that it was given for.
    pub(super) ids: Vec<HandedId>,
    /// When a process was stopped or the store was locked by another program.
    pub(super) stalls: Vec<Stall>,
}

/// A time in which the store could not be written, or perhaps not: a stopped process may hold its lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    pub(super) from: Moment,
    pub(super) to: Moment,
    /// The process that was stopped; none if another program held the lock.
    pub(super) server: Option<usize>,
}

/// One name that clients of one tenant use.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) tenant: usize,
}

/// One message of a client and all attempts to get it answered.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) token: Token,
    pub(super) thread: usize,
    /// The message word for word.
    pub(super) text: String,
    /// The route, for the report.
    pub(super) api: String,
    pub(super) retries: Retries,
    /// The request itself shows that its client has not seen the answer: it brings the earlier answers.
    pub(super) brings_history: bool,
    pub(super) attempts: Vec<Attempt>,
}

/// How a client marks its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries {
    /// It never tries again.
    Never,
    /// As the official SDKs: `x-stainless-retry-count`.
    Counted,
    /// By `Idempotency-Key`.
    Keyed,
}

/// One request and what its client saw.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Which process was asked, 0 or 1.
    pub(super) server: usize,
    pub(super) sent: Moment,
    pub(super) ended: Moment,
    pub(super) end: End,
    /// The id of the response or the run, where one was given.
    pub(super) object: Option<String>,
}

/// What a client saw at last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The end of the answer.
    Answered { text: String, conversation: String },
    /// An error in place of an answer, or inside a stream or a run after `shown`.
    Failed { status: u16, code: String, shown: String },
    /// The connection broke.
    Broken { shown: String },
    /// The client hung up, or waited no longer.
    GaveUp { shown: String },
}

/// An id and where it leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandedId {
    pub(super) tenant: usize,
    pub(super) id: String,
    pub(super) conversation: String,
}

/// One request to the model server.
#[derive(Debug, Clone)]
pub(super) struct ModelCall {
    /// A request for a summary, which quotes the conversation in one message.
    pub(super) is_summary: bool,
    /// The messages without the system's.
    pub(super) messages: Vec<Line>,
    /// What the model says, whether or not it got to the end.
    pub(super) answer: String,
    /// Gateway ids or client-chosen names that the request contained.
    pub(super) leaks: Vec<String>,
}

/// A message as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) role: String,
    pub(super) text: String,
}

/// Everything that was read back over HTTP when no turn was running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReadBack {
    pub(super) conversations: Vec<Conversation>,
    pub(super) resolved: Vec<Resolved>,
    pub(super) objects: Vec<StoredObject>,
}

/// One conversation as both processes show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) tenant: usize,
    pub(super) id: String,
    /// Its rows in the tenant's list of conversations: one for each process.
    pub(super) listed: [usize; 2],
    /// The head session by each process.
    pub(super) heads: [String; 2],
    pub(super) is_branch: bool,
    pub(super) sessions: Vec<Session>,
    /// Its own sessions in the graph around it.
    pub(super) lineage: Vec<String>,
    pub(super) full: Vec<Row>,
    pub(super) model: Vec<Line>,
}

/// One session of a conversation, by the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) is_live: bool,
}

/// A row of the full view. Summaries are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) role: String,
    pub(super) text: String,
    pub(super) is_partial: bool,
    pub(super) turn: String,
    /// How a turn without an answer ended.
    pub(super) turn_status: Option<String>,
}

impl Row {
    pub(super) fn mark(&self) -> Mark {
        Mark::of(&self.text)
    }
}

/// Where an id leads now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) tenant: usize,
    pub(super) id: String,
    pub(super) server: usize,
    pub(super) conversation: Option<String>,
    pub(super) head: Option<String>,
}

/// A stored response or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredObject {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) text: String,
}

impl Turn {
    /// The answers that the client saw to their end, with their conversations.
    pub(super) fn seen(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attempts.iter().filter_map(|attempt| match &attempt.end {
            End::Answered { text, conversation } => Some((text.as_str(), conversation.as_str())),
            _ => None,
        })
    }

    /// When the client first asked.
    pub(super) fn asked(&self) -> Moment {
        self.attempts.first().map_or(0, |attempt| attempt.sent)
    }

    /// When the client first saw the end of an answer.
    pub(super) fn answered(&self) -> Option<Moment> {
        let answers = self.attempts.iter().filter(|attempt| matches!(attempt.end, End::Answered { .. }));
        answers.map(|attempt| attempt.ended).min()
    }

    /// How many completed turns the contract allows for this message.
    ///
    /// A client that hangs up cannot know whether the end of the answer was already on its way. If its retry
    /// carries neither a key nor its history, the gateway cannot know either, and may take it for a new turn.
    pub(super) fn allowed(&self) -> usize {
        let earlier = self.attempts.iter().rev().skip(1);
        let hung_up = earlier.filter(|attempt| matches!(attempt.end, End::GaveUp { .. })).count();
        if self.retries == Retries::Counted && !self.brings_history { 1 + hung_up } else { 1 }
    }
}
