//! All writes: one write connection, used by one thread at a time, and the thread that makes writes durable.
//!
//! Jobs wait in a queue. Who takes them and runs them as one transaction:
//!
//! - the calling thread, if this process has at most one turn, the connection is free and no job waits;
//! - a task of the async runtime ([`combiner`]), for short jobs of several turns;
//! - the writer thread, for all other jobs, and where the others would have to wait.
//!
//! To wake a thread would take longer than a short transaction. All of them commit without waiting for the disk.
//! [`write_connection`] says how the writes of one job are undone without those of the others.
//!
//! Jobs that must be durable go to the sync thread. It syncs the write-ahead log once for all jobs that have gathered.
//! If no turn is left, the writer thread syncs by itself.
//!
//! So a commit is visible to every process at once and durable a moment later. A caller that needs durability gets its
//! answer only after the sync.
//!
//! Lock order: the connection, then the queue. Only the writer thread may wait for the connection.

mod combiner;
mod job;
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
use tokio::runtime::Handle;

pub(crate) use self::job::{Answer, Callback, JobOutcome, WhenUnavailable};
use self::job::{Job, Work};
use self::write_connection::{Syncing, WriteConnection};
use crate::erase::counts::Erasures;
use crate::instance::Instance;
use crate::sync::{self, Log};

/// The largest number of jobs in one transaction.
const BATCH_JOBS: usize = 256;
/// How long lazy work may wait before it gets a transaction of its own.
const LAZY_WAIT: Duration = Duration::from_millis(20);
/// How long jobs wait for a combiner whose thread is busy. Then the writer thread takes them.
const COMBINER_WAIT: Duration = Duration::from_millis(50);
/// Pause after a transaction could not begin. It doubles with each failure, up to [`LONGEST_PAUSE`].
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Queues work for the write connection.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// How many turns of this process run or wait.
    pub(crate) live: Arc<AtomicUsize>,
    pub(crate) erasures: Arc<Erasures>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when the writer thread has something to do.
    work_came: Condvar,
    /// `None` once the store is closed. Never lock this while holding `queue`.
    write_connection: Mutex<Option<WriteConnection>>,
}

/// What waits to be written.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Work that no caller waits for. It came after all `jobs`.
    lazy: Vec<Work>,
    /// When the oldest lazy work came.
    lazy_since: Option<Instant>,
    /// Whether the writer thread knows that there is lazy work.
    watched: bool,
    /// Whether the writer thread sleeps. If not, it will look at the queue again.
    sleeping: bool,
    /// Since when a [`combiner`] is to write the jobs at the front. `None` if there is no combiner. It ends only when
    /// the queue is empty or the writer thread is woken.
    combining: Option<Instant>,
    /// The runtime that had a combiner last.
    runtime: Option<Handle>,
    /// Whether the store is closed, so that no more jobs are accepted.
    closed: bool,
}

impl Queue {
    /// Queues a job behind all earlier work, lazy work included. So a later request finds what was noted before it, for
    /// example the delivery of an answer.
    fn push(&mut self, job: Job) {
        let noted = self.take_lazy();
        self.jobs.extend(noted.map(Job::Work));
        self.jobs.push_back(job);
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.lazy.is_empty()
    }

    /// How long the jobs at the front may still wait for the combiner. `None` if there is none, or if its thread is so
    /// busy that it does not run.
    fn combiner_wait(&self) -> Option<Duration> {
        COMBINER_WAIT.checked_sub(self.combining?.elapsed()).filter(|left| !left.is_zero())
    }

    fn take_lazy(&mut self) -> std::vec::IntoIter<Work> {
        self.lazy_since = None;
        std::mem::take(&mut self.lazy).into_iter()
    }

    /// Puts work back in front of everything that came since.
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

