//! What callers read of a conversation: its row, and its transcript page by page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use herma_model::{
    CallId, ConversationFacts, Cost, EditorSettings, EndReason, Message, Seq, SessionFacts, Summary, Timestamp,
    TurnState, Usage,
};

use crate::snapshot::Revision;

/// Which session of a conversation a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pin {
    /// The head, even if the name is that of an earlier session.
    #[default]
    Head,
    /// The session with exactly this name. For names that are not a session's id, the head.
    Exact,
}

/// One conversation, at its head or at another of its sessions. In a list of sessions the times are those of the
/// session.
#[derive(Debug, Clone)]
pub struct ConversationRow {
    /// Ids, kinds and lineage.
    pub facts: Arc<ConversationFacts>,
    /// The conversation's revision.
    pub revision: Revision,
    /// The session that the row describes: the head, or the one that was asked for.
    pub session: SessionFacts,
    /// Its title.
    pub title: Option<String>,
    /// The front door it came through.
    pub source: Arc<str>,
    /// What a client attached, as a JSON object.
    pub metadata: Option<Arc<str>>,
    /// What an editor has chosen for it.
    pub editor: EditorSettings,
    /// Whether it was archived.
    pub archived: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When and why it ended.
    pub ended: Option<(Timestamp, EndReason)>,
    /// Number of messages, without summaries. For a branch, inherited messages count.
    pub message_count: u64,
    /// Number of its own turns, with or without an answer.
    pub turn_count: u64,
    /// Tokens of all its turns. What a branch inherits does not count: it is its source's.
    pub usage: Usage,
    /// Tokens of the conversation and of everything below it: branches, delegates and background children, and what is
    /// below them. Includes the tokens that Herma itself used for them ([`crate::Store::add_side_usage`]). At most
    /// [`crate::MOST_DESCENDANTS`] are summed up. A deleted conversation does not count, and neither does what was
    /// below it.
    pub usage_tree: Usage,
    /// What the conversation and everything below it cost. `None` if none of them had a price.
    pub cost: Option<Cost>,
    /// The call in its parent that made it, if one did.
    pub parent_tool_call_id: Option<CallId>,
    /// Whether a turn is running.
    pub running: bool,
}

/// In which order a transcript is read, and from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    OldestFirst {
        /// Only entries after this place.
        after: Option<Seq>,
    },
    /// Newest first.
    NewestFirst {
        /// Only entries before this place.
        before: Option<Seq>,
    },
}

/// Which part of a transcript to read.
#[derive(Debug, Clone, Copy)]
pub struct MessageRange {
    /// In which order, and from where.
    pub order: Order,
    /// The maximum number of entries.
    pub limit: usize,
    /// Whether to read the whole conversation, or only the session with exactly this name.
    pub pin: Pin,
}

/// One entry of a full view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A message.
    Said(Arc<Message>),
    /// The boundary of a compaction.
    Summary(Arc<Summary>),
}

impl Entry {
    /// Its place in the conversation.
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
    /// Messages and summaries, in the order that was asked for.
    pub entries: Vec<Entry>,
    /// Places of pinned messages, which every compaction keeps word for word.
    pub pinned: HashSet<Seq>,
    /// Places that rewinds have removed from the model's view. Includes a summary if it covers such messages.
    pub rewound: HashSet<Seq>,
    /// Whether there are more entries.
    pub has_more: bool,
    /// The state of each message's turn, by place. For messages of a failed attempt that began anew elsewhere, how that
    /// attempt ended.
    pub turn_states: HashMap<Seq, TurnState>,
}
