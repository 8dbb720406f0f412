//! Counts the deletions whose text may still be in a file.
//!
//! SQLite overwrites deleted text with zeros, except for copies that it has moved (`scrub`). The log keeps the old
//! pages until its file is truncated.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts all deletions, those after which pages were overwritten, and those that are in no file any more.
#[derive(Debug)]
pub(crate) struct Erasures {
    total: AtomicU64,
    scrubbed: AtomicU64,
    done: AtomicU64,
}

impl Default for Erasures {
    /// Begins with one deletion that is due, because a killed process may have left one in the log. Whether pages must
    /// be overwritten for it is known from its receipt.
    fn default() -> Self {
        Self { total: AtomicU64::new(1), scrubbed: AtomicU64::new(1), done: AtomicU64::new(0) }
    }
}

impl Erasures {
    /// Counts a deletion of the current transaction.
    pub(crate) fn add(&self) {
        self.total.fetch_add(1, Ordering::AcqRel);
    }

    /// How many deletions there were so far.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    /// Notes that the pages were overwritten after this many deletions.
    pub(crate) fn mark_scrubbed(&self, total: u64) {
        self.scrubbed.fetch_max(total, Ordering::AcqRel);
    }

    /// Whether pages must still be overwritten for a deletion of this process.
    pub(crate) fn needs_scrub(&self) -> bool {
        self.scrubbed.load(Ordering::Acquire) < self.total()
    }

    /// Notes that the log was truncated after this many deletions.
    pub(crate) fn mark_done(&self, total: u64) {
        self.done.fetch_max(total, Ordering::AcqRel);
    }

    /// Whether the log was truncated after this many deletions.
    pub(crate) fn is_done(&self, total: u64) -> bool {
        self.done.load(Ordering::Acquire) >= total
    }

    /// Whether the log must still be truncated for a deletion.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_done(self.total())
    }
}
