//! The records of a run: what clients sent and saw, what the model was shown, and what was read back afterwards.
//!
//! This module has data only. The checker compares these values and does nothing else, so its tests can forge them.

use serde_json::Value;

use super::marks::{Mark, Token};

/// Milliseconds since the run began. All clients use the same clock.
pub(super) type Moment = u64;

/// All that the clients and the model server recorded.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// A thread is one name of one tenant, with all branches that come from it. Other records use its index here.
    pub(super) threads: Vec<Thread>,
    /// The turns that clients asked for.
    pub(super) turns: Vec<Turn>,
    /// The calls of the model server, in the order of arrival.
    pub(super) calls: Vec<ModelCall>,
    /// Every id that a client was given, with its conversation.
    pub(super) ids: Vec<HandedId>,
    /// The times in which a process was stopped or another program locked the store.
    pub(super) stalls: Vec<Stall>,
    /// The ids of the tool calls that the tool server got, in order.
    pub(super) executions: Vec<String>,
}

/// A time in which the store may have been locked: a stopped process may hold its lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    pub(super) from: Moment,
    pub(super) to: Moment,
    /// The process that was stopped. `None` if another program held the lock.
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
    pub(super) text: String,
    /// The route, only for the report.
    pub(super) api: String,
    pub(super) retries: Retries,
    /// The request has earlier answers or names a response. So the gateway can tell that its client has not seen this
    /// answer.
    pub(super) brings_history: bool,
    pub(super) attempts: Vec<Attempt>,
}

/// How a client marks its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries {
    /// It sends no retries.
    Never,
    /// With `x-stainless-retry-count`, as the official SDKs do.
    Counted,
    /// With `Idempotency-Key`.
    Keyed,
}

/// One request and what its client saw.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// The process that got the request, 0 or 1.
    pub(super) server: usize,
    pub(super) sent: Moment,
    pub(super) ended: Moment,
    pub(super) end: End,
    /// The id of the response or the run, if the client got one.
    pub(super) object: Option<String>,
}

/// How a request ended for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The client read the whole answer.
    Answered { text: String, conversation: String },
    /// The client got an error: as the answer, or in a stream or a run after the text `shown`.
    Failed { status: u16, code: String, shown: String },
    /// The connection broke.
    Broken { shown: String },
    /// The client hung up or ran into its timeout.
    GaveUp { shown: String },
}

/// An id that a client got, and the conversation that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandedId {
    pub(super) tenant: usize,
    pub(super) id: String,
    pub(super) conversation: String,
}

/// One request to the model server.
#[derive(Debug, Clone)]
pub(super) struct ModelCall {
    /// Whether the request asks for a summary. Such a request quotes the conversation in one message.
    pub(super) is_summary: bool,
    /// The messages without system messages.
    pub(super) messages: Vec<Line>,
    /// The whole answer of the model, even if the connection broke before its end.
    pub(super) answer: String,
    /// Gateway ids and names chosen by clients that the request contained. There must be none.
    pub(super) leaks: Vec<String>,
}

/// A message as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) role: String,
    pub(super) text: String,
    /// The ids of the tool calls that it makes, or of the one that it is the result of.
    pub(super) calls: Vec<String>,
}

impl Line {
    /// A message in the form of chat completions, or a row that has the same fields. `text` is its text.
    pub(super) fn of(message: &Value, text: String) -> Self {
        let id = |value: &Value| value.as_str().map(str::to_owned);
        let made = message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| id(&call["id"]));
        let calls = made.chain(id(&message["tool_call_id"])).collect();
        Self { role: id(&message["role"]).unwrap_or_default(), text, calls }
    }
}

/// All that was read back over HTTP when no turn was running.
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
    /// How many rows each process has for it in the tenant's list of conversations.
    pub(super) listed: [usize; 2],
    /// The head session that each process shows.
    pub(super) heads: [String; 2],
    pub(super) is_branch: bool,
    pub(super) sessions: Vec<Session>,
    /// Its own sessions in its lineage graph.
    pub(super) lineage: Vec<String>,
    pub(super) full: Vec<Row>,
    pub(super) model: Vec<Line>,
}

/// One session of a conversation, from the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) is_live: bool,
}

/// A row of the full view, which has no summaries here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) role: String,
    pub(super) text: String,
    pub(super) is_partial: bool,
    pub(super) turn: String,
    /// How the turn ended, if it has no answer.
    pub(super) turn_status: Option<String>,
}

impl Row {
    pub(super) fn mark(&self) -> Mark {
        Mark::of(&self.text)
    }
}

/// The conversation that an id leads to, by one process.
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
    /// The complete answers that the client read, with their conversations.
    pub(super) fn seen(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attempts.iter().filter_map(|attempt| match &attempt.end {
            End::Answered { text, conversation } => Some((text.as_str(), conversation.as_str())),
            _ => None,
        })
    }

    /// When the client sent the first request.
    pub(super) fn asked(&self) -> Moment {
        self.attempts.first().map_or(0, |attempt| attempt.sent)
    }

    /// When the client first had a complete answer.
    pub(super) fn answered(&self) -> Option<Moment> {
        let answers = self.attempts.iter().filter(|attempt| matches!(attempt.end, End::Answered { .. }));
        answers.map(|attempt| attempt.ended).min()
    }

    /// The number of completed turns that the contract allows for this message.
    ///
    /// A client that hangs up cannot know whether the end of the answer was already sent. If its retry has neither a
    /// key nor the history, the gateway cannot know it either. It may then treat the retry as a new turn.
    pub(super) fn allowed(&self) -> usize {
        let earlier = self.attempts.iter().rev().skip(1);
        let hung_up = earlier.filter(|attempt| matches!(attempt.end, End::GaveUp { .. })).count();
        if self.retries == Retries::Counted && !self.brings_history { 1 + hung_up } else { 1 }
    }
}
