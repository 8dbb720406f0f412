//! What is shown of a conversation: its row, and its transcript a page at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use herma_model::{ConversationFacts, EndReason, Message, Seq, SessionFacts, Summary, Timestamp, TurnState, Usage};

use crate::snapshot::Revision;

/// Which session of a conversation a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pin {
    /// The live one, whatever session the name once was.
    #[default]
    Head,
    /// The session that has this very name; the head for names that are no session's.
    Exact,
}

/// One conversation, at its head or at another of its sessions. Of a list of sessions, the times are the session's own.
#[derive(Debug, Clone)]
pub struct ConversationRow {
    /// Ids, kinds and lineage.
    pub facts: Arc<ConversationFacts>,
    /// The conversation's revision.
    pub revision: Revision,
    /// The session the row describes: the head, or the very one that was asked for.
    pub session: SessionFacts,
    /// Its title.
    pub title: Option<String>,
    /// Which door it came through.
    pub source: Arc<str>,
    /// What a client attached, as a JSON object.
    pub metadata: Option<Arc<str>>,
    /// Whether it was put away.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When and why it ended.
    pub ended: Option<(Timestamp, EndReason)>,
    /// Messages that were said, summaries not among them; of a branch, what it inherits included.
    pub message_count: u64,
    /// Its own turns, however they ended.
    pub turn_count: u64,
    /// Tokens of all its turns.
    pub usage: Usage,
    /// Whether a turn is running.
    pub running: bool,
}

/// In which order a transcript is read, and from where on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As it was said.
    OldestFirst {
        /// Only what stands after this place.
        after: Option<Seq>,
    },
    /// From the end back.
    NewestFirst {
        /// Only what stands before this place.
        before: Option<Seq>,
    },
}

/// Which part of a transcript to read.
#[derive(Debug, Clone, Copy)]
pub struct MessageRange {
    /// In which order, and from where on.
    pub order: Order,
    /// Most messages.
    pub limit: usize,
    /// Of the whole conversation, or only of the very session that has this name.
    pub pin: Pin,
}

/// One entry of a full view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Something that was said.
    Said(Arc<Message>),
    /// The boundary of a compaction.
    Summary(Arc<Summary>),
}

impl Entry {
    /// Where it stands.
    pub fn seq(&self) -> Seq {
        match self {
            Self::Said(message) => message.seq,
            Self::Summary(summary) => summary.seq,
        }
    }
}

/// A page of a transcript.
#[derive(Debug, Clone)]
pub struct MessagePage {
    /// What was said, in the order that was asked for, and where it was compacted.
    pub entries: Vec<Entry>,
    /// Which of them every compaction keeps word for word.
    pub pinned: HashSet<Seq>,
    /// Which of them rewinds have taken out of the model's view. A summary is among them if it stands for such messages.
    pub rewound: HashSet<Seq>,
    /// Whether there are more.
    pub has_more: bool,
    /// By place, where the turn of a message stands; of an attempt that was left behind, how it ended.
    pub turn_states: HashMap<Seq, TurnState>,
}
