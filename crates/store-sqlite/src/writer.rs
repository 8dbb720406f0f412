//! What writes: one pen, held by one thread at a time, and the thread that makes writes durable.
//!
//! Work waits for the writer thread, which drains what has gathered, runs it as one transaction with a savepoint a job, and commits without waiting
//! for the disk. The work of a turn that is alone takes the pen itself while nobody else has it and nothing waits: then no other thread has to
//! wake up, which would cost more than the transaction. Jobs that promise durability are handed to the sync thread, which syncs the write-ahead log once for
//! all that have gathered; when no turn is left, the writer thread syncs by itself. A commit is therefore visible to every process at once and
//! durable a moment later; who waits for durability is told only then.

mod write_connection;

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use herma_store::{Lease, StoreError};
use rusqlite::Connection;

use self::write_connection::{Syncing, WriteConnection};
use crate::erasures::Erasures;
use crate::failure::StoreResult;
use crate::instance::Instance;
use crate::sync::{self, Log};

/// Most jobs in one transaction.
const BATCH_JOBS: usize = 256;
/// How long work that nobody waits for may lie before it gets a transaction of its own.
const LAZY_WAIT: Duration = Duration::from_millis(20);
/// Pause before another transaction is tried after one could not begin. It doubles up to the longest one.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Told how the transaction that a job was part of ended.
pub(crate) type Finish = Box<dyn FnOnce(StoreResult<()>) + Send>;

/// What a job did inside its savepoint.
pub(crate) enum Step {
    /// Keep it; say so when the transaction is committed.
    Keep(Finish),
    /// Keep it; say so when it is on disk.
    KeepDurably(Finish),
    /// Keep it; say so when the transaction is committed, and once more when it is on disk.
    KeepThenDurably(Finish, Finish),
    /// Undo it; say so at once.
    Undo(Finish),
}

/// What becomes of work when no transaction can begin, because the database is locked or away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It is refused, and its caller is told.
    Refused,
    /// It keeps its place in the queue until a transaction begins or the store is closed.
    Kept,
}

type Run = dyn FnOnce(&Connection, &mut Instance) -> Step + Send;

struct Work {
    run: Box<Run>,
    patience: Patience,
}

impl Work {
    fn new(patience: Patience, run: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) -> Self {
        Self { run: Box::new(run), patience }
    }
}

enum Job {
    Work(Work),
    GiveUp(Lease),
    Checkpoint,
    Truncate(u64),
}

/// The way to the pen.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// How many turns of this process run or wait.
    pub(crate) live: Arc<AtomicUsize>,
    pub(crate) erasures: Arc<Erasures>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Something came that the writer thread has to do.
    came: Condvar,
    /// Nothing once the store is closed. Never asked for by who holds the queue.
    write_connection: Mutex<Option<WriteConnection>>,
}

/// What waits for the writer thread.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// What nobody waits for, and came after the jobs.
    lazy: Vec<Work>,
    /// When the first of that came.
    lazy_since: Option<Instant>,
    /// Whether the writer thread knows that there is such work.
    watched: bool,
    /// Whether the writer thread sleeps.
    sleeping: bool,
    /// Whether no more will come.
    closed: bool,
}

impl Queue {
    /// Has everything that came so far be done in the order it came: whoever asks later finds what was noted before, an answer's delivery say.
    fn push(&mut self, job: Job) {
        let noted = self.take_lazy();
        self.jobs.extend(noted.map(Job::Work));
        self.jobs.push_back(job);
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.lazy.is_empty()
    }

    fn take_lazy(&mut self) -> std::vec::IntoIter<Work> {
        self.lazy_since = None;
        std::mem::take(&mut self.lazy).into_iter()
    }

    /// Puts back what was taken out, before all that came since.
    fn put_back(&mut self, batch: VecDeque<Work>) {
        for work in batch.into_iter().rev() {
            self.jobs.push_front(Job::Work(work));
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the writer thread, which is a system call, if it sleeps.
    fn wake(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.sleeping) {
            self.came.notify_one();
        }
    }
}

impl Writer {
    /// Starts both threads.
    pub(crate) fn start(
        connection: Connection,
        log: File,
        instance: Instance,
    ) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (syncs, sync_queue) = channel();
        let live = Arc::new(AtomicUsize::new(0));
        let log = Arc::new(Log::new(log));
        let behind = Arc::clone(&log);
        let sync =
            std::thread::Builder::new().name("herma-sync".into()).spawn(move || sync::run(&behind, &sync_queue))?;
        let erasures = Arc::new(Erasures::default());
        let write_connection = WriteConnection {
            connection,
            instance,
            log,
            live: Arc::clone(&live),
            erasures: Arc::clone(&erasures),
            syncs,
        };
        let (queue, came) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { queue, came, write_connection: Mutex::new(Some(write_connection)) });
        let own = Arc::clone(&shared);
        let write = std::thread::Builder::new().name("herma-write".into()).spawn(move || own.run())?;
        Ok((Self { shared, live, erasures }, vec![write, sync]))
    }

    /// Queues work that somebody waits for.
    pub(crate) fn submit(&self, work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) {
        self.enqueue(Job::Work(Work::new(Patience::Refused, work)));
    }

    /// Does work of a turn, which takes no longer than it takes to wake a thread up: at once if the turn is alone and nothing is in its way. The
    /// work of several is better done together.
    pub(crate) fn submit_short(
        &self,
        patience: Patience,
        work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static,
    ) {
        let work = Work::new(patience, work);
        let is_alone = self.live.load(Ordering::Acquire) <= 1;
        let left = if is_alone { self.shared.write_here(work) } else { Some(work) };
        if let Some(work) = left {
            self.enqueue(Job::Work(work));
        }
    }

    /// Queues work that nobody waits for: it rides with the next transaction.
    pub(crate) fn submit_lazy(
        &self,
        patience: Patience,
        work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static,
    ) {
        let mut queue = self.shared.queue();
        if queue.closed {
            return;
        }
        queue.lazy.push(Work::new(patience, work));
        queue.lazy_since.get_or_insert_with(Instant::now);
        if !std::mem::replace(&mut queue.watched, true) {
            self.shared.wake(&mut queue);
        }
    }

    /// Says that nobody will end this turn of ours: whoever comes next takes its lease over. Needs no transaction, so it
    /// works when the database does not.
    pub(crate) fn give_up(&self, lease: Lease) {
        self.enqueue(Job::GiveUp(lease));
    }

    /// Lets the log start over, after somebody else has copied most of it into the database.
    pub(crate) fn restart_log(&self) {
        self.enqueue(Job::Checkpoint);
    }

    /// Empties the log's file. The caller has copied most of it into the database before.
    pub(crate) fn truncate_log(&self) {
        self.enqueue(Job::Truncate(self.erasures.asked()));
    }

    /// Ends both threads once everything queued is done.
    pub(crate) fn stop(&self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        self.shared.wake(&mut queue);
    }

    fn enqueue(&self, job: Job) {
        let mut queue = self.shared.queue();
        // A closed queue drops the work, and with it the channel its caller waits on, which says that the store is closed.
        if !queue.closed {
            queue.push(job);
            self.shared.wake(&mut queue);
        }
    }
}

