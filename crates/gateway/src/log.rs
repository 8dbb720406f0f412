//! The events of a turn: an append-only list that each listener reads from the beginning, at its own pace.

use std::sync::{Arc, Mutex, PoisonError};

use herma_model::{
    Answer, CompactionId, ConversationFacts, Delta, Message, MessageId, Resolution, Step, TenantId, TextRun, Timestamp,
    TurnId,
};
use herma_store::Revision;
use tokio::sync::Notify;

use crate::compaction::CompactionListener;
use crate::error::GatewayError;

/// Which session a turn belongs to, and how the request led there.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// The conversation at its head.
    pub facts: Arc<ConversationFacts>,
    /// The name the request used.
    pub requested: Option<Arc<str>>,
    /// How it led here.
    pub resolution: Resolution,
    /// Whether the head moved during the turn.
    pub rotated: bool,
    /// The conversation's revision after the turn. While the turn runs, the one that it will have if no other request
    /// changes it. `None` while the turn waits, and for a turn that is read from the store.
    pub revision: Option<Revision>,
}

/// A turn that has its answer, durably.
#[derive(Debug)]
pub struct Finished {
    /// Which turn.
    pub turn: TurnId,
    /// Its tenant.
    pub tenant: TenantId,
    /// When its first attempt was admitted.
    pub started_at: Timestamp,
    /// Its session; `None` for a stateless turn.
    pub session: Option<SessionView>,
    /// The answer.
    pub answer: Answer,
    /// Its steps, in order. The last is the message that ended it.
    pub steps: Vec<Step>,
    /// The last message, as it is stored.
    pub message: Arc<Message>,
}

/// How a front door shows the messages that the model said in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// One by one, between the other steps of the turn.
    Messages,
    /// As one message.
    OneMessage,
}

/// An event of a turn.
#[derive(Debug, Clone)]
pub enum TurnEvent {
    /// It waits for other turns of this conversation.
    Queued {
        /// Which turn.
        turn: TurnId,
        /// When it was first asked for.
        since: Timestamp,
        /// Its session.
        session: SessionView,
    },
    /// It runs, and that is on disk.
    Started {
        /// Which turn.
        turn: TurnId,
        /// When its first attempt was admitted.
        started_at: Timestamp,
        /// Its session; `None` for a stateless turn.
        session: Option<SessionView>,
        /// The id that its answer will have.
        message: MessageId,
    },
    /// It made a step in the middle, durably. The message that ends it comes with its end.
    Step {
        /// What it did.
        step: Step,
        /// The id that its next model message will have.
        next: MessageId,
        /// Its session now. A compaction may have moved the head.
        session: SessionView,
    },
    /// Pieces of its answer that have text and nothing else.
    Text(Arc<TextRun>),
    /// Any other piece of its answer.
    Delta(Arc<Delta>),
    /// It has its answer. The last event.
    Finished(Arc<Finished>),
    /// It has no answer. The last event.
    Failed(Arc<GatewayError>),
}

impl TurnEvent {
    pub(crate) fn text(run: TextRun) -> Self {
        Self::Text(Arc::new(run))
    }

    pub(crate) fn delta(delta: Delta) -> Self {
        Self::Delta(Arc::new(delta))
    }
}

/// A turn's events.
#[derive(Debug, Default)]
pub(crate) struct TurnLog {
    events: Mutex<Vec<TurnEvent>>,
    added: Notify,
    /// The compaction that began last, and how many events there were then. It may have failed since.
    compacting: Mutex<Option<(usize, CompactionId)>>,
}

impl CompactionListener for TurnLog {
    fn begun(&self, compaction: CompactionId) {
        let at = self.len();
        *self.compacting.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, compaction));
        self.added.notify_waiters();
    }
}

impl TurnLog {
    pub(crate) fn push(&self, event: TurnEvent) {
        self.push_all([event]);
    }

    /// Adds events and wakes the listeners once.
    pub(crate) fn push_all(&self, events: impl IntoIterator<Item = TurnEvent>) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
        self.added.notify_waiters();
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Subscription {
        Subscription { log: Arc::clone(self), next: 0, told: None }
    }

    fn get(&self, at: usize) -> Option<TurnEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).get(at).cloned()
    }

    /// How many events there are.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The newest event.
    pub(crate) fn last(&self) -> Option<TurnEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    /// All events from this index on.
    pub(crate) fn from(&self, at: usize) -> Vec<TurnEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).get(at..).unwrap_or_default().to_vec()
    }
}

/// One listener's position in a log.
#[derive(Debug)]
pub(crate) struct Subscription {
    log: Arc<TurnLog>,
    next: usize,
    /// The compaction that the listener was told of last.
    told: Option<CompactionId>,
}

/// What a listener that wants to know of beginning compactions gets.
#[derive(Debug)]
pub enum Progress {
    /// An event.
    Event(TurnEvent),
    /// A summary is asked for. If the compaction succeeds, its step is the next event of the turn. It is not told to
    /// readers of a stored turn, nor to slow readers after the turn has gone on.
    Compacting(CompactionId),
}

impl Subscription {
    /// The next event, or that a compaction began after the events so far. Cancel-safe.
    pub(crate) async fn progress(&mut self) -> Progress {
        loop {
            let log = Arc::clone(&self.log);
            let added = log.added.notified();
            if let Some(progress) = self.progress_ready() {
                return progress;
            }
            added.await;
        }
    }

    /// The same, if there is one by now.
    pub(crate) fn progress_ready(&mut self) -> Option<Progress> {
        let begun = *self.log.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, compaction)) = begun
            && at == self.next
            && self.told != Some(compaction)
        {
            self.told = Some(compaction);
            return Some(Progress::Compacting(compaction));
        }
        self.next_ready().map(Progress::Event)
    }

    /// The next event, once there is one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> TurnEvent {
        loop {
            let added = self.log.added.notified();
            if let Some(event) = self.log.get(self.next) {
                self.next += 1;
                return event;
            }
            added.await;
        }
    }

    /// The next event, if there is one by now.
    pub(crate) fn next_ready(&mut self) -> Option<TurnEvent> {
        let event = self.log.get(self.next)?;
        self.next += 1;
        Some(event)
    }
}
