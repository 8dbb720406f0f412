//! Admitting a turn: one transaction decides which turn may write next.

mod client;

use std::sync::Arc;
use std::time::Duration;

use herma_model::alias::Namespace;
use herma_model::{
    Alias, ApiKeyId, CallId, ChatId, ConversationFacts, ConversationId, CreatorKind, HistoryEnd, InvalidDeclaration,
    Message, NewMessage, Resolution, SessionId, SessionKey, SessionKind, Timestamp, TurnId, Usage,
};

use crate::commit::Lease;
use crate::history::ExpectedHistory;
use crate::memories::MemoryVersion;
use crate::receipt::Receipt;
use crate::snapshot::{Revision, Scope, Version};

pub use client::ClientConnection;

/// Which conversation a turn is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A new conversation.
    New,
    /// The conversation this name leads to.
    Alias {
        /// The name.
        alias: Alias,
        /// Where the name is looked up.
        namespace: Namespace,
        /// Whether an unknown name is refused. If not, it becomes the first session's id.
        must_exist: bool,
    },
    /// A new branch that begins where this completed turn of another conversation ended. The source is not changed.
    Branch {
        /// The last turn that the branch inherits.
        source: TurnId,
    },
    /// A new branch that inherits no message of this conversation: its client has replaced the first message.
    Anew {
        /// The conversation that it leaves.
        source: ConversationId,
    },
}

/// What the caller's messages were aligned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The name led nowhere.
    Nothing,
    /// This conversation at this version; for a branch, its source.
    At(ConversationId, Version),
}

/// What happens when another turn is running or waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TurnPolicy {
    /// Wait in order of arrival.
    #[default]
    Queue,
    /// Be refused.
    Reject,
    /// Stop the running turn and be the next. A parked turn ends at once.
    Interrupt,
    /// Continue in a new branch that begins after the last answer. A further attempt of an unanswered turn waits
    /// instead, because it belongs to this conversation.
    Branch,
}

/// What an admission may give to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// The lease, or a place in the queue.
    Lease,
    /// Only the turn that this request repeats. As a new turn the request would be invalid in the conversation as the
    /// caller saw it. The outcome is `Stale` if the conversation has changed since.
    Repeat,
}

/// How soon an admission must be on disk. Every process can see it at once in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// With the turn's final commit. Nothing is shown before that.
    WithCommit,
    /// At once. The caller waits for the receipt before it shows anything.
    Now,
}

/// How the store recognises a repeated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryIdentity {
    /// Digest of principal, session key, user, route, conversation and body.
    pub fingerprint: [u8; 16],
    /// Which of an SDK's own retries this is; 0 for a first try.
    pub sdk_attempt: u32,
    /// Whether the request names its conversation, so that a repetition leads to the same one.
    pub is_named: bool,
    /// True if this is an SDK retry whose history shows that its client has not seen the answer.
    pub unseen: bool,
    /// The caller's `Idempotency-Key`.
    pub idempotency: Option<Idempotency>,
}

impl RetryIdentity {
    /// True if the request may be a repetition.
    pub const fn may_repeat(&self) -> bool {
        self.sdk_attempt > 0 || self.idempotency.is_some()
    }
}

/// An `Idempotency-Key` in its scope, and the body that it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idempotency {
    /// Digests of principal, route, conversation and key: one with the name that the request used, one with the
    /// conversation's id.
    pub scopes: [[u8; 16]; 2],
    /// Digest of the body, and of the session key if the request sends one.
    pub body: [u8; 16],
    /// The same if it sent the session key of its conversation. `None` if it sends a key, or none is stored.
    pub with_stored_key: Option<[u8; 16]>,
}

impl Idempotency {
    /// Whether this is the request that an earlier one with this digest was.
    pub fn repeats(&self, body: &[u8; 16]) -> bool {
        self.body == *body || self.with_stored_key.as_ref() == Some(body)
    }
}

