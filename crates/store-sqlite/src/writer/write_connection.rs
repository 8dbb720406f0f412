//! The write connection: it runs many jobs in one transaction, and can undo the writes of one of them.
//!
//! A savepoint makes SQLite copy each page that a job touches, so a job has one only if it must. Jobs that can run
//! again run without one. If such a job has written and then fails, the whole transaction is rolled back and its jobs
//! run again, each in a savepoint. Jobs that run only once have a savepoint, and so has every job after them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use herma_store::StoreError;
use rusqlite::Connection;

use super::job::{Run, Work};
use super::{Callback, JobOutcome};
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
    /// An empty buffer for the jobs of a transaction that can run again.
    pub(super) ran: Vec<Work>,
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

    /// Writes what this process has delivered, for the processes that come after it.
    pub(super) fn close(mut self) {
        if self.begin_at_once() {
            let written = self.instance.write_deliveries(&self.connection).and_then(|()| self.execute("COMMIT"));
            tracing::debug!(?written, "deliveries written");
        }
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
        let mut finished = Finished::default();
        let mut repeatable = std::mem::take(&mut self.ran);
        let mut undoing = Undoing::All;
        let mut intact = Ok(());
        while let Some(work) = batch.pop_front() {
            let outcome;
            (outcome, intact) = match work.run {
                Run::Repeatable(mut run) if undoing == Undoing::All => {
                    let changes = self.connection.total_changes();
                    let mark = self.instance.mark();
                    let outcome = run(&self.connection, &mut self.instance);
                    let intact = self.intact();
                    repeatable.push(Work { run: Run::Repeatable(run), ..work });
                    if matches!(outcome, JobOutcome::Undo(_)) && intact.is_ok() {
                        if self.connection.total_changes() != changes {
                            drop((outcome, std::mem::take(&mut finished)));
                            repeatable.drain(..).rev().for_each(|work| batch.push_front(work));
                            self.take_back(before);
                            undoing = Undoing::Each;
                            // If another process writes now, the jobs stay in the batch and are queued again.
                            let has_begun = match syncing {
                                Syncing::HereIfAlone => self.begin().is_ok(),
                                Syncing::Behind => self.begin_at_once(),
                            };
                            if has_begun {
                                continue;
                            }
                            return;
                        }
                        self.instance.restore(mark);
                    }
                    (outcome, intact)
                }
                Run::Repeatable(mut run) => self.in_savepoint(|connection, instance| run(connection, instance)),
                Run::Once(run) => {
                    undoing = Undoing::Each;
                    self.instance.before_other_write();
                    self.in_savepoint(run)
                }
            };
            finished.add(outcome);
            if intact.is_err() || began.elapsed() > BATCH_TIME {
                break;
            }
        }
        repeatable.clear();
        self.ran = repeatable;
        let Finished { kept, durable, undone } = finished;
        let noted = intact.and_then(|()| self.instance.write_deliveries_if_due(&self.connection));
        let committed = noted.and_then(|()| self.execute("COMMIT"));
        for finish in undone {
            finish(Ok(()));
        }
        if let Err(error) = committed {
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

    /// Runs one job in a savepoint. The second value is an error if the transaction is broken.
    fn in_savepoint(
        &mut self,
        run: impl FnOnce(&Connection, &mut Instance) -> JobOutcome,
    ) -> (JobOutcome, StoreResult<()>) {
        if let Err(error) = self.execute("SAVEPOINT job") {
            // The work is dropped, and with it the channel that its caller waits on.
            tracing::error!(%error, "a write could not begin");
            return (JobOutcome::Undo(Box::new(|_| {})), Err(error));
        }
        let before = self.instance.mark();
        let outcome = run(&self.connection, &mut self.instance);
        if let Err(broken) = self.intact() {
            return (outcome, Err(broken));
        }
        let undone = if matches!(outcome, JobOutcome::Undo(_)) {
            self.instance.restore(before);
            self.execute("ROLLBACK TO job")
        } else {
            Ok(())
        };
        (outcome, undone.and_then(|()| self.execute("RELEASE job")))
    }

    /// An error if the transaction is broken: on a full or failing disk SQLite rolls back all of it, and later writes
    /// would be outside any transaction.
    fn intact(&self) -> StoreResult<()> {
        match self.connection.is_autocommit() {
            false => Ok(()),
            true => {
                Err(StoreError::Unavailable("the database broke the transaction off; is the disk full?".to_owned()))
            }
        }
    }

    fn execute(&self, sql: &str) -> StoreResult<()> {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map(drop).translated()
    }
}

/// What can be undone in a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undoing {
    /// All of it: every job so far can run again.
    All,
    /// Each job, because it has a savepoint.
    Each,
}

/// The callers of the jobs that have run in a transaction.
#[derive(Default)]
struct Finished {
    kept: Vec<Callback>,
    durable: Vec<Callback>,
    undone: Vec<Callback>,
}

impl Finished {
    fn add(&mut self, outcome: JobOutcome) {
        match outcome {
            JobOutcome::Keep(finish) => self.kept.push(finish),
            JobOutcome::KeepDurably(finish) => self.durable.push(finish),
            JobOutcome::KeepThenDurably(committed, synced) => {
                self.kept.push(committed);
                self.durable.push(synced);
            }
            JobOutcome::Undo(finish) => self.undone.push(finish),
        }
    }
}