    /// Wakes the writer thread if it sleeps. That is a system call.
    fn wake(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.sleeping) {
            self.work_came.notify_one();
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
            ran: Vec::new(),
        };
        let (queue, work_came) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { queue, work_came, write_connection: Mutex::new(Some(write_connection)) });
        let own = Arc::clone(&shared);
        let write = std::thread::Builder::new().name("herma-write".into()).spawn(move || own.run())?;
        Ok((Self { shared, live, erasures }, vec![write, sync]))
    }

    /// Queues work whose caller waits for the outcome.
    pub(crate) fn submit(&self, work: impl FnOnce(&Connection, &mut Instance) -> JobOutcome + Send + 'static) {
        self.enqueue(Job::Work(Work::once(WhenUnavailable::Refuse, work)));
    }

    /// Does a turn's short work, which may have to run again. It runs on this thread if the turn is the only one and
    /// nothing blocks it. Else it is queued, because one transaction for several turns is cheaper.
    pub(crate) fn submit_short(
        &self,
        when_unavailable: WhenUnavailable,
        work: impl FnMut(&Connection, &mut Instance) -> JobOutcome + Send + 'static,
    ) {
        let work = Work::repeatable(when_unavailable, work);
        let is_alone = self.live.load(Ordering::Acquire) <= 1;
        let left = if is_alone { self.shared.write_here(work) } else { Some(work) };
        if let Some(work) = left {
            self.shared.enqueue_short(work);
        }
    }

    /// Queues work that no caller waits for: it is written with the next transaction.
    pub(crate) fn submit_lazy(
        &self,
        when_unavailable: WhenUnavailable,
        work: impl FnOnce(&Connection, &mut Instance) -> JobOutcome + Send + 'static,
    ) {
        self.enqueue_lazily(Work::once(when_unavailable, work));
    }

    /// The same, for work that may have to run again.
    pub(crate) fn submit_lazy_again(
        &self,
        when_unavailable: WhenUnavailable,
        work: impl FnMut(&Connection, &mut Instance) -> JobOutcome + Send + 'static,
    ) {
        self.enqueue_lazily(Work::repeatable(when_unavailable, work));
    }

    fn enqueue_lazily(&self, work: Work) {
        let mut queue = self.shared.queue();
        if queue.closed {
            return;
        }
        queue.lazy.push(work);
        queue.lazy_since.get_or_insert_with(Instant::now);
        if !std::mem::replace(&mut queue.watched, true) {
            self.shared.wake(&mut queue);
        }
    }

    /// Marks a turn of this process as given up: the next admission or sweep takes over its lease. Needs no
    /// transaction, so it works even if the database does not.
    pub(crate) fn give_up(&self, lease: Lease) {
        self.enqueue(Job::GiveUp(lease));
    }

    /// Restarts the log at its beginning. The caller has copied most of it into the database before.
    pub(crate) fn restart_log(&self) {
        self.enqueue(Job::Checkpoint);
    }

    /// Truncates the log's file. The caller has copied most of it into the database before.
    pub(crate) fn truncate_log(&self) {
        self.enqueue(Job::Truncate(self.erasures.total()));
    }

    /// Wakes the writer thread if jobs wait for a combiner that does not run. Called now and then, because the next job
    /// may be far away.
    pub(crate) fn look_after_combiner(&self) {
        let mut queue = self.shared.queue();
        if !queue.jobs.is_empty() && queue.combining.is_some() && queue.combiner_wait().is_none() {
            self.shared.wake(&mut queue);
        }
    }

    /// Ends both threads once everything queued is done.
    pub(crate) fn stop(&self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        self.shared.wake(&mut queue);
    }

    /// Calls `report` with each statement of the write connection from now on.
    #[cfg(test)]
    pub(crate) fn trace(&self, report: impl FnMut(rusqlite::trace::TraceEvent<'_>) + Send + 'static) {
        let mut held = self.shared.write_connection.lock().unwrap();
        let codes = rusqlite::trace::TraceEventCodes::SQLITE_TRACE_STMT;
        held.as_mut().unwrap().connection.trace_v2(codes, Some(report)).unwrap();
    }

    fn enqueue(&self, job: Job) {
        let mut queue = self.shared.queue();
        // A closed queue drops the work, and with it the channel that its caller waits on. The caller then reports that
        // the store is closed.
        if !queue.closed {
            queue.push(job);
            self.shared.wake(&mut queue);
        }
    }
}

