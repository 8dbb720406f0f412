//! A conversation on its way from one store to another: every fact that is needed to restore it.
//!
//! It comes in pieces, so that a writer need not hold all of it in memory. Pieces refer to each other by ids and
//! places, never by row keys of a store. What a branch inherits comes before the branch. No API key and no key id is
//! part of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alias::{Alias, Namespace};
use crate::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger, MadeBy};
use crate::editor::ToolMode;
use crate::generation::FinishReason;
use crate::ids::{CompactionId, ConversationId, MessageId, SessionId, TurnId};
use crate::kind::{CreatorKind, EndReason, ParentRelation, SessionKind};
use crate::message::{CallId, Digest, Payload, Seq, Utterance};
use crate::provenance::{CompactionMode, Resolution};
use crate::rewind::Rewinds;
use crate::session_key::SessionKey;
use crate::time::Timestamp;
use crate::turn::{FailureCode, StopKind, TurnState};
use crate::usage::{Cost, Usage};

/// One piece of a copy.
///
/// The pieces that follow a source or a conversation belong to it: its sessions, then its turns, its compactions and
/// its messages, each in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Piece {
    /// The part of another conversation that the following one inherits.
    Inherited(CopiedSource),
    /// The conversation.
    Conversation(Box<CopiedConversation>),
    /// A session of it.
    Session(Box<CopiedSession>),
    /// A turn of it.
    Turn(Box<CopiedTurn>),
    /// A message of it, or a summary.
    Message(Box<CopiedMessage>),
    /// A row of its compaction ledger.
    Compaction(Box<CopiedCompaction>),
}

/// A conversation as far as a branch inherits it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedSource {
    /// Its handle.
    pub id: ConversationId,
    /// The kind of its first session.
    pub origin_kind: SessionKind,
    /// The front door through which it was made.
    pub source: Arc<str>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The last place that is inherited.
    pub through: Seq,
}

/// A conversation as a whole, without its pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedConversation {
    /// Its handle.
    pub id: ConversationId,
    /// The kind of its first session.
    pub origin_kind: SessionKind,
    /// The front door through which it was made.
    pub source: Arc<str>,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether its title is an excerpt: the beginning of its first message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub title_is_first_words: bool,
    /// Whether a client removed its title. Then none is made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nameless: bool,
    /// Its session key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<SessionKey>,
    /// The working directory of the agent that held it, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Which tool calls an editor's turns may make, if that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_mode: Option<ToolMode>,
    /// The model that was chosen in an editor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_model: Option<String>,
    /// What a client attached, as a JSON object.
    #[serde(default, with = "crate::text::optional_json", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Arc<str>>,
    /// The system messages that apply now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<Payload>,
    /// Whether it is archived.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why it was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<EndReason>,
    /// How many messages it has, inherited ones included.
    pub message_count: u64,
    /// How many turns it has, without inherited ones.
    pub turn_count: u64,
    /// Tokens of all its turns.
    pub usage: Usage,
    /// Tokens that Herma itself used for it: summaries, titles, memory.
    #[serde(default, skip_serializing_if = "Usage::is_nothing")]
    pub side_usage: Usage,
    /// What both cost, in millionths; absent if no price was ever set.
    #[serde(rename = "cost_micros", default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The tool call of its parent that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<CallId>,
    /// How many compactions it has.
    pub compaction_count: u32,
    /// How the last compaction treated the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction_mode: Option<CompactionMode>,
    /// Whether auto-compaction is paused because the last compaction was undone.
    #[serde(rename = "held_back")]
    pub auto_compaction_paused: bool,
    /// The last token count of a model server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CopiedCount>,
    /// How often messages were deleted, changed or rewound.
    pub rewrites: u32,
    /// The place of the next message.
    pub next_place: Seq,
    /// Places of the messages that every compaction keeps word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Seq>,
    /// The ranges that rewinds hide from the model.
    #[serde(default, skip_serializing_if = "Rewinds::is_empty")]
    pub rewinds: Rewinds,
    /// The digest of the chat that it came under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Digest>,
    /// Names that lead to it, besides its id and the ids of its sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<CopiedName>,
}

/// The tokens of a context up to a message, as a model server counted them.
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
    /// Its kind.
    pub kind: SessionKind,
    /// How many splits came before it.
    pub depth: u32,
    /// Its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<CopiedParent>,
    /// Who made it.
    pub creator_kind: CreatorKind,
    /// Why it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The place that it continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CopiedBase>,
    /// The compaction that is its base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_compaction: Option<CompactionId>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<EndReason>,
}

