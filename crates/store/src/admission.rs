//! Admitting a turn: who may write next, decided in one transaction.

mod client;

use std::sync::Arc;
use std::time::Duration;

use herma_model::alias::Namespace;
use herma_model::{
    Alias, ApiKeyId, ConversationFacts, ConversationId, CreatorKind, InvalidDeclaration, Message, NewMessage,
    Resolution, SessionId, SessionKey, SessionKind, Timestamp, TurnId,
};

use crate::commit::Lease;
use crate::receipt::Receipt;
use crate::snapshot::{Revision, Scope, Version};

pub use client::ClientConnection;

/// Which conversation a turn is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A new one of its own.
    New,
    /// The one this name leads to.
    Alias {
        /// The name.
        alias: Alias,
        /// Where the name is looked up.
        namespace: Namespace,
        /// Whether an unknown name is refused. If not, it becomes the first session's id.
        must_exist: bool,
    },
    /// A new one that begins where this completed turn of another one ended. That other one never notices.
    Branch {
        /// The turn after which nothing is inherited.
        source: TurnId,
    },
}

/// What the caller's messages were aligned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The name led nowhere.
    Nothing,
    /// This conversation at this version; of a branch, the one it comes from.
    At(ConversationId, Version),
}

/// What happens when another turn is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TurnPolicy {
    /// Wait in order of arrival.
    #[default]
    Queue,
    /// Be refused.
    Reject,
    /// Stop the running turn and go next.
    Interrupt,
    /// Leave the conversation where the last answer ended, for a branch of its own. A further attempt of an unanswered turn waits, as it
    /// belongs to its conversation.
    Branch,
}

/// What a caller can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// The lease, or a place in the queue.
    Lease,
    /// Only the turn that this request repeats: as a new one it would be wrong, in the conversation as it was seen. If it was not seen
    /// as it is, the outcome is `Stale`.
    Repeat,
}

/// How soon an admission must be on disk. It is visible to every process at once either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// With the turn's final commit: nothing is shown before that.
    WithCommit,
    /// By itself: the caller waits for the receipt before it shows anything.
    Now,
}

/// How a repeated request is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryIdentity {
    /// Principal, session key, user, route, conversation and body, digested.
    pub fingerprint: [u8; 16],
    /// Which of an SDK's own retries this is; 0 for a first try.
    pub sdk_attempt: u32,
    /// Whether an SDK's own retry shows by its history that its client has not seen the answer that it asks for again.
    pub unseen: bool,
    /// The caller's `Idempotency-Key`.
    pub idempotency: Option<Idempotency>,
}

impl RetryIdentity {
    /// Whether the request says that it may have been made before.
    pub const fn may_repeat(&self) -> bool {
        self.sdk_attempt > 0 || self.idempotency.is_some()
    }
}

/// An `Idempotency-Key` in its scope, and the body it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idempotency {
    /// Principal, route, conversation and key, digested: once with the name that the request used, once with the conversation's own id.
    pub scopes: [[u8; 16]; 2],
    /// The body, digested.
    pub body: [u8; 16],
}

/// What a conversation is made of if the turn has to make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// Its handle.
    pub conversation: ConversationId,
    /// Its first session's id, unless the target's name becomes that.
    pub session: SessionId,
    /// What the first session is.
    pub kind: SessionKind,
    /// Who makes it.
    pub creator: CreatorKind,
    /// Which door it came through, for people.
    pub source: Arc<str>,
    /// The API key it belongs to.
    pub owner: Option<ApiKeyId>,
    /// Why it is made, when that is not plain.
    pub reason: Option<Arc<str>>,
    /// The session it comes from, by any of its conversation's names: that very session if the name is one's, else the head. What the two
    /// are to each other, the kind says ([`SessionKind::declare`]).
    pub parent: Option<Alias>,
}

/// What makes a turn a response as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResponse {
    /// What the response repeats of its request, as JSON. Opaque.
    pub echo: Arc<str>,
    /// Whether it can be fetched.
    pub kept: bool,
    /// Whether its id is given out as soon as it waits: then it is ended, never forgotten.
    pub visible_while_queued: bool,
}

