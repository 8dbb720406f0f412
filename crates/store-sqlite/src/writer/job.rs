//! Jobs of the writer: what they run, what they say about their writes, and how their callers hear of it.

use std::sync::{Arc, Mutex, PoisonError};

use herma_store::Lease;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::failure::StoreResult;
use crate::instance::Instance;

/// Called with the outcome of the transaction that a job was part of.
pub(crate) type Callback = Box<dyn FnOnce(StoreResult<()>) + Send>;

/// What happens to the writes of a job.
pub(crate) enum JobOutcome {
    /// Keep them; call back when the transaction is committed.
    Keep(Callback),
    /// Keep them; call back when they are on disk.
    KeepDurably(Callback),
    /// Keep them; call back when the transaction is committed, and again when it is on disk.
    KeepThenDurably(Callback, Callback),
    /// Undo them; call back when the transaction has ended.
    Undo(Callback),
}

/// What happens to work when no transaction can begin, because the database is locked or unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenUnavailable {
    /// It is dropped, which its caller notices.
    Refuse,
    /// It keeps its place in the queue until a transaction begins or the store is closed.
    Wait,
}

type RunOnce = dyn FnOnce(&Connection, &mut Instance) -> JobOutcome + Send;
type RunAgain = dyn FnMut(&Connection, &mut Instance) -> JobOutcome + Send;

/// What a job runs inside a transaction.
pub(super) enum Run {
    /// Runs once, in a savepoint.
    Once(Box<RunOnce>),
    /// May run again after its transaction was rolled back, so it needs no savepoint. An outcome of an earlier run is
    /// dropped without a call.
    Repeatable(Box<RunAgain>),
}

/// Work for a transaction.
pub(super) struct Work {
    pub(super) run: Run,
    pub(super) when_unavailable: WhenUnavailable,
}

impl Work {
    pub(super) fn once(
        when_unavailable: WhenUnavailable,
        run: impl FnOnce(&Connection, &mut Instance) -> JobOutcome + Send + 'static,
    ) -> Self {
        Self { run: Run::Once(Box::new(run)), when_unavailable }
    }

    pub(super) fn repeatable(
        when_unavailable: WhenUnavailable,
        run: impl FnMut(&Connection, &mut Instance) -> JobOutcome + Send + 'static,
    ) -> Self {
        Self { run: Run::Repeatable(Box::new(run)), when_unavailable }
    }

    /// Whether it takes no longer than the writes of a turn. Only a turn's own work is made to run again.
    pub(super) fn is_short(&self) -> bool {
        matches!(self.run, Run::Repeatable(_))
    }
}

/// What waits to be written.
pub(super) enum Job {
    Work(Work),
    GiveUp(Lease),
    Checkpoint,
    Truncate(u64),
}

/// The way to the caller of a job that may run again. The caller hears of one outcome. If all copies are dropped
/// before, it hears that the job was dropped.
pub(crate) struct Answer<T>(Arc<Mutex<Option<oneshot::Sender<StoreResult<T>>>>>);

impl<T> Answer<T> {
    pub(crate) fn channel() -> (Self, oneshot::Receiver<StoreResult<T>>) {
        let (sender, receiver) = oneshot::channel();
        (Self::by(sender), receiver)
    }

    pub(crate) fn by(sender: oneshot::Sender<StoreResult<T>>) -> Self {
        Self(Arc::new(Mutex::new(Some(sender))))
    }

    pub(crate) fn send(&self, outcome: StoreResult<T>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _caller_may_be_gone = sender.map(|sender| sender.send(outcome));
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
