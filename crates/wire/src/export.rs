//! Conversations as JSON Lines: what `herma sessions export` writes and `herma sessions import` reads.
//!
//! The first line is the [`Header`]. Each conversation is a line of its own with lines for its sessions, turns, compactions and messages after it, of a branch
//! after those of what it inherits, and an [`End`] that says how many they were. The last line is [`Complete`]. So a file that was cut off anywhere is
//! noticed, and a conversation that did not come whole is never taken for one.

mod line;
mod read;

use herma_model::copy::Piece;
use herma_model::{ConversationId, Timestamp};
use serde::{Deserialize, Serialize};

use line::Line;
pub use read::{Damage, Reader, Whole};

/// What the header calls the format.
pub const FORMAT: &str = "herma.sessions";
/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// What it is.
    pub format: String,
    /// Which version of it.
    pub version: u32,
    /// When it was written.
    pub exported_at: Timestamp,
    /// By which Herma.
    pub herma_version: String,
}

/// The last line of a conversation: how many lines of each kind it had, with what it inherits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Which conversation.
    pub conversation_id: ConversationId,
    /// What is said of it.
    #[serde(flatten)]
    pub counts: Counts,
}

/// How many lines of each kind there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Turns.
    pub turns: u64,
    /// Messages and summaries.
    pub messages: u64,
    /// Rows of the ledger.
    pub compactions: u64,
}

impl Counts {
    fn add(&mut self, piece: &Piece) {
        match piece {
            Piece::Inherited(_) | Piece::Conversation(_) => {}
            Piece::Session(_) => self.sessions += 1,
            Piece::Turn(_) => self.turns += 1,
            Piece::Message(_) => self.messages += 1,
            Piece::Compaction(_) => self.compactions += 1,
        }
    }
}

/// The last line of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// How many conversations there are.
    pub conversations: u64,
}

/// Makes the lines of an export, one after the other.
#[derive(Debug, Default)]
pub struct Writer {
    current: Option<ConversationId>,
    counts: Counts,
    conversations: u64,
}

impl Writer {
    /// The first line.
    pub fn header(&self, herma_version: &str, now: Timestamp) -> serde_json::Result<String> {
        let (format, herma_version) = (FORMAT.to_owned(), herma_version.to_owned());
        Line::Header(Header { format, version: VERSION, exported_at: now, herma_version }).write()
    }

    /// The next piece.
    pub fn piece(&mut self, piece: Piece) -> serde_json::Result<String> {
        self.counts.add(&piece);
        if let Piece::Conversation(conversation) = &piece {
            self.current = Some(conversation.id);
        }
        Line::Piece(piece).write()
    }

    /// The end of a conversation whose pieces are all written; nothing if there was none.
    pub fn end(&mut self) -> serde_json::Result<Option<String>> {
        let Some(conversation_id) = self.current.take() else { return Ok(None) };
        self.conversations += 1;
        Line::End(End { conversation_id, counts: std::mem::take(&mut self.counts) }).write().map(Some)
    }

    /// The last line.
    pub fn complete(&self) -> serde_json::Result<String> {
        Line::Complete(Complete { conversations: self.conversations }).write()
    }
}
