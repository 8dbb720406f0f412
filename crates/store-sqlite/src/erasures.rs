//! Which deletions the write-ahead log may still show.
//!
//! SQLite writes zeros over what is deleted. The log keeps the pages as they were before until its file is emptied.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts deletions, and those that are in no file any more.
#[derive(Debug)]
pub(crate) struct Erasures {
    asked: AtomicU64,
    done: AtomicU64,
}

impl Default for Erasures {
    /// Begins with one deletion that is due: a process that was killed may have left one behind.
    fn default() -> Self {
        Self { asked: AtomicU64::new(1), done: AtomicU64::new(0) }
    }
}

impl Erasures {
    /// Takes note of a deletion that was committed.
    pub(crate) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::AcqRel);
    }

    /// How many deletions there were so far.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Takes note that the log was emptied after this many deletions.
    pub(crate) fn are_done(&self, asked: u64) {
        self.done.fetch_max(asked, Ordering::AcqRel);
    }

    /// Whether the log has yet to be emptied for a deletion.
    pub(crate) fn are_due(&self) -> bool {
        self.done.load(Ordering::Acquire) < self.asked()
    }
}
