//! A conversation on its way from one store to another: every fact that is needed to have it again, piece by piece, so that nobody has to hold
//! all of it to write it down.
//!
//! Pieces name each other by ids and places, never by keys of a store. A branch is preceded by what it inherits. No secret is part of it:
//! neither keys nor whose key made it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alias::{Alias, Namespace};
use crate::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger};
use crate::generation::FinishReason;
use crate::ids::{CompactionId, ConversationId, MessageId, SessionId, TurnId};
use crate::kind::{CreatorKind, EndReason, ParentRelation, SessionKind};
use crate::message::{Payload, Seq, Utterance};
use crate::provenance::{CompactionMode, Resolution};
use crate::rewind::Rewinds;
use crate::session_key::SessionKey;
use crate::time::Timestamp;
use crate::turn::{FailureCode, StopKind, TurnState};
use crate::usage::Usage;

/// One piece of a copy. Those that follow a source or a conversation belong to it: its sessions, then its turns, its compactions and its
/// messages, each in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Piece {
    /// What the conversation after it inherits of another one.
    Inherited(CopiedSource),
    /// The conversation.
    Conversation(Box<CopiedConversation>),
    /// A session of it.
    Session(Box<CopiedSession>),
    /// A turn of it.
    Turn(Box<CopiedTurn>),
    /// Something that was said in it, or a summary.
    Message(Box<CopiedMessage>),
    /// A row of its ledger.
    Compaction(Box<CopiedCompaction>),
}

/// A conversation as far as a branch inherits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedSource {
    /// Its handle.
    pub id: ConversationId,
    /// What its first session was.
    pub origin_kind: SessionKind,
    /// Which door it came through.
    pub source: Arc<str>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The last place that is inherited.
    pub through: Seq,
}

/// All that is known of a conversation as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedConversation {
    /// Its handle.
    pub id: ConversationId,
    /// What its first session is.
    pub origin_kind: SessionKind,
    /// Which door it came through.
    pub source: Arc<str>,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether its title is nothing but the beginning of what was said first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub title_is_first_words: bool,
    /// Whether somebody wants it without a title.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nameless: bool,
    /// Its session key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<SessionKey>,
    /// Where it was held, of an agent that works in directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What a client attached, as a JSON object.
    #[serde(default, with = "crate::text::optional_json", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Arc<str>>,
    /// The system messages in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<Payload>,
    /// Whether it was put away.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<EndReason>,
    /// Messages that were said, what it inherits included.
    pub message_count: u64,
    /// Its own turns.
    pub turn_count: u64,
    /// Tokens of all its turns.
    pub usage: Usage,
    /// Its compactions.
    pub compaction_count: u32,
    /// How the last of them treated the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction_mode: Option<CompactionMode>,
    /// Whether the last of them was undone, so that none is made by itself.
    #[serde(rename = "held_back")]
    pub auto_compaction_paused: bool,
    /// What the model server last counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CopiedCount>,
    /// How often something was taken out of what was said.
    pub rewrites: u32,
    /// Where the next message will stand.
    pub next_place: Seq,
    /// Places of the messages that every compaction keeps word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Seq>,
    /// What rewinds have taken out of the model's view.
    #[serde(default, skip_serializing_if = "Rewinds::is_empty")]
    pub rewinds: Rewinds,
    /// Names that lead to it, beside its own id and those of its sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<CopiedName>,
}

/// What a model server counted, up to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedCount {
    /// The last message that was counted.
    pub place: Seq,
    /// Tokens.
    pub tokens: u64,
}

/// A further name of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedName {
    /// Where it is unique.
    pub namespace: Namespace,
    /// The name.
    pub name: Alias,
}

/// A session of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedSession {
    /// Its id.
    pub id: SessionId,
    /// What it is.
    pub kind: SessionKind,
    /// Splits above it.
    pub depth: u32,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CopiedParent>,
    /// Who made it.
    pub creator_kind: CreatorKind,
    /// Why it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// What it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CopiedBase>,
    /// The compaction that it stands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_compaction: Option<CompactionId>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<EndReason>,
}

/// The parent of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedParent {
    /// By name.
    pub session_id: SessionId,
    /// What they are to each other.
    pub relation: ParentRelation,
    /// Whose session it is, if it is another conversation's: a session of that name elsewhere is not taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
}