/// What a turn needs to make a new conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// Its id.
    pub conversation: ConversationId,
    /// Its first session's id, unless the target's name becomes the id.
    pub session: SessionId,
    /// What the first session is.
    pub kind: SessionKind,
    /// Who makes it.
    pub creator: CreatorKind,
    /// The front door it came through, for people.
    pub source: Arc<str>,
    /// The API key it belongs to.
    pub owner: Option<ApiKeyId>,
    /// Why it is made, if the kind does not say it.
    pub reason: Option<Arc<str>>,
    /// The session it comes from, named by any name of its conversation. A session's own name means exactly that
    /// session; any other name means the head. The kind decides the relation ([`SessionKind::declare`]).
    pub parent: Option<Alias>,
    /// The call in the parent that made it, if one did.
    pub parent_tool_call: Option<CallId>,
    /// The chat of the front end that it comes under.
    pub chat: Option<ChatId>,
}

/// What a turn stores if it is a response too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResponse {
    /// The request fields that the response repeats, as JSON. Opaque.
    pub echo: Arc<str>,
    /// Whether it can be fetched.
    pub kept: bool,
    /// True if clients get the id while the turn waits. If it gives up, it is then recorded as ended and not forgotten.
    pub visible_while_queued: bool,
}

/// A turn that asks for its conversation's lease.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The caller's scope.
    pub scope: Scope,
    /// The turn's id. A waiting turn asks again with the same id.
    pub turn: TurnId,
    /// True if the id belongs to an earlier turn of the same request that never began ([`AdmitOutcome::NeverBegan`]).
    pub takes_over: bool,
    /// Its place in the queue, if it has one.
    pub ticket: Option<Ticket>,
    /// What the admission may give.
    pub intent: Intent,
    /// Which conversation.
    pub target: Target,
    /// What the messages were aligned with.
    pub seen: Seen,
    /// The messages the request adds. If it becomes a further attempt of another turn, their ids are derived from that
    /// turn.
    pub messages: Vec<NewMessage>,
    /// The session key the request names.
    pub session_key: Option<SessionKey>,
    /// What to do when another turn is running or waiting.
    pub policy: TurnPolicy,
    /// Most turns that may wait in one conversation.
    pub queue_limit: u32,
    /// How long an interrupted turn may still run before it is cut off.
    pub interrupt_grace: Duration,
    /// How to recognise a repeated request.
    pub retry: RetryIdentity,
    /// The client's connection. The store checks it inside the transaction. So a retry that the client sends after it
    /// has hung up is decided after this check.
    pub client: ClientConnection,
    /// Whether a request for a new conversation may become another attempt in a conversation whose only turn failed.
    pub may_reopen: bool,
    /// The messages of a request for a new conversation, if they are a single opening. If a conversation has exactly
    /// these messages, added by a client, it waits for their answer: see [`AdmitOutcome::Waiting`].
    pub opening: Option<HistoryEnd>,
    /// What a search by history has to find, if the caller has not searched. The outcome is `Stale` if it finds another
    /// turn or none, or if the conversation has ended.
    pub expected_history: Option<Box<ExpectedHistory>>,
    /// Whether the model may be shown only what the request itself has. Such a request is no further attempt of a turn
    /// after which others were answered: it would begin anew behind their words.
    pub own_history_alone: bool,
    /// The unanswered last turn whose input this request repeats. The request becomes its next attempt.
    pub retry_of: Option<TurnId>,
    /// The unanswered turn, not the last one, that this request repeats. It begins anew at the end, with `messages` and
    /// under its own id. Its earlier messages stay where they are, as an attempt that failed there.
    pub anew_of: Option<TurnId>,
    /// What to make if the conversation is new. For a branch the store sets kind and parent itself.
    pub creation: Creation,
    /// What to store for the response, if the turn is one.
    pub response: Option<NewResponse>,
    /// When it must be on disk.
    pub durability: Durability,
    /// The API style of the request, for the record.
    pub api: &'static str,
    /// The clock.
    pub now: Timestamp,
}

