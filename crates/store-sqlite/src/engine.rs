//! [`SqliteStore`]: the port's operations, each sent to the writer or to a reader.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use herma_model::alias::Namespace;
use herma_model::{Alias, ApiKeyId, Principal, TenantId, Timestamp, TurnId};
use herma_store::{
    Admission, AdmitOutcome, ApiKeyRow, Commit, Committed, ConversationRow, Durability, KeyHash, Lease, ListFilter,
    MessagePage, MessageRange, NewApiKey, Page, Pin, Scope, Snapshot, Store, StoreError, TurnRecord, receipt,
};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::failure::Outcome;
use crate::instance::Instance;
use crate::pulse::{self, Pulse};
use crate::readers::Readers;
use crate::writer::{Finish, Step, Writer};
use crate::{admit, commit, keys, listing, migrations, open, queue, retract, snapshot, takeover, turns};

/// A store in one SQLite file.
pub struct SqliteStore {
    writer: Arc<Writer>,
    readers: Readers,
    changes: watch::Receiver<u64>,
    stop: Arc<AtomicBool>,
    /// Writer, sync and, last, pulse.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SqliteStore {
    /// Opens a file, or makes it. A file that is damaged, another program's, or written by a newer Herma is refused untouched.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let refused = |what: &str, error: &std::io::Error| {
            StoreError::Unusable(format!("cannot {what} {}: {error}", path.display()))
        };
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|error| refused("make the directory of", &error))?;
        }
        open::look(path)?;
        open::make_private(path).map_err(|error| refused("make", &error))?;
        let mut connection = open::writer(path)?;
        migrations::run(&mut connection)?;
        // All processes must mean the same log and the same locks, by whatever link or relative path they came.
        let path = &std::fs::canonicalize(path).map_err(|error| refused("find", &error))?;
        let pulse_connection = open::writer(path)?;
        let log = open::log_path(path);
        let log_file = File::options().read(true).write(true).create(true).truncate(false).open(&log);
        let log_file = log_file.map_err(|error| refused("open the log of", &error))?;
        sync_names(path, &log_file).map_err(|error| refused("sync", &error))?;
        let threads_failed = |error: std::io::Error| StoreError::Unavailable(format!("cannot start a thread: {error}"));
        let (writer, mut threads) = Writer::start(connection, log_file, Instance::new(path)).map_err(threads_failed)?;
        let writer = Arc::new(writer);
        let stop = Arc::new(AtomicBool::new(false));
        let (changes, receiver) = watch::channel(0);
        let pulse =
            Pulse { connection: pulse_connection, log, writer: Arc::clone(&writer), changes, stop: Arc::clone(&stop) };
        threads.push(pulse.start().map_err(threads_failed)?);
        Ok(Self {
            writer,
            readers: Readers::new(path.to_owned()),
            changes: receiver,
            stop,
            threads: Mutex::new(threads),
        })
    }

    /// The schema that files of this program have.
    pub fn schema_version() -> i32 {
        migrations::newest()
    }

    /// Runs a write and waits until it is on disk.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &mut Instance) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |connection, instance| match work(connection, instance) {
            Ok(value) => Step::KeepDurably(Box::new(move |committed| {
                let _ = answer.send(committed.map(|()| value));
            })),
            Err(error) => Step::Undo(Box::new(move |_| {
                let _ = answer.send(Err(error));
            })),
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    /// Runs the write that ends a turn. If it fails, the turn is given up: whoever comes next takes its lease over and records it as
    /// interrupted.
    async fn end<T: Send + 'static>(
        &self,
        lease: Lease,
        work: impl FnOnce(&Connection, &mut Instance) -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let held = Held { writer: Arc::clone(&self.writer), lease, ended: false };
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |connection, instance| match work(connection, instance) {
            Ok(value) => Step::KeepDurably(Box::new(move |committed| {
                held.settle(committed.is_ok());
                let _ = answer.send(committed.map(|()| value));
            })),
            Err(error) => {
                // A turn that was asked to stop has yet to be ended otherwise.
                held.settle(error == StoreError::StopRequested);
                Step::Undo(Box::new(move |_| {
                    let _ = answer.send(Err(error));
                }))
            }
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    fn not_taken(&self) -> StoreError {
        if self.stop.load(Ordering::Acquire) {
            return StoreError::Closed;
        }
        StoreError::Unavailable("the database did not take the write".to_owned())
    }

    fn write_lazily(&self, work: impl FnOnce(&Connection) -> Outcome<()> + Send + 'static) {
        self.writer.submit_lazy(move |connection, _| match work(connection) {
            Ok(()) => Step::Keep(Box::new(|_| {})),
            Err(error) => {
                tracing::warn!(%error, "a note on a turn was not written");
                Step::Undo(Box::new(|_| {}))
            }
        });
    }
}

