//! [`SqliteStore`]: a database file with its threads, and the ways to write to it.

mod port;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use herma_store::{Lease, Receipt, StoreError, receipt};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::commit::HandOver;
use crate::failure::StoreResult;
use crate::instance::Instance;
use crate::maintenance::Maintenance;
use crate::notices::Notices;
use crate::readers::Readers;
use crate::remember::RecallCache;
use crate::renewals::Renewals;
use crate::writer::{Answer, FIRST_PAUSE, JobOutcome, LONGEST_PAUSE, WhenUnavailable, Writer};
use crate::{admissions, migrations, open};

/// How long a read waits until running turns are written out.
const WRITE_OUT_WAIT: Duration = Duration::from_millis(500);

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Arc<Writer>,
    readers: Readers,
    remembered: Arc<RecallCache>,
    notices: Arc<Notices>,
    new_events: watch::Sender<i64>,
    /// How many events are known to be on disk.
    synced_events: AtomicI64,
    renewals: Arc<Renewals>,
    /// Whether commits hand over what was said to the outbox.
    uses_outbox: AtomicBool,
    stop: Arc<AtomicBool>,
    /// Writer, sync and, last, maintenance.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens a file, or creates it. Refuses a file that is damaged, belongs to another program or was written by a
    /// newer Herma, and leaves it unchanged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let refused = |what: &str, error: &std::io::Error| {
            StoreError::Unusable(format!("cannot {what} {}: {error}", path.display()))
        };
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|error| refused("make the directory of", &error))?;
        }
        open::inspect(path)?;
        open::make_private(path).map_err(|error| refused("make", &error))?;
        let mut connection = open::writer(path)?;
        migrations::run(&mut connection)?;
        // Maintenance works by the clock and not by turns, so its connection is not counted.
        #[cfg(feature = "counts")]
        crate::counts::watch(&mut connection).map_err(|error| crate::failure::translate(&error))?;
        // All processes must use the same log and the same locks, whichever link or relative path they were given.
        let path = &std::fs::canonicalize(path).map_err(|error| refused("find", &error))?;
        let maintenance_connection = open::writer(path)?;
        let log = open::log_path(path);
        let log_file = File::options().read(true).write(true).create(true).truncate(false).open(&log);
        let log_file = log_file.map_err(|error| refused("open the log of", &error))?;
        sync_names(path, &log_file).map_err(|error| refused("sync", &error))?;
        let threads_failed = |error: std::io::Error| StoreError::Unavailable(format!("cannot start a thread: {error}"));
        let instance = Instance::new(path);
        let renewals = instance.renewals();
        let (writer, mut threads) = Writer::start(connection, log_file, instance).map_err(threads_failed)?;
        let writer = Arc::new(writer);
        let stop = Arc::new(AtomicBool::new(false));
        let notices = Arc::new(Notices::default());
        let new_events = watch::Sender::new(0);
        let remembered = Arc::new(RecallCache::default());
        let maintenance = Maintenance {
            connection: maintenance_connection,
            log,
            writer: Arc::clone(&writer),
            notices: Arc::clone(&notices),
            new_events: new_events.clone(),
            renewals: Arc::clone(&renewals),
            remembered: Arc::clone(&remembered),
            stop: Arc::clone(&stop),
        };
        threads.push(maintenance.start().map_err(threads_failed)?);
        Ok(Self {
            writer,
            readers: Readers::new(path.to_owned()),
            remembered,
            notices,
            new_events,
            synced_events: AtomicI64::new(0),
            renewals,
            uses_outbox: AtomicBool::new(false),
            stop,
            threads: Mutex::new(threads),
        })
    }

    /// The newest schema version that this program knows.
    pub fn schema_version() -> i32 {
        migrations::newest()
    }

    /// Reads in one transaction. Running turns are written out first, as far as the database takes writes.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let read = move |connection: &Connection| match admissions::is_any(connection)? {
            true => Ok(Err(work)),
            false => work(connection).map(Ok),
        };
        match self.readers.read(read).await? {
            Ok(value) => Ok(value),
            Err(work) => {
                self.write_out_admissions().await;
                self.readers.read(work).await
            }
        }
    }

    /// Has the running turns written out, so that reads see them. If the database takes no writes, reads see what is
    /// stored: the conversations as they were before those turns.
    async fn write_out_admissions(&self) {
        let written = self.write_undurably(admissions::write_out_all);
        if !matches!(tokio::time::timeout(WRITE_OUT_WAIT, written).await, Ok(Ok(()))) {
            tracing::debug!("running turns could not be written out for a read");
        }
    }

    /// Runs a write and waits until it is on disk. Running turns are written out before.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &mut Instance) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.write_beside_turns(move |connection, instance| {
            admissions::write_out_all(connection)?;
            work(connection, instance)
        })
        .await
    }

    /// Runs a write that neither sees nor changes a turn, and waits until it is on disk.
    async fn write_beside_turns<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &mut Instance) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |connection, instance| match work(connection, instance) {
            Ok(value) => JobOutcome::KeepDurably(Box::new(move |committed| {
                let _ = answer.send(committed.map(|()| value));
            })),
            Err(error) => JobOutcome::Undo(Box::new(move |_| {
                let _ = answer.send(Err(error));
            })),
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    /// Like `write`, for a write that deletes text: the log is truncated soon after it.
    async fn write_erasing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &mut Instance) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let erasures = Arc::clone(&self.writer.erasures);
        self.write(move |connection, instance| {
            let before = connection.total_changes();
            let outcome = work(connection, instance);
            // The writer truncates the log only after the transaction that this is part of.
            if connection.total_changes() != before {
                erasures.add();
            }
            outcome
        })
        .await
    }

    /// Runs a write and keeps it only if `keep` says so of its outcome. Waits until it is on disk.
    async fn write_if<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
        keep: impl FnOnce(&T) -> bool + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        let work = move |connection: &Connection| {
            admissions::write_out_all(connection)?;
            work(connection)
        };
        self.writer.submit(move |connection, _| match work(connection) {
            Ok(value) if keep(&value) => JobOutcome::KeepDurably(Box::new(move |committed| {
                let _ = answer.send(committed.map(|()| value));
            })),
            outcome => JobOutcome::Undo(Box::new(move |_| {
                let _ = answer.send(outcome);
            })),
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    /// Runs a write that may be lost in a power failure, because it can be made again. It neither sees nor changes a
    /// turn.
    async fn write_undurably<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |connection, _| match work(connection) {
            Ok(value) => JobOutcome::Keep(Box::new(move |committed| {
                let _ = answer.send(committed.map(|()| value));
            })),
            Err(error) => JobOutcome::Undo(Box::new(move |_| {
                let _ = answer.send(Err(error));
            })),
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    /// Runs a write that a turn cannot continue without, and waits until it is on disk. Repeats it while the database
    /// is locked or unreachable. If it fails for another reason, the turn is given up: the next admission or sweep
    /// takes over its lease and records it as interrupted.
    async fn under_lease<T: Send + 'static>(
        &self,
        lease: Lease,
        work: impl Fn(&Connection, &mut Instance) -> StoreResult<T> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        self.repeated_under_lease(lease, work, |value, answer| {
            JobOutcome::KeepDurably(Box::new(move |committed| answer.send(committed.map(|()| value))))
        })
        .await
    }

    /// The same, but returns when every process can see the write. The receipt resolves when it is on disk.
    async fn visibly_under_lease<T: Send + 'static>(
        &self,
        lease: Lease,
        work: impl Fn(&Connection, &mut Instance) -> StoreResult<T> + Send + Sync + 'static,
    ) -> StoreResult<(T, Receipt)> {
        self.repeated_under_lease(lease, work, |value, answer| {
            let (durable, promise) = receipt();
            JobOutcome::KeepThenDurably(
                Box::new(move |committed| answer.send(committed.map(|()| (value, promise)))),
                Box::new(move |synced| {
                    let _turn_may_be_gone = durable.send(synced);
                }),
            )
        })
        .await
    }

    /// `keep` says when the caller of a write that succeeded is answered.
    async fn repeated_under_lease<T, A: Send + 'static>(
        &self,
        lease: Lease,
        work: impl Fn(&Connection, &mut Instance) -> StoreResult<T> + Send + Sync + 'static,
        keep: impl Fn(T, Answer<A>) -> JobOutcome + Copy + Send + 'static,
    ) -> StoreResult<A> {
        let mut held = UnwrittenTurn { writer: Arc::clone(&self.writer), lease, is_written: false };
        let work = Arc::new(work);
        let mut pause = FIRST_PAUSE;
        loop {
            let (answer, answered) = Answer::channel();
            let run = Arc::clone(&work);
            self.writer.submit_short(WhenUnavailable::Wait, move |connection, instance| {
                let answer = answer.clone();
                match run(connection, instance) {
                    Ok(value) => keep(value, answer),
                    Err(error) => JobOutcome::Undo(Box::new(move |_| answer.send(Err(error)))),
                }
            });
            let outcome = answered.await.unwrap_or_else(|_| Err(self.dropped()));
            let Err(StoreError::Unavailable(why)) = &outcome else {
                // A turn that was asked to stop still has the lease. The caller ends it in another way.
                held.is_written = matches!(outcome, Ok(_) | Err(StoreError::StopRequested(_)));
                return outcome;
            };
            tracing::warn!(%why, turn = %lease.id, "what a turn writes could not be written yet; it is tried again");
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// The error for work that was dropped before it ran.
    fn not_taken(&self) -> StoreError {
        if self.stop.load(Ordering::Acquire) {
            return StoreError::Closed;
        }
        StoreError::Unavailable("the database did not take the write".to_owned())
    }

    /// The error for work that is never refused while the store is open, but gave no answer.
    fn dropped(&self) -> StoreError {
        if self.stop.load(Ordering::Acquire) {
            return StoreError::Closed;
        }
        StoreError::Failed("a write broke off; the log says why".to_owned())
    }

    /// Runs a write that no caller waits for. It must write out the turns that it looks at.
    fn write_lazily(&self, work: impl FnOnce(&Connection) -> StoreResult<()> + Send + 'static) {
        self.writer.submit_lazy(WhenUnavailable::Wait, move |connection, _| noted_or_logged(work(connection)));
    }

    /// Whether commits hand over what was said to the outbox.
    fn hand_over(&self) -> HandOver {
        if self.uses_outbox.load(Ordering::Acquire) { HandOver::Yes } else { HandOver::No }
    }
}

/// The outcome of a write that no caller waits for.
fn noted_or_logged(written: StoreResult<()>) -> JobOutcome {
    match written {
        Ok(()) => JobOutcome::Keep(Box::new(|_| {})),
        Err(error) => {
            tracing::warn!(%error, "a note on a turn was not written");
            JobOutcome::Undo(Box::new(|_| {}))
        }
    }
}

/// Makes the directory entries of the database and its log durable. Syncing only the log's contents is not enough while
/// it is new. Only SQLite may open the database file: if this process closed it again, SQLite's locks on it would be
/// lost.
fn sync_names(path: &Path, log: &File) -> std::io::Result<()> {
    log.sync_all()?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// Gives its turn up when dropped, unless the turn's write has succeeded.
struct UnwrittenTurn {
    writer: Arc<Writer>,
    lease: Lease,
    is_written: bool,
}

impl Drop for UnwrittenTurn {
    fn drop(&mut self) {
        if !self.is_written {
            self.writer.give_up(self.lease);
        }
    }
}

impl Drop for SqliteStore {
    /// Work that is queued is still done while the process lives. [`herma_store::Store::close`] waits for it.
    fn drop(&mut self) {
        self.readers.close();
        self.stop.store(true, Ordering::Release);
        self.notices.close();
        self.writer.stop();
    }
}

#[cfg(test)]
mod tests;