impl Admission {
    /// Whether the request is a further attempt of a turn.
    pub const fn is_further_attempt(&self) -> bool {
        self.retry_of.is_some() || self.anew_of.is_some()
    }
}

/// A turn that holds its conversation's lease.
#[derive(Debug)]
pub struct Running {
    /// The turn. If this is a further attempt of an unanswered turn, its id is not the one that was asked for.
    pub turn: TurnId,
    /// Which attempt.
    pub attempt: u32,
    /// Proof of the lease, which each write of the turn must show.
    pub lease: Lease,
    /// The conversation, after the effects of this admission.
    pub facts: Arc<ConversationFacts>,
    /// The version after admission.
    pub version: Version,
    /// The revision when the turn has ended, if nothing else changes the conversation until then.
    pub revision: Revision,
    /// The messages as stored.
    pub messages: Vec<Arc<Message>>,
    /// How the name led here.
    pub resolution: Resolution,
    /// When the turn's first attempt was admitted.
    pub started_at: Timestamp,
    /// What model calls of earlier attempts at this place have used.
    pub usage: Option<Usage>,
    /// The version of what is remembered about the conversation's session key. `None` without a key.
    pub memory: Option<MemoryVersion>,
    /// Resolves when the admission is on disk.
    pub durable: Receipt,
}

/// A turn's place in its conversation's queue. Among turns of the same policy the lower ticket goes first. Otherwise
/// only the engine can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub i64);

/// The outcome of an admission. Only `Running` and `Queued` changed anything for the caller.
#[derive(Debug)]
pub enum AdmitOutcome {
    /// The turn has the lease.
    Running(Box<Running>),
    /// The turn waits. Ask again after a change.
    Queued {
        /// Its place.
        ticket: Ticket,
        /// The conversation as it is now.
        facts: Arc<ConversationFacts>,
        /// The running turn, if there is one. An interrupting turn stops this one, never a waiting one.
        running: Option<TurnId>,
        /// When the turn was first asked for.
        since: Timestamp,
        /// The turn under whose id it waits. Set when a request that is visible while queued has just got its place as
        /// a further attempt of a turn that was visible too.
        attempt_of: Option<TurnId>,
    },
    /// The request is this turn, which runs or was answered. Its outcome is the answer.
    Joined(TurnId),
    /// The request repeats this unanswered turn of this conversation. Align with the conversation and ask for a further
    /// attempt.
    RetryIn(ConversationId, TurnId),
    /// The request is this turn, which was visible while queued and ended before it began. Ask again under its id, with
    /// `takes_over`.
    NeverBegan(TurnId),
    /// The request names no conversation and repeats the only turn of this one, which failed less than a minute ago.
    /// Align with it and ask again. If it is not a further attempt of that turn, ask without `may_reopen`.
    Reopen(ConversationId),
    /// The request names no conversation. Its messages are the whole transcript of the conversation to which a client
    /// added them in this turn, and no answer was asked for yet. Align with it and ask again.
    Waiting(TurnId),
    /// The conversation has changed since it was read. Read it again. Also the answer to a request for a new
    /// conversation whose chat has one by now.
    Stale,
    /// The request cannot be admitted.
    Refused(Refusal),
}

/// Why a turn was not admitted. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The name leads nowhere, or to a conversation that the caller cannot reach.
    NotFound,
    /// The conversation has another session key.
    SessionKeyConflict,
    /// This turn is running, or is the first in the queue, and the policy is to reject.
    Busy(TurnId),
    /// Too many turns are waiting.
    QueueFull {
        /// The limit.
        limit: u32,
    },
    /// The idempotency key was used with another body.
    IdempotencyMismatch,
    /// The conversation was ended.
    Ended,
    /// The parent of the new conversation does not exist for the caller.
    NoParent,
    /// The declared kind is not possible. Only the target or the policy of a turn can make a branch.
    Undeclarable(InvalidDeclaration),
    /// The request repeats no turn that it could join.
    NotRepeated,
    /// The turn was withdrawn, or lost its place in the queue, while it waited.
    Withdrawn,
}