/// Makes the names of the database and its log durable, for syncing the log's contents alone is not enough while it is new. The
/// database itself must never be opened past SQLite: closing it again would drop the locks that SQLite holds on it.
fn sync_names(path: &Path, log: &File) -> std::io::Result<()> {
    log.sync_all()?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// Lets a turn go unless the write that ends it has happened.
struct Held {
    writer: Arc<Writer>,
    lease: Lease,
    ended: bool,
}

impl Held {
    fn settle(mut self, ended: bool) {
        self.ended = ended;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.ended {
            self.writer.give_up(self.lease);
        }
    }
}

impl Drop for SqliteStore {
    /// What was asked for is still finished, as long as the process lives; [`Store::close`] waits for it.
    fn drop(&mut self) {
        self.readers.close();
        self.stop.store(true, Ordering::Release);
        self.writer.stop();
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn ensure_tenant(&self, name: &str, now: Timestamp) -> Result<TenantId, StoreError> {
        let name = name.to_owned();
        let wanted = name.clone();
        if let Some(found) = self.readers.read(move |connection| keys::find_tenant(connection, &wanted)).await? {
            return Ok(found);
        }
        self.write(move |connection, _| keys::ensure_tenant(connection, &name, now)).await
    }

    async fn create_key(&self, key: NewApiKey) -> Result<(), StoreError> {
        self.write(move |connection, _| keys::create(connection, &key)).await
    }

    async fn keys(&self) -> Result<Vec<ApiKeyRow>, StoreError> {
        self.readers.read(keys::list).await
    }

    async fn revoke_key(&self, id: ApiKeyId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |connection, _| keys::revoke(connection, id, now)).await
    }

    async fn principal_of(&self, hash: KeyHash) -> Result<Option<Principal>, StoreError> {
        self.readers.read(move |connection| keys::principal_of(connection, hash)).await
    }

    async fn open(&self, scope: &Scope, alias: &Alias, namespace: Namespace) -> Result<Option<Snapshot>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.readers.read(move |connection| snapshot::open(connection, &scope, &alias, namespace)).await
    }

    async fn admit(&self, admission: Admission) -> Result<AdmitOutcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |connection, instance| {
            let mut outcome = match admit::admit(connection, instance, &admission) {
                outcome @ (Ok(AdmitOutcome::Refused(_)) | Err(_)) => {
                    return Step::Undo(Box::new(move |_| {
                        let _ = answer.send(outcome);
                    }));
                }
                Ok(outcome) => outcome,
            };
            let durable = match &mut outcome {
                AdmitOutcome::Running(running) if admission.durability == Durability::Now => {
                    let (durable, promise) = receipt();
                    running.durable = promise;
                    Some(durable)
                }
                _ => None,
            };
            let committed: Finish = Box::new(move |committed| {
                let _ = answer.send(committed.map(|()| outcome));
            });
            match durable {
                None => Step::Keep(committed),
                Some(durable) => Step::KeepThenDurably(
                    committed,
                    Box::new(move |synced| {
                        let _ = durable.send(synced);
                    }),
                ),
            }
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.end(commit.lease, move |connection, instance| commit::commit(connection, instance, &commit)).await
    }

    fn abandon(&self, lease: Lease) {
        // To other processes this one is alive, so it ends the turn itself as far as it can.
        self.writer.submit_lazy(move |connection, instance| {
            instance.let_go(lease);
            pulse::keep(pulse::sweep(connection, instance, pulse::now()))
        });
    }

    async fn retract(&self, lease: Lease) -> Result<(), StoreError> {
        self.end(lease, move |connection, instance| retract::retract(connection, instance, lease)).await
    }

    async fn withdraw(&self, scope: &Scope, turn: TurnId) -> Result<(), StoreError> {
        let scope = scope.clone();
        self.write(move |connection, instance| queue::withdraw(connection, instance, &scope, turn)).await
    }

    fn journal(&self, lease: Lease, text: String) {
        self.write_lazily(move |connection| takeover::append_journal(connection, lease.turn, lease.fence.0, &text));
    }

    fn mark_delivered(&self, tenant: TenantId, turn: TurnId) {
        self.write_lazily(move |connection| commit::mark_delivered(connection, tenant, turn));
    }

    async fn turn(&self, scope: &Scope, id: TurnId) -> Result<Option<TurnRecord>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| turns::turn(connection, &scope, id)).await
    }

    async fn stop_requests(&self) -> Result<Vec<TurnId>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |_, instance| {
            let _ = answer.send(instance.live.keys().copied().collect::<Vec<_>>());
            Step::Keep(Box::new(|_| {}))
        });
        let live = answered.await.map_err(|_| self.not_taken())?;
        self.readers.read(move |connection| turns::stop_requests(connection, &live)).await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn conversation(
        &self,
        scope: &Scope,
        alias: &Alias,
        pin: Pin,
    ) -> Result<Option<ConversationRow>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.readers.read(move |connection| listing::conversation(connection, &scope, &alias, pin)).await
    }

    async fn conversations(&self, scope: &Scope, filter: ListFilter) -> Result<Page<ConversationRow>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| listing::conversations(connection, &scope, &filter)).await
    }

    async fn messages(
        &self,
        scope: &Scope,
        alias: &Alias,
        range: MessageRange,
    ) -> Result<Option<MessagePage>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.readers.read(move |connection| listing::messages(connection, &scope, &alias, range)).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        // A transaction that writes nothing still has to get the write lock and a log that can be synced.
        self.write(|_, _| Ok(())).await
    }

    async fn close(&self) {
        // One after the other, and the writer last: the last connection to close empties the log into the database, which one that only
        // reads cannot, and which none does if two close at the same moment.
        self.readers.close();
        self.stop.store(true, Ordering::Release);
        let mut threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let writer = Arc::clone(&self.writer);
        let ended = tokio::task::spawn_blocking(move || {
            if let Some(pulse) = threads.pop() {
                pulse.thread().unpark();
                let _ = pulse.join();
            }
            writer.stop();
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        let _ = ended.await;
    }
}
