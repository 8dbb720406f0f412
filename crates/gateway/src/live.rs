//! The turns of this process that run or wait: their logs, and how to stop them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herma_model::{ConversationId, TurnId};
use herma_turn::Stop;
use tokio::sync::{Notify, watch};

use crate::line::Lines;
use crate::log::TurnLog;

/// A turn of this process.
#[derive(Clone)]
pub(crate) struct LiveTurn {
    pub(crate) log: Arc<TurnLog>,
    pub(crate) stop: watch::Sender<Option<Stop>>,
}

/// The turns of this process.
#[derive(Default)]
pub(crate) struct LiveTurns {
    turns: Mutex<HashMap<TurnId, LiveTurn>>,
    /// Wakes those who wait for a turn to be resumed.
    resumed: Notify,
    pub(crate) lines: Arc<Lines>,
}

impl LiveTurns {
    fn lock(&self) -> MutexGuard<'_, HashMap<TurnId, LiveTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, turn: TurnId, live: LiveTurn) {
        self.lock().insert(turn, live);
    }

    /// Adds a turn unless there is one with this id. True if it was added.
    pub(crate) fn add_if_absent(&self, turn: TurnId, live: LiveTurn) -> bool {
        match self.lock().entry(turn) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(live);
                true
            }
        }
    }

    /// Removes the entry of a turn, unless another request has the id by now.
    pub(crate) fn remove(&self, turn: TurnId, live: &LiveTurn) {
        if let Entry::Occupied(entry) = self.lock().entry(turn)
            && Arc::ptr_eq(&entry.get().log, &live.log)
        {
            entry.remove();
        }
    }

    /// Says that a parked turn was resumed, and is added.
    pub(crate) fn tell_resumed(&self) {
        self.resumed.notify_waiters();
    }

    /// Waits until this process has resumed a parked turn, which runs or waits here then. Cancel-safe.
    pub(crate) async fn until_resumed(&self, turn: TurnId) {
        loop {
            let resumed = self.resumed.notified();
            if self.lock().contains_key(&turn) {
                return;
            }
            resumed.await;
        }
    }

    pub(crate) fn get(&self, turn: TurnId) -> Option<LiveTurn> {
        self.lock().get(&turn).cloned()
    }

    /// Asks a turn to stop, if it is one of this process.
    pub(crate) fn stop(&self, turn: TurnId, why: Stop) {
        if let Some(live) = self.lock().get(&turn) {
            live.stop.send_if_modified(|stop| stop.replace(why).is_none());
        }
    }

    /// Asks every turn to stop.
    pub(crate) fn stop_all(&self, why: Stop) {
        for live in self.lock().values() {
            live.stop.send_if_modified(|stop| stop.replace(why).is_none());
        }
    }

    /// Has the first turn in line for a conversation ask for the lease.
    pub(crate) fn wake_first(&self, conversation: ConversationId) {
        self.lines.wake_first(conversation);
    }

    /// Wakes every waiting turn, so that it sees a drain.
    pub(crate) fn wake_all(&self) {
        self.lines.wake_all();
    }

    /// How many turns wait in line.
    pub(crate) fn waiting(&self) -> usize {
        self.lines.waiting()
    }
}