/// The parent of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedParent {
    /// Its id.
    pub session_id: SessionId,
    /// How the session is related to it.
    pub relation: ParentRelation,
    /// The parent's conversation, if that is another one. A session with the same id in the target store is not taken
    /// for the parent if it belongs to a different conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
}

/// The place that a session continues from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedBase {
    /// The conversation, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// The session.
    pub session_id: SessionId,
    /// The session continues after this place.
    pub place: Seq,
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedTurn {
    /// Its id.
    pub id: TurnId,
    /// Set if this is a failed attempt of that turn, which then began anew at a later place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_of: Option<TurnId>,
    /// The session that has its answer, or would have it.
    pub session_id: SessionId,
    /// The API that the client used.
    pub api: Arc<str>,
    /// Its state.
    pub state: TurnState,
    /// The number of its last attempt.
    pub attempt: u32,
    /// How the name in its request led to the conversation.
    pub resolution: Resolution,
    /// Whether the head moved while it ran.
    pub rotated: bool,
    /// The place of its first message; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_place: Option<Seq>,
    /// The place of the first message of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_place: Option<Seq>,
    /// The place of its last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_place: Option<Seq>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How the answer ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// Its tokens, as the model server counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<CopiedFailure>,
    /// How it was asked to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopKind>,
    /// Whether it can be fetched as a response.
    pub kept: bool,
    /// Whether its id was visible while it was queued.
    #[serde(rename = "promised")]
    pub visible_while_queued: bool,
    /// Whether it was ended in place of its owner, which was dead or did not stop.
    pub cut_off: bool,
    /// Whether what it says must not be recalled in other conversations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrecorded: bool,
    /// Whether it may be recalled though it is of a helper or a background job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// The fields of its request that the response repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<Arc<str>>,
    /// In what pieces its answer was streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Arc<str>>,
    /// The messages of its request, if it never began.
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
    /// The kind of failure.
    pub code: FailureCode,
    /// A sentence for people, free of secrets.
    pub message: String,
    /// The HTTP status of the model server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
}

/// A message of a turn that never began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedWaiting {
    /// Its id.
    pub id: MessageId,
    /// The message.
    pub said: Utterance,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedMessage {
    /// Its id.
    pub id: MessageId,
    /// The session that has it.
    pub session_id: SessionId,
    /// Its place.
    pub place: Seq,
    /// The turn that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// The compaction that wrote it, if it is a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction_id: Option<CompactionId>,
    /// The attempt of the turn that wrote it.
    pub attempt: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// Whether a rewind hides it from the model. This is only information: a restore uses the conversation's `rewinds`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rewound: bool,
    /// The message itself.
    pub said: Utterance,
}

/// A row of a conversation's compaction ledger. Its summary is a message.
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
    /// Who made it.
    #[serde(default = "MadeBy::herma", skip_serializing_if = "MadeBy::is_herma")]
    pub made_by: MadeBy,
    /// How it ended.
    pub outcome: CompactionOutcome,
    /// The head before it.
    pub session_before: SessionId,
    /// The head after it.
    pub session_after: SessionId,
    /// The compaction that was the base of the head before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<CompactionId>,
    /// The first place of its range.
    pub first_place: Seq,
    /// The last place of its range.
    pub last_place: Seq,
    /// Places up to the end of the range whose messages are kept word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Seq>,
    /// The model that wrote the summary.
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
    /// Why it failed, or why there is no summary of its range. Free of secrets.
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

/// A conversation, or the inherited part of one, with all its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied<T> {
    /// The conversation or the inherited part.
    pub what: T,
    /// Its sessions, from the first to the last.
    pub sessions: Vec<CopiedSession>,
    /// Its turns, in order.
    pub turns: Vec<CopiedTurn>,
    /// Its messages and summaries, in order.
    pub messages: Vec<CopiedMessage>,
    /// Its compaction ledger, oldest first.
    pub compactions: Vec<CopiedCompaction>,
}

impl<T> Copied<T> {
    /// Has no pieces yet.
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

/// A piece came where it does not belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("does not belong here")]
pub struct Misplaced;

/// Puts the pieces of one conversation together.
#[derive(Debug, Default)]
pub struct CopyBuilder {
    inherited: Vec<Copied<CopiedSource>>,
    conversation: Option<Copied<CopiedConversation>>,
}

impl CopyBuilder {
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

    /// Whether it has no piece yet.
    pub const fn is_empty(&self) -> bool {
        self.inherited.is_empty() && self.conversation.is_none()
    }

    /// The inherited parts and the conversation. `None` if the conversation's own piece did not come.
    pub fn finish(self) -> Option<(Vec<Copied<CopiedSource>>, Copied<CopiedConversation>)> {
        let inherited = self.inherited;
        self.conversation.map(|conversation| (inherited, conversation))
    }
}
