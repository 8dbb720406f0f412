//! The waiting turns of this process, in line for their conversations.
//!
//! A line has the store's order: interrupting turns first, then by ticket. Only the first in line asks for the lease.
//! It asks when a turn of this process ends ([`Lines::wake_first`]), when the store says that the conversation is free
//! ([`herma_store::Notice::ConversationFree`]), or when the one before it gave up after it had been woken.
//!
//! The lease is handed over by a wake-up, not by the commit that frees it. What a turn writes when it gets the lease
//! depends on the history up to that commit: which of its messages are new, and if it repeats an earlier turn. The
//! gateway decides that, so the commit cannot. A lease given by the commit would make a running turn without messages:
//! one more state for every takeover, retry and reader. It would win nothing, because the store lets no other turn pass
//! the first in line. The wake-up comes when the commit is visible and the history is in the cache. So the woken turn
//! gets the lease at its first question. It does not wait until the commit is on disk: the sync of its own end, or of
//! its admission if it is streamed, covers the commit before.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herma_model::ConversationId;
use herma_store::{Ticket, TurnPolicy};
use tokio::sync::Notify;

/// How many of the last wake-ups are remembered.
const REMEMBERED: usize = 64;

/// The lines of this process.
#[derive(Default)]
pub(crate) struct Lines {
    inner: Mutex<Inner>,
    /// How many wake-ups there were. Changed under the lock.
    wake_ups: AtomicU64,
}

#[derive(Default)]
struct Inner {
    lines: HashMap<ConversationId, BTreeMap<Rank, Arc<Waiter>>>,
    /// The conversations of the last wake-ups, the newest last.
    woken: VecDeque<ConversationId>,
}

/// Where a turn stands in its line. The lowest is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Interrupting turns go before those that merely wait.
    merely_waits: bool,
    ticket: Ticket,
}

#[derive(Default)]
struct Waiter {
    changed: Notify,
    /// True if the lease may be free and this turn has not asked since.
    may_ask: AtomicBool,
}

/// A moment before a turn asked for the lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(u64);

impl Lines {
    /// How many turns of this process wait in line.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().lines.values().map(BTreeMap::len).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The moment to name in [`Lines::join`].
    pub(crate) fn now(&self) -> Moment {
        Moment(self.wake_ups.load(Ordering::Acquire))
    }

    /// Takes a place in line. If the turn is first, a wake-up of the conversation after the moment `asked` counts for
    /// it: it came before the turn was in line.
    pub(crate) fn join(
        self: &Arc<Self>,
        conversation: ConversationId,
        policy: TurnPolicy,
        ticket: Ticket,
        asked: Moment,
    ) -> PlaceInLine {
        let rank = Rank { merely_waits: policy != TurnPolicy::Interrupt, ticket };
        let waiter = Arc::new(Waiter::default());
        let mut inner = self.lock();
        let missed = self.wake_ups.load(Ordering::Acquire) - asked.0;
        let missed = usize::try_from(missed).unwrap_or(usize::MAX);
        let is_woken = missed > REMEMBERED || inner.woken.iter().rev().take(missed).any(|woken| *woken == conversation);
        let line = inner.lines.entry(conversation).or_default();
        line.insert(rank, Arc::clone(&waiter));
        if line.first_key_value().is_some_and(|(first, _)| *first == rank) {
            waiter.may_ask.store(is_woken, Ordering::Release);
            if let Some(second) = line.values().nth(1) {
                second.changed.notify_one();
            }
        }
        drop(inner);
        PlaceInLine { lines: Arc::clone(self), conversation, rank, waiter }
    }

    /// Whether a turn waits in line for a conversation.
    pub(crate) fn is_awaited(&self, conversation: ConversationId) -> bool {
        self.lock().lines.contains_key(&conversation)
    }

    /// Has the first in line for a conversation ask for the lease.
    pub(crate) fn wake_first(&self, conversation: ConversationId) {
        let mut inner = self.lock();
        self.wake_ups.fetch_add(1, Ordering::AcqRel);
        inner.woken.push_back(conversation);
        if inner.woken.len() > REMEMBERED {
            inner.woken.pop_front();
        }
        if let Some(first) = inner.first(conversation) {
            first.may_ask.store(true, Ordering::Release);
            first.changed.notify_one();
        }
    }

    /// Wakes every waiting turn, so that it sees a drain.
    pub(crate) fn wake_all(&self) {
        for waiter in self.lock().lines.values().flat_map(BTreeMap::values) {
            waiter.changed.notify_one();
        }
    }
}

impl Inner {
    fn first(&self, conversation: ConversationId) -> Option<&Arc<Waiter>> {
        self.lines.get(&conversation).and_then(BTreeMap::first_key_value).map(|(_, first)| first)
    }
}

/// A place in line, free when dropped. The next turn then knows that it is first, but does not ask.
pub(crate) struct PlaceInLine {
    lines: Arc<Lines>,
    conversation: ConversationId,
    rank: Rank,
    waiter: Arc<Waiter>,
}

impl PlaceInLine {
    pub(crate) fn is_first(&self) -> bool {
        self.lines.lock().first(self.conversation).is_some_and(|first| Arc::ptr_eq(first, &self.waiter))
    }

    /// True if the turn was woken to ask for the lease. Resets to false.
    pub(crate) fn may_ask(&self) -> bool {
        self.waiter.may_ask.swap(false, Ordering::AcqRel)
    }

    /// Waits until the turn may ask, or is first. Cancel-safe.
    pub(crate) async fn changed(&self) {
        self.waiter.changed.notified().await;
    }

    /// Leaves without the lease. Wakes the next turn if this one was woken to ask, or `asked` and did not wait again.
    pub(crate) fn give_up(self, asked: bool) {
        let (lines, conversation) = (Arc::clone(&self.lines), self.conversation);
        let passes_on = self.may_ask() || asked;
        drop(self);
        if passes_on {
            lines.wake_first(conversation);
        }
    }
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        let mut inner = self.lines.lock();
        let Some(line) = inner.lines.get_mut(&self.conversation) else { return };
        let was_first = line.first_key_value().is_some_and(|(first, _)| *first == self.rank);
        line.remove(&self.rank);
        match line.values().next() {
            None => drop(inner.lines.remove(&self.conversation)),
            Some(next) if was_first => next.changed.notify_one(),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