/// Where a session goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedBase {
    /// In which conversation, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// After which session.
    pub session_id: SessionId,
    /// After which place.
    pub place: Seq,
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedTurn {
    /// Its id.
    pub id: TurnId,
    /// The turn of which this is an attempt that failed here, before that turn began anew at a later place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_of: Option<TurnId>,
    /// The session in which it was answered, or would have been.
    pub session_id: SessionId,
    /// Which API style asked.
    pub api: Arc<str>,
    /// How it ended.
    pub state: TurnState,
    /// Its last attempt.
    pub attempt: u32,
    /// How the name it was asked under led to its conversation.
    pub resolution: Resolution,
    /// Whether the head moved while it ran.
    pub rotated: bool,
    /// Where its messages lie; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_place: Option<Seq>,
    /// The first it answered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_place: Option<Seq>,
    /// The last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_place: Option<Seq>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How the answer ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// What it cost, as the model server counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<CopiedFailure>,
    /// In what way it was asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopKind>,
    /// Whether it can be fetched as a response.
    pub kept: bool,
    /// Whether its id was given out before it began.
    #[serde(rename = "promised")]
    pub visible_while_queued: bool,
    /// Whether somebody else ended it.
    pub cut_off: bool,
    /// What the response repeats of its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Arc<str>>,
    /// In what pieces its answer was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Arc<str>>,
    /// What it would have brought, if it never began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<CopiedWaiting>,
    /// When it was admitted or queued.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Why a turn has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFailure {
    /// What kind.
    pub code: FailureCode,
    /// In words, free of secrets.
    pub message: String,
    /// What the model server answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
}

/// A message of a turn that never began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedWaiting {
    /// Its id.
    pub id: MessageId,
    /// What would have been said.
    pub said: Utterance,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedMessage {
    /// Its id.
    pub id: MessageId,
    /// The session it lies in.
    pub session_id: SessionId,
    /// Where it stands.
    pub place: Seq,
    /// The turn that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Of a summary, the compaction that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction_id: Option<CompactionId>,
    /// Which attempt of the turn.
    pub attempt: u32,
    /// When.
    pub created_at: Timestamp,
    /// Whether a rewind of the conversation has taken it out of the model's view. Told for readers: the conversation's
    /// `rewinds` decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rewound: bool,
    /// What was said.
    pub said: Utterance,
}

/// A row of a conversation's ledger. Its summary is a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedCompaction {
    /// Its id.
    pub id: CompactionId,
    /// What it did.
    pub action: CompactionAction,
    /// How it treats the session.
    pub mode: CompactionMode,
    /// Why it was made.
    pub trigger: CompactionTrigger,
    /// What came of it.
    pub outcome: CompactionOutcome,
    /// The head before it.
    pub session_before: SessionId,
    /// The head after it.
    pub session_after: SessionId,
    /// The compaction on which the head stood before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CompactionId>,
    /// The first place of its range.
    pub first_place: Seq,
    /// The last place of its range.
    pub last_place: Seq,
    /// Places of that range that were kept word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Seq>,
    /// The model that summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens of the context before.
    pub tokens_before: u64,
    /// Tokens of the context after.
    pub tokens_after: u64,
    /// What the summary cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed, or why its range was left out without a summary. Free of secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Of an undo, the compaction it took back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<CompactionId>,
    /// The undo that took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<CompactionId>,
    /// The turn that needed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// When it happened.
    pub created_at: Timestamp,
}

/// A conversation, or what is inherited of one, with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied<T> {
    /// What it is.
    pub what: T,
    /// Its sessions, from the first to the last.
    pub sessions: Vec<CopiedSession>,
    /// Its turns, in order.
    pub turns: Vec<CopiedTurn>,
    /// Its messages and summaries, in order.
    pub messages: Vec<CopiedMessage>,
    /// Its ledger, oldest first.
    pub compactions: Vec<CopiedCompaction>,
}

impl<T> Copied<T> {
    /// With nothing in it yet.
    pub const fn new(what: T) -> Self {
        Self { what, sessions: Vec::new(), turns: Vec::new(), messages: Vec::new(), compactions: Vec::new() }
    }
}

impl<T> Copied<T> {
    fn add(&mut self, piece: Piece) -> Result<(), Misplaced> {
        match piece {
            Piece::Session(session) => self.sessions.push(*session),
            Piece::Turn(turn) => self.turns.push(*turn),
            Piece::Message(message) => self.messages.push(*message),
            Piece::Compaction(compaction) => self.compactions.push(*compaction),
            Piece::Inherited(_) | Piece::Conversation(_) => return Err(Misplaced),
        }
        Ok(())
    }
}

/// A piece that does not belong where it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("does not belong here")]
pub struct Misplaced;

/// Pieces that are put together again.
#[derive(Debug, Default)]
pub struct Gathering {
    inherited: Vec<Copied<CopiedSource>>,
    conversation: Option<Copied<CopiedConversation>>,
}

impl Gathering {
    /// Adds the next piece.
    pub fn add(&mut self, piece: Piece) -> Result<(), Misplaced> {
        match (piece, &mut self.conversation) {
            (Piece::Inherited(source), None) => self.inherited.push(Copied::new(source)),
            (Piece::Conversation(conversation), none @ None) => *none = Some(Copied::new(*conversation)),
            (piece, Some(conversation)) => return conversation.add(piece),
            (piece, None) => return self.inherited.last_mut().ok_or(Misplaced)?.add(piece),
        }
        Ok(())
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.inherited.is_empty() && self.conversation.is_none()
    }

    /// What a conversation inherits, and the conversation; nothing if it did not come.
    pub fn finish(self) -> Option<(Vec<Copied<CopiedSource>>, Copied<CopiedConversation>)> {
        let inherited = self.inherited;
        self.conversation.map(|conversation| (inherited, conversation))
    }
}
