//! The shared recorder of a run: the history, and the counts for the summary.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::history::{Attempt, HandedId, History, Stall, Thread, Turn};

/// Records the history of a round and counts for the summary. All clients share it.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    history: Mutex<History>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Recorder {
    /// Adds a thread and returns its number.
    pub(super) fn add_thread(&self, thread: Thread) -> usize {
        let mut history = self.lock();
        history.threads.push(thread);
        history.threads.len() - 1
    }

    /// Records a turn before its first request, and returns its number.
    pub(super) fn begin(&self, turn: Turn) -> usize {
        self.count("turns");
        let mut history = self.lock();
        history.turns.push(turn);
        history.turns.len() - 1
    }

    /// Records how a request ended.
    pub(super) fn attempt(&self, turn: usize, attempt: Attempt) {
        self.count("requests");
        if let Some(turn) = self.lock().turns.get_mut(turn) {
            turn.attempts.push(attempt);
        }
    }

    /// Records an id that a client got.
    pub(super) fn handed(&self, id: HandedId) {
        self.lock().ids.push(id);
    }

    /// Records a time in which the store may have been locked.
    pub(super) fn stalled(&self, stall: Stall) {
        self.lock().stalls.push(stall);
    }

    /// Adds one to a count of the summary.
    pub(super) fn count(&self, what: &'static str) {
        self.count_many(what, 1);
    }

    /// Adds `many` to a count of the summary.
    pub(super) fn count_many(&self, what: &'static str, many: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what).or_default() += many;
    }

    /// The counts in one line.
    pub(super) fn summary(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        counts.join(", ")
    }

    /// Returns the history so far and begins a new one.
    pub(super) fn take(&self) -> History {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
