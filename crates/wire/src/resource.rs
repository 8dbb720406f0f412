//! Herma's own resources as JSON: sessions, their messages and their compactions, and what a search finds.

mod compact_request;
mod compaction;
mod message;
mod search;
mod session;
mod session_request;
mod usage;

use herma_model::Timestamp;

pub use compact_request::{CompactRequest, UndoRequest};
pub use compaction::{CompactionPreview, CompactionRow};
pub use message::MessageRow;
pub use search::{Marks, SearchRow, moment};
pub use session::SessionRow;
pub use session_request::{BranchSession, ChangeSession, CreateSession, title};

/// A moment as RFC 3339 in UTC with milliseconds; one beyond the calendar is its last or first.
pub fn rfc3339(moment: Timestamp) -> String {
    let limit = if moment.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or(limit);
    format!("{moment:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_a_date() {
        assert_eq!(rfc3339(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp(1_772_582_400_050)), "2026-03-04T00:00:00.050Z");
        assert!(rfc3339(Timestamp(i64::MAX)).starts_with("9999-"));
        assert!(rfc3339(Timestamp(i64::MIN)).starts_with('-'));
    }
}
