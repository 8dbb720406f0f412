//! The write connection: it runs many jobs in one transaction, each in a savepoint of its own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use herma_store::StoreError;
use rusqlite::Connection;

use super::{Callback, JobOutcome, Work};
use crate::erase::counts::Erasures;
use crate::failure::{StoreResult, Translate};
use crate::instance::{Instance, Mark};
use crate::open::BUSY_TIMEOUT;
use crate::sync::Log;

/// How long one transaction may keep other processes waiting.
const BATCH_TIME: Duration = Duration::from_millis(5);
/// How long to wait for readers that still need the log. After that the log keeps growing until the next try.
const RESTART_WAIT: Duration = Duration::from_millis(20);

/// Which thread syncs the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncing {
    /// The writing thread, if no turn is left: then a single client does not wait until another thread wakes up.
    HereIfAlone,
    /// The sync thread.
    Behind,
}

/// The write connection, and this process's leases.
pub(super) struct WriteConnection {
    pub(super) connection: Connection,
    pub(super) instance: Instance,
    pub(super) log: Arc<Log>,
    pub(super) live: Arc<AtomicUsize>,
    pub(super) erasures: Arc<Erasures>,
    pub(super) syncs: Sender<Vec<Callback>>,
}

impl WriteConnection {
    /// Restarts the log at its beginning.
    pub(super) fn restart_log(&self) {
        let _ = self.connection.busy_timeout(RESTART_WAIT);
        let restarted = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        tracing::debug!(?restarted, "log restarted");
    }

    /// Truncates the log's file unless readers still need it. After that, what was erased before is in no file any
    /// more.
    pub(super) fn truncate_log(&self, erasures: u64) {
        let _ = self.connection.busy_timeout(RESTART_WAIT);
        let busy = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        if matches!(busy, Ok(0)) {
            self.erasures.mark_done(erasures);
        }
        tracing::debug!(?busy, "log emptied");
    }

    /// Begins a transaction unless another process has one.
    pub(super) fn begin_at_once(&self) -> bool {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let begun = self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        begun.is_ok()
    }

    /// Begins a transaction. Waits while another process has one.
    pub(super) fn begin(&self) -> StoreResult<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    /// Runs jobs from the front of `batch` in the transaction that has begun. Jobs that do not fit into [`BATCH_TIME`]
    /// stay in `batch`. If a job panics, only this transaction is rolled back.
    pub(super) fn transact(&mut self, batch: &mut VecDeque<Work>, syncing: Syncing) {
        let before = self.instance.mark();
        let ended = catch_unwind(AssertUnwindSafe(|| self.transact_whole(batch, before, syncing)));
        if ended.is_err() {
            tracing::error!("a write panicked; its transaction is taken back");
            self.take_back(before);
        }
    }

    fn transact_whole(&mut self, batch: &mut VecDeque<Work>, before: Mark, syncing: Syncing) {
        let began = Instant::now();
        let mut kept: Vec<Callback> = Vec::new();
        let mut durable: Vec<Callback> = Vec::new();
        let mut intact = Ok(());
        while let Some(work) = batch.pop_front() {
            let step;
            (step, intact) = self.in_savepoint(work);
            match step {
                JobOutcome::Keep(finish) => kept.push(finish),
                JobOutcome::KeepDurably(finish) => durable.push(finish),
                JobOutcome::KeepThenDurably(committed, synced) => {
                    kept.push(committed);
                    durable.push(synced);
                }
                JobOutcome::Undo(finish) => finish(Ok(())),
            }
            if intact.is_err() || began.elapsed() > BATCH_TIME {
                break;
            }
        }
        if let Err(error) = intact.and_then(|()| self.execute("COMMIT")) {
            self.take_back(before);
            for finish in kept.into_iter().chain(durable) {
                finish(Err(error.clone()));
            }
            return;
        }
        self.instance.note_commit();
        self.live.store(self.instance.live.len(), Ordering::Release);
        for finish in kept {
            finish(Ok(()));
        }
        if durable.is_empty() {
            return;
        }
        if syncing == Syncing::HereIfAlone && self.instance.live.is_empty() {
            self.log.sync_for(durable);
        } else {
            let _ = self.syncs.send(durable);
        }
    }

    fn take_back(&mut self, before: Mark) {
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.instance.restore(before);
        self.instance.restart_watching();
        self.instance.reload_live(&self.connection);
        self.live.store(self.instance.live.len(), Ordering::Release);
    }

    /// Runs one job. The second value is an error if the transaction is broken: on a full or failing disk SQLite rolls
    /// back all of it, and later writes would be outside any transaction.
    fn in_savepoint(&mut self, work: Work) -> (JobOutcome, StoreResult<()>) {
        if let Err(error) = self.execute("SAVEPOINT job") {
            refuse(work, &error);
            return (JobOutcome::Undo(Box::new(|_| {})), Err(error));
        }
        let before = self.instance.mark();
        let step = (work.run)(&self.connection, &mut self.instance);
        if self.connection.is_autocommit() {
            let broken =
                StoreError::Unavailable("the database broke the transaction off; is the disk full?".to_owned());
            return (step, Err(broken));
        }
        let undone = if matches!(step, JobOutcome::Undo(_)) {
            self.instance.restore(before);
            self.execute("ROLLBACK TO job")
        } else {
            Ok(())
        };
        (step, undone.and_then(|()| self.execute("RELEASE job")))
    }

    fn execute(&self, sql: &str) -> StoreResult<()> {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map(drop).translated()
    }
}

/// Drops the work, and with it the channel that its caller waits on. The reason is logged.
fn refuse(work: Work, error: &StoreError) {
    tracing::error!(%error, "a write could not begin");
    drop(work);
}
