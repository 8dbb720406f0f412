//! The turns of this process: which run, which wait, and how to reach them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use herma_model::{ConversationId, TurnId};
use herma_turn::Stop;
use tokio::sync::{Notify, watch};

use crate::log::TurnLog;

/// A turn of this process.
#[derive(Clone)]
pub(crate) struct LiveTurn {
    pub(crate) log: Arc<TurnLog>,
    pub(crate) stop: watch::Sender<Option<Stop>>,
}

#[derive(Default)]
struct Inner {
    turns: HashMap<TurnId, LiveTurn>,
    waiters: HashMap<ConversationId, VecDeque<Arc<Notify>>>,
}

/// The turns of this process.
#[derive(Default)]
pub(crate) struct LiveTurns {
    inner: Mutex<Inner>,
}

impl LiveTurns {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, turn: TurnId, live: LiveTurn) {
        self.lock().turns.insert(turn, live);
    }

    /// Adds a turn unless there is one of this id; says whether it did.
    pub(crate) fn add_if_absent(&self, turn: TurnId, live: LiveTurn) -> bool {
        match self.lock().turns.entry(turn) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(live);
                true
            }
        }
    }

    pub(crate) fn remove(&self, turn: TurnId) {
        self.lock().turns.remove(&turn);
    }

    pub(crate) fn get(&self, turn: TurnId) -> Option<LiveTurn> {
        self.lock().turns.get(&turn).cloned()
    }

    /// Asks a turn to stop, if it is one of this process.
    pub(crate) fn stop(&self, turn: TurnId, why: Stop) {
        if let Some(live) = self.lock().turns.get(&turn) {
            live.stop.send_if_modified(|stop| stop.replace(why).is_none());
        }
    }

    /// Asks every turn to stop.
    pub(crate) fn stop_all(&self, why: Stop) {
        for live in self.lock().turns.values() {
            live.stop.send_if_modified(|stop| stop.replace(why).is_none());
        }
    }

    /// A place in this process' line for a conversation.
    pub(crate) fn wait_for(self: &Arc<Self>, conversation: ConversationId) -> Place {
        let notify = Arc::new(Notify::new());
        self.lock().waiters.entry(conversation).or_default().push_back(Arc::clone(&notify));
        Place { live: Arc::clone(self), conversation, notify }
    }

    /// Wakes the first in line for a conversation.
    pub(crate) fn wake_first(&self, conversation: ConversationId) {
        if let Some(first) = self.lock().waiters.get(&conversation).and_then(VecDeque::front) {
            first.notify_one();
        }
    }

    /// Wakes everybody who waits for anything.
    pub(crate) fn wake_all(&self) {
        for waiter in self.lock().waiters.values().flatten() {
            waiter.notify_one();
        }
    }
}

/// A place in line, lost when dropped.
pub(crate) struct Place {
    live: Arc<LiveTurns>,
    conversation: ConversationId,
    notify: Arc<Notify>,
}

impl Place {
    /// Waits until it may be this one's turn. Cancel-safe.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }

    /// Leaves the line without having had a turn, and lets the next one try: it may have been this one that was woken.
    pub(crate) fn leave(self) {
        let (live, conversation) = (Arc::clone(&self.live), self.conversation);
        drop(self);
        live.wake_first(conversation);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.live.lock();
        if let Some(line) = inner.waiters.get_mut(&self.conversation) {
            line.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
            if line.is_empty() {
                inner.waiters.remove(&self.conversation);
            }
        }
    }
}