impl Shared {
    /// Writes on the calling thread, together with the lazy work. Returns the work if another thread writes or jobs
    /// wait.
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
        // If another process writes, the writer thread waits for it, not this thread.
        if write_connection.begin_at_once() {
            // This may be an async thread that serves all connections, so it must not wait for the disk.
            write_connection.transact(&mut batch, Syncing::Behind);
        }
        if !batch.is_empty() {
            let mut queue = self.queue();
            queue.put_back(batch);
            self.wake(&mut queue);
        }
        None
    }

    /// The writer thread: writes what is queued until the store is closed and the queue is empty.
    fn run(self: &Arc<Self>) {
        let mut batch = VecDeque::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let goes_on = self.wait();
            let mut held = self.write_connection.lock().unwrap_or_else(PoisonError::into_inner);
            // The thread that wrote before this one may have put work back.
            if !goes_on && self.queue().is_empty() {
                held.take().into_iter().for_each(WriteConnection::close);
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
            drop(held);
            self.queue().put_back(std::mem::take(&mut batch));
            self.hand_back();
        }
    }

    /// Called when no transaction could begin: puts back the work that may wait, drops the rest, and pauses. A closed
    /// store puts nothing back.
    fn postpone(&self, batch: &mut VecDeque<Work>, error: &StoreError, pause: Duration) {
        let mut queue = self.queue();
        let is_closed = queue.closed;
        let (kept, refused): (VecDeque<Work>, VecDeque<Work>) =
            batch.drain(..).partition(|work| work.when_unavailable == WhenUnavailable::Wait && !is_closed);
        let waiting = kept.len();
        queue.put_back(kept);
        drop(queue);
        tracing::warn!(
            %error, waiting, refused = refused.len(),
            "the database takes no writes now; those that wait are tried again"
        );
        // Dropping work drops the channel that its caller waits on.
        drop(refused);
        if waiting > 0 {
            std::thread::sleep(pause);
        }
    }

    /// Waits until there is work for a transaction. `false` if the store is closed and the queue is empty.
    fn wait(&self) -> bool {
        let mut queue = self.queue();
        loop {
            let combiner = if queue.jobs.is_empty() { None } else { queue.combiner_wait() };
            // A closed store ends also if its combiner is never run again.
            if !queue.jobs.is_empty() && (combiner.is_none() || queue.closed) {
                return true;
            }
            let age = queue.lazy_since.map(|since| since.elapsed());
            let lazy = match age {
                Some(age) if age >= LAZY_WAIT || queue.closed => return true,
                None if queue.closed => return false,
                age => age.map(|age| LAZY_WAIT - age),
            };
            queue = match lazy.into_iter().chain(combiner).min() {
                Some(longest) => {
                    queue.sleeping = true;
                    let waited = self.work_came.wait_timeout(queue, longest);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    (queue.sleeping, queue.watched) = (true, false);
                    self.work_came.wait(queue).unwrap_or_else(PoisonError::into_inner)
                }
            };
            queue.sleeping = false;
        }
    }

    /// Moves jobs into `batch`, at most [`BATCH_JOBS`]. Does at once those that need no transaction.
    fn take(&self, write_connection: &mut WriteConnection, batch: &mut VecDeque<Work>) {
        let mut queue = self.queue();
        while batch.len() < BATCH_JOBS {
            match queue.jobs.pop_front() {
                Some(Job::Work(work)) => batch.push_back(work),
                Some(Job::GiveUp(lease)) => write_connection.instance.forget_given_up(lease),
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
