//! Herma's own resources as JSON: sessions, their messages and compactions, facts, tools, and search results.

mod compact_request;
mod compaction;
mod lineage;
mod memory;
mod message;
mod search;
mod session;
mod session_request;
mod tool;
mod usage;

use herma_model::Timestamp;

pub use compact_request::{CompactRequest, UndoRequest};
pub use compaction::{CompactionPreview, CompactionRow};
pub use lineage::{GraphEdge, GraphNode, LineageGraph};
pub use memory::{ChangeMemory, CreateMemory, ForgottenMemory, MemoryRow, memory_text};
pub use message::MessageRow;
pub use search::{Marks, SearchRow, moment};
pub use session::{DeletedSession, SessionRow, metadata};
pub use session_request::{BranchSession, ChangeSession, CreateSession, RewindSession, title};
pub use tool::ToolRow;

/// A moment as RFC 3339 in UTC with milliseconds. A moment outside the calendar becomes the calendar's first or last.
pub fn rfc3339(moment: Timestamp) -> String {
    moment.to_string()
}
