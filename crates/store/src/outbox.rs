//! The outbox: what an outside memory provider has still to be told.
//!
//! A turn's row is written in the transaction of its commit, an erasure's in the transaction of the erasure. Rows about
//! one session key are delivered in order, by one process at a time, at least once.

use herma_model::{ConversationId, MessageId, Role, Seq, SessionKey, TenantId, Timestamp, TurnId};

/// How many of the newest rows are kept. Older turns that were not delivered are given up; erasures never are.
pub const KEPT_DELIVERIES: i64 = 100_000;

/// The right to deliver the next rows about a session key. Only the engine that gave it can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryClaim {
    /// The engine's own key of the scope.
    pub scope: i64,
    /// Which lease of the scope it is.
    pub claim: i64,
    /// The first and the last row.
    pub rows: (i64, i64),
}

/// What the provider is to be told next about a session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The right to deliver it. It ends after [`Delivery::LEASE`], or with the process.
    pub claim: DeliveryClaim,
    /// The tenant.
    pub tenant: TenantId,
    /// Whom it is about. `None` if it is about the whole tenant.
    pub session_key: Option<SessionKey>,
    /// What is to be done.
    pub task: DeliveryTask,
    /// Whether an earlier attempt may have reached the provider.
    pub is_repeated: bool,
    /// How often this was tried without success.
    pub failures: u32,
}

impl Delivery {
    /// How long no other process delivers about the same key.
    pub const LEASE: std::time::Duration = std::time::Duration::from_secs(120);
    /// The most turns of one delivery.
    pub const MOST_TURNS: usize = 16;
}

/// What a provider is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryTask {
    /// Remember what was said in these turns of one conversation. May be empty, if it is not there any more.
    Record(ConversationId, Vec<RecordedTurn>),
    /// Forget a conversation.
    EraseConversation(ConversationId),
    /// Forget everything about the session key.
    EraseKey,
    /// Forget everything of the tenant.
    EraseTenant,
}

/// What was said in a turn: by the person and by the model, without tools' results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTurn {
    /// The turn.
    pub turn: TurnId,
    /// Its messages, in order. Messages without text and rewound ones are left out.
    pub messages: Vec<RecordedMessage>,
}

/// One message of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMessage {
    /// Its id.
    pub id: MessageId,
    /// Its place in the conversation.
    pub seq: Seq,
    /// Whose words they are.
    pub role: Role,
    /// The whole text.
    pub text: String,
    /// When it was said.
    pub created_at: Timestamp,
}

/// How a delivery ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The provider has done it.
    Done,
    /// It is tried again, not before this moment.
    Later(Timestamp, String),
    /// The provider does not want it. Turns are given up; an erasure is tried again at this moment.
    Refused(Timestamp, String),
    /// The provider cannot forget this conversation before its whole key is erased. It stays pending until then.
    Held,
}

/// What waits in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Turns that wait.
    pub turns: u64,
    /// Erasures that wait, those included that wait for their key's.
    pub erasures: u64,
    /// When the oldest of them was written.
    pub oldest: Option<Timestamp>,
    /// Turns that were given up so far.
    pub dropped: u64,
    /// When something was delivered last.
    pub delivered_at: Option<Timestamp>,
    /// When a delivery failed last, and why. `None` if a later one succeeded.
    pub error: Option<(Timestamp, String)>,
}

/// What the provider may still know about a session key, although it is erased here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErasedNotDelivered {
    /// Everything about the key.
    pub everything: bool,
    /// These conversations.
    pub conversations: Vec<ConversationId>,
}
