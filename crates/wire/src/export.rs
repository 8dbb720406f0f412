//! Conversations as JSON Lines: `herma sessions export` writes them and `herma sessions import` reads them.
//!
//! The first line is the [`Header`]. A conversation is one line, followed by lines for its sessions, turns, compactions
//! and messages. For a branch, the lines of what it inherits come first. An [`End`] line says how many lines there
//! were. The last line of the file is [`Complete`]. So a reader notices a file that was cut off anywhere, and never
//! accepts a conversation that is not whole.

mod line;
mod read;

use herma_model::copy::Piece;
use herma_model::{ConversationId, Timestamp};
use serde::{Deserialize, Serialize};

use line::Line;
pub use read::{Damage, Reader, Whole};

/// The name of the format in the header.
pub const FORMAT: &str = "herma.sessions";
/// The version that is written, and the newest that can be read.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name of the format.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// When the file was written.
    pub exported_at: Timestamp,
    /// The version of Herma that wrote it.
    pub herma_version: String,
}

/// The last line of a conversation. It counts the lines of each kind, with those of what the conversation inherits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// How many lines it had.
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
    /// Rows of the compaction ledger.
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

/// The last line of the file.
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

    /// The line of the next piece.
    pub fn piece(&mut self, piece: Piece) -> serde_json::Result<String> {
        self.counts.add(&piece);
        if let Piece::Conversation(conversation) = &piece {
            self.current = Some(conversation.id);
        }
        Line::Piece(piece).write()
    }

    /// The end line of the current conversation. `None` if none was begun.
    pub fn end(&mut self) -> serde_json::Result<Option<String>> {
        let Some(conversation_id) = self.current.take() else { return Ok(None) };
        self.conversations += 1;
        Line::End(End { conversation_id, counts: std::mem::take(&mut self.counts) }).write().map(Some)
    }

    /// The last line of the file.
    pub fn complete(&self) -> serde_json::Result<String> {
        Line::Complete(Complete { conversations: self.conversations }).write()
    }
}