impl Shared {
    /// Writes on the calling thread, with what nobody waits for, unless somebody else writes or something waits: then the work is given back.
    fn write_here(&self, work: Work) -> Option<Work> {
        let Ok(mut held) = self.write_connection.try_lock() else { return Some(work) };
        let Some(write_connection) = held.as_mut() else { return Some(work) };
        let mut batch: VecDeque<Work> = {
            let mut queue = self.queue();
            if queue.closed || !queue.jobs.is_empty() {
                return Some(work);
            }
            queue.take_lazy().collect()
        };
        batch.push_back(work);
        // Another process may write: to wait for it is the writer thread's.
        if write_connection.begin_at_once() {
            // This thread may be the one that everybody's connections wait for: it must not wait for the disk.
            write_connection.transact(&mut batch, Syncing::Behind);
        }
        if !batch.is_empty() {
            let mut queue = self.queue();
            queue.put_back(batch);
            self.wake(&mut queue);
        }
        None
    }

    /// Writes what waits until no more will come.
    fn run(&self) {
        let mut batch = VecDeque::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let goes_on = self.wait();
            let mut held = self.write_connection.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever had the pen until now may have put something back.
            if !goes_on && self.queue().is_empty() {
                *held = None;
                return;
            }
            let Some(write_connection) = held.as_mut() else { return };
            self.take(write_connection, &mut batch);
            if batch.is_empty() {
                continue;
            }
            if let Err(error) = write_connection.begin() {
                drop(held);
                self.postpone(&mut batch, &error, pause);
                pause = (2 * pause).min(LONGEST_PAUSE);
                continue;
            }
            pause = FIRST_PAUSE;
            write_connection.transact(&mut batch, Syncing::HereIfAlone);
            self.queue().put_back(std::mem::take(&mut batch));
        }
    }

    /// Called when no transaction could begin: puts work back that is kept, refuses the rest, and pauses. A closed
    /// store keeps nothing.
    fn postpone(&self, batch: &mut VecDeque<Work>, error: &StoreError, pause: Duration) {
        let mut queue = self.queue();
        let is_closed = queue.closed;
        let (kept, refused): (VecDeque<Work>, VecDeque<Work>) =
            batch.drain(..).partition(|work| work.patience == Patience::Kept && !is_closed);
        let waiting = kept.len();
        queue.put_back(kept);
        drop(queue);
        tracing::warn!(%error, waiting, refused = refused.len(), "the database takes no writes now; those that wait are tried again");
        // Dropping work drops the channel that its caller waits on.
        drop(refused);
        if waiting > 0 {
            std::thread::sleep(pause);
        }
    }

    /// Waits for something worth a transaction. False when everything is done and no more will come.
    fn wait(&self) -> bool {
        let mut queue = self.queue();
        loop {
            if !queue.jobs.is_empty() {
                return true;
            }
            let lies = queue.lazy_since.map(|since| since.elapsed());
            queue = match lies {
                Some(lies) if lies >= LAZY_WAIT || queue.closed => return true,
                None if queue.closed => return false,
                Some(lies) => {
                    queue.sleeping = true;
                    let waited = self.came.wait_timeout(queue, LAZY_WAIT - lies);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    (queue.sleeping, queue.watched) = (true, false);
                    self.came.wait(queue).unwrap_or_else(PoisonError::into_inner)
                }
            };
            queue.sleeping = false;
        }
    }

    /// Takes what waits, as much as goes into one transaction, and does what needs none.
    fn take(&self, write_connection: &mut WriteConnection, batch: &mut VecDeque<Work>) {
        let mut queue = self.queue();
        while batch.len() < BATCH_JOBS {
            match queue.jobs.pop_front() {
                Some(Job::Work(work)) => batch.push_back(work),
                Some(Job::GiveUp(lease)) => write_connection.instance.let_go(lease),
                Some(Job::Checkpoint) => {
                    drop(queue);
                    write_connection.restart_log();
                    queue = self.queue();
                }
                Some(Job::Truncate(erasures)) => {
                    drop(queue);
                    write_connection.truncate_log(erasures);
                    queue = self.queue();
                }
                None => {
                    batch.extend(queue.take_lazy());
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