/// A turn that asks for its conversation's lease.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Who asks.
    pub scope: Scope,
    /// The turn's id. A turn that waits asks again with the same one.
    pub turn: TurnId,
    /// Whether the id is that of an earlier turn of the same request, which never began ([`AdmitOutcome::NeverBegan`]).
    pub takes_over: bool,
    /// Its place in the queue, once it has one.
    pub ticket: Option<Ticket>,
    /// What the caller can take.
    pub intent: Intent,
    /// Which conversation.
    pub target: Target,
    /// What the messages were aligned with.
    pub seen: Seen,
    /// The messages the request adds. If it turns out to be a further attempt of another turn, their ids are made of that one's.
    pub messages: Vec<NewMessage>,
    /// The session key the request names.
    pub session_key: Option<SessionKey>,
    /// What to do when another turn is running.
    pub policy: TurnPolicy,
    /// Most turns that may wait in one conversation.
    pub queue_limit: u32,
    /// How long a running turn may take to yield to an interrupt before it is cut off.
    pub interrupt_grace: Duration,
    /// How to recognise a repeated request.
    pub retry: RetryIdentity,
    /// Whether the client still waits. The store looks inside the transaction: a retry that the client makes later is
    /// then decided later.
    pub client: ClientConnection,
    /// Whether a request for a new conversation may turn out to be another attempt of one whose only turn failed.
    pub may_reopen: bool,
    /// The unanswered last turn whose input this request repeats: it becomes that turn's next attempt.
    pub retry_of: Option<TurnId>,
    /// The unanswered turn, not the last one, that this request repeats: it begins anew at the end, with `messages` and
    /// under its own id. Its earlier messages stay where they are, as an attempt that failed there.
    pub anew_of: Option<TurnId>,
    /// What to make if the conversation is new. A branch is of its own kind and has its own parent, whatever this says.
    pub creation: Creation,
    /// What to keep for the response that the turn is, if it is one.
    pub response: Option<NewResponse>,
    /// When it must be on disk.
    pub durability: Durability,
    /// Which API style asks, for the record.
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
    /// The turn; another than asked for when this is a further attempt of an unanswered one.
    pub turn: TurnId,
    /// Which attempt.
    pub attempt: u32,
    /// What a commit must show.
    pub lease: Lease,
    /// The conversation, the turn's own effects included.
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
    /// When the admission is on disk.
    pub durable: Receipt,
}

/// A turn's place in its conversation's queue. The lower of two goes first, among turns of the same policy. Otherwise
/// opaque but for the engine that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub i64);

/// What came of an admission. Only `Running` and `Queued` changed anything for the caller.
#[derive(Debug)]
pub enum AdmitOutcome {
    /// The turn has the lease.
    Running(Box<Running>),
    /// The turn waits; ask again when something changed.
    Queued {
        /// Its place.
        ticket: Ticket,
        /// The conversation as it is now.
        facts: Arc<ConversationFacts>,
        /// The turn that is running, if one is: an interrupting turn stops that one, never one that waits.
        running: Option<TurnId>,
        /// When the turn was first asked for.
        since: Timestamp,
        /// The turn under whose id it waits: of a promised request that has just got its place as a further attempt of
        /// a promised turn.
        attempt_of: Option<TurnId>,
    },
    /// The request is this turn, which runs or was answered: its outcome is the answer.
    Joined(TurnId),
    /// The request repeats this unanswered turn of this conversation: align with it and ask again for a further attempt
    /// of the turn.
    RetryIn(ConversationId, TurnId),
    /// The request is this promised turn, which ended before it began: ask again under its id, with `takes_over`.
    NeverBegan(TurnId),
    /// The request names no conversation and repeats the only turn of this one, which failed less than a minute ago:
    /// align with it and ask again. If it is no further attempt of that turn after all, ask without `may_reopen`.
    Reopen(ConversationId),
    /// The conversation is not as it was seen; read it again.
    Stale,
    /// The request cannot be admitted.
    Refused(Refusal),
}

/// Why a turn was not admitted. It left nothing behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The name leads nowhere, or to what does not exist for the caller.
    NotFound,
    /// The conversation has another session key.
    SessionKeyConflict,
    /// Another turn is running, and the caller did not want to wait.
    Busy(TurnId),
    /// Too many turns wait already.
    QueueFull {
        /// The limit.
        limit: u32,
    },
    /// The idempotency key was used with another body.
    IdempotencyMismatch,
    /// The conversation was ended.
    Ended,
    /// What is to be made comes from a session that does not exist for the caller.
    NoParent,
    /// What is to be made cannot be what it says. A turn makes a branch by its target or its policy alone.
    Undeclarable(InvalidDeclaration),
    /// The request repeats no turn that could be joined.
    NotRepeated,
    /// The turn was withdrawn or its queue place was lost while it waited.
    Withdrawn,
}
