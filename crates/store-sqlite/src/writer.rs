//! What writes: one pen, held by one thread at a time, and the thread that makes writes durable.
//!
//! Work waits for the writer thread, which drains what has gathered, runs it as one transaction with a savepoint a job, and commits without waiting
//! for the disk. The work of a turn that is alone takes the pen itself while nobody else has it and nothing waits: then no other thread has to
//! wake up, which would cost more than the transaction. Jobs that promise durability are handed to the sync thread, which syncs the write-ahead log once for
//! all that have gathered; when no turn is left, whoever has the pen syncs. A commit is therefore visible to every process at once and
//! durable a moment later; who waits for durability is told only then.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use herma_store::{Lease, StoreError};
use rusqlite::Connection;

use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::open::BUSY_TIMEOUT;
use crate::sync::{self, Log};

/// Most jobs in one transaction.
const BATCH_JOBS: usize = 256;
/// Longest time one transaction keeps other processes waiting.
const BATCH_TIME: Duration = Duration::from_millis(5);
/// How long work that nobody waits for may lie before it gets a transaction of its own.
const LAZY_WAIT: Duration = Duration::from_millis(20);
/// How long readers may keep the log from starting over; then it goes on growing until the next time.
const RESTART_WAIT: Duration = Duration::from_millis(20);

/// Told how the transaction that a job was part of ended.
pub(crate) type Finish = Box<dyn FnOnce(Outcome<()>) + Send>;

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

type Work = Box<dyn FnOnce(&Connection, &mut Instance) -> Step + Send>;

enum Job {
    Work(Work),
    GiveUp(Lease),
    Checkpoint,
}

/// The way to the pen.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// How many turns of this process run or wait.
    pub(crate) live: Arc<AtomicUsize>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Something came that the writer thread has to do.
    came: Condvar,
    /// Nothing once the store is closed. Never asked for by who holds the queue.
    pen: Mutex<Option<Pen>>,
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
        let pen = Pen { connection, instance, log, live: Arc::clone(&live), syncs };
        let (queue, came) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { queue, came, pen: Mutex::new(Some(pen)) });
        let own = Arc::clone(&shared);
        let write = std::thread::Builder::new().name("herma-write".into()).spawn(move || own.run())?;
        Ok((Self { shared, live }, vec![write, sync]))
    }

    /// Queues work that somebody waits for.
    pub(crate) fn submit(&self, work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) {
        self.enqueue(Job::Work(Box::new(work)));
    }

    /// Does work of a turn, which takes no longer than it takes to wake a thread up: at once if the turn is alone and nothing is in its way. The
    /// work of several is better done together.
    pub(crate) fn submit_short(&self, work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) {
        let work: Work = Box::new(work);
        let is_alone = self.live.load(Ordering::Acquire) <= 1;
        let left = if is_alone { self.shared.write_here(work) } else { Some(work) };
        if let Some(work) = left {
            self.enqueue(Job::Work(work));
        }
    }

    /// Queues work that nobody waits for: it rides with the next transaction.
    pub(crate) fn submit_lazy(&self, work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) {
        let mut queue = self.shared.queue();
        if queue.closed {
            return;
        }
        queue.lazy.push(Box::new(work));
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
        let Ok(mut held) = self.pen.try_lock() else { return Some(work) };
        let Some(pen) = held.as_mut() else { return Some(work) };
        let mut batch: VecDeque<Work> = {
            let mut queue = self.queue();
            if queue.closed || !queue.jobs.is_empty() {
                return Some(work);
            }
            queue.take_lazy().collect()
        };
        batch.push_back(work);
        // Another process may write: to wait for it is the writer thread's.
        if pen.begin_at_once() {
            pen.transact(&mut batch);
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
        while self.wait() {
            let mut held = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(pen) = held.as_mut() else { return };
            self.take(pen, &mut batch);
            if batch.is_empty() {
                continue;
            }
            if let Err(error) = pen.execute("BEGIN IMMEDIATE") {
                batch.drain(..).for_each(|work| refuse(work, &error));
                continue;
            }
            pen.transact(&mut batch);
            self.queue().put_back(std::mem::take(&mut batch));
        }
        *self.pen.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
    fn take(&self, pen: &mut Pen, batch: &mut VecDeque<Work>) {
        let mut queue = self.queue();
        while batch.len() < BATCH_JOBS {
            match queue.jobs.pop_front() {
                Some(Job::Work(work)) => batch.push_back(work),
                Some(Job::GiveUp(lease)) => pen.instance.let_go(lease),
                Some(Job::Checkpoint) => {
                    drop(queue);
                    pen.restart_log();
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

/// The connection that writes, and what is known of this process's turns.
struct Pen {
    connection: Connection,
    instance: Instance,
    log: Arc<Log>,
    live: Arc<AtomicUsize>,
    syncs: Sender<Vec<Finish>>,
}

impl Pen {
    fn restart_log(&self) {
        let _ = self.connection.busy_timeout(RESTART_WAIT);
        let restarted = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        tracing::debug!(?restarted, "log restarted");
    }

    /// Begins a transaction unless another process has one.
    fn begin_at_once(&self) -> bool {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let begun = self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        begun.is_ok()
    }

    /// Runs jobs from the front in the transaction that has begun; leaves in the batch what no longer fitted into its time.
    fn transact(&mut self, batch: &mut VecDeque<Work>) {
        let began = Instant::now();
        let before = self.instance.mark();
        let mut kept: Vec<Finish> = Vec::new();
        let mut durable: Vec<Finish> = Vec::new();
        let mut intact = Ok(());
        while let Some(work) = batch.pop_front() {
            let step;
            (step, intact) = self.in_savepoint(work);
            match step {
                Step::Keep(finish) => kept.push(finish),
                Step::KeepDurably(finish) => durable.push(finish),
                Step::KeepThenDurably(committed, synced) => {
                    kept.push(committed);
                    durable.push(synced);
                }
                Step::Undo(finish) => finish(Ok(())),
            }
            if intact.is_err() || began.elapsed() > BATCH_TIME {
                break;
            }
        }
        let committed = intact.and_then(|()| self.execute("COMMIT"));
        if committed.is_err() {
            let _ = self.connection.execute_batch("ROLLBACK");
            self.instance.restore(before);
            self.instance.reload_live(&self.connection);
        }
        self.live.store(self.instance.live.len(), Ordering::Release);
        if let Err(error) = committed {
            for finish in kept.into_iter().chain(durable) {
                finish(Err(error.clone()));
            }
            return;
        }
        for finish in kept {
            finish(Ok(()));
        }
        if durable.is_empty() {
            return;
        }
        if self.instance.live.is_empty() {
            // Nobody else is on the way: a lone client need not wait for another thread to wake up.
            self.log.sync_for(durable);
        } else {
            let _ = self.syncs.send(durable);
        }
    }

    /// Runs one job. The second answer is an error if the transaction around it is no longer whole: a full or failing disk makes SQLite
    /// roll back all of it, and what follows would be written without one.
    fn in_savepoint(&mut self, work: Work) -> (Step, Outcome<()>) {
        if let Err(error) = self.execute("SAVEPOINT job") {
            refuse(work, &error);
            return (Step::Undo(Box::new(|_| {})), Err(error));
        }
        let before = self.instance.mark();
        let step = work(&self.connection, &mut self.instance);
        if self.connection.is_autocommit() {
            let broken =
                StoreError::Unavailable("the database broke the transaction off; is the disk full?".to_owned());
            return (step, Err(broken));
        }
        let undone = if matches!(step, Step::Undo(_)) {
            self.instance.restore(before);
            self.execute("ROLLBACK TO job")
        } else {
            Ok(())
        };
        (step, undone.and_then(|()| self.execute("RELEASE job")))
    }

    fn execute(&self, sql: &str) -> Outcome<()> {
        self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map(drop).translated()
    }
}

/// Dropping the work drops the channel its caller waits on; the reason goes to the log.
fn refuse(work: Work, error: &StoreError) {
    tracing::error!(%error, "a write could not begin");
    drop(work);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    type Answers = mpsc::Receiver<(&'static str, Outcome<()>)>;

    /// A writer that waits at its first job until the returned sender is dropped, so that what is submitted meanwhile is one batch.
    fn held_writer(directory: &std::path::Path) -> (Writer, Vec<JoinHandle<()>>, mpsc::Sender<()>) {
        let path = directory.join("test.db");
        let connection = crate::open::writer(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE notes (text TEXT NOT NULL); PRAGMA max_page_count = 40; PRAGMA cache_size = 10",
            )
            .unwrap();
        let log = File::options().write(true).open(crate::open::log_path(&path)).unwrap();
        let (writer, threads) = Writer::start(connection, log, Instance::new(&path)).unwrap();
        let (held, hold) = mpsc::channel::<()>();
        writer.submit(move |_, _| {
            let _ = hold.recv();
            Step::Keep(Box::new(|_| {}))
        });
        (writer, threads, held)
    }

    fn note(writer: &Writer, answers: &mpsc::Sender<(&'static str, Outcome<()>)>, name: &'static str, text: String) {
        let answers = answers.clone();
        writer.submit(move |connection, _| {
            match connection.execute("INSERT INTO notes VALUES (?1)", [text]).translated() {
                Ok(_) => Step::Keep(Box::new(move |committed| drop(answers.send((name, committed))))),
                Err(error) => Step::Undo(Box::new(move |_| drop(answers.send((name, Err(error)))))),
            }
        });
    }

    fn finish(writer: &Writer, threads: Vec<JoinHandle<()>>, answers: &Answers) -> Vec<(&'static str, bool)> {
        writer.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        answers.try_iter().map(|(name, outcome)| (name, outcome.is_ok())).collect()
    }

    fn notes(directory: &std::path::Path) -> Vec<String> {
        let connection = Connection::open(directory.join("test.db")).unwrap();
        let mut select = connection.prepare("SELECT text FROM notes").unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_transaction_that_the_database_breaks_off_is_not_half_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, threads, held) = held_writer(directory.path());
        let (sender, answers) = mpsc::channel();
        note(&writer, &sender, "before", "before".to_owned());
        note(&writer, &sender, "too much", "x".repeat(1_000_000));
        note(&writer, &sender, "after", "after".to_owned());
        drop((held, sender));
        let told = finish(&writer, threads, &answers);
        assert!(told.contains(&("too much", false)) && told.contains(&("after", true)), "{told:?}");
        let kept: Vec<_> = told.into_iter().filter(|(_, kept)| *kept).map(|(name, _)| name).collect();
        assert_eq!(notes(directory.path()), kept, "what was kept is what was said to be kept");
    }

    /// Does short work and says which thread did it.
    fn by_whom(writer: &Writer, doers: &mpsc::Sender<(&'static str, Option<String>)>, name: &'static str) {
        let doers = doers.clone();
        writer.submit_short(move |connection, _| {
            connection.execute("INSERT INTO notes VALUES (?1)", [name]).unwrap();
            let doer = std::thread::current().name().map(str::to_owned);
            Step::Keep(Box::new(move |_| drop(doers.send((name, doer)))))
        });
    }

    #[test]
    fn short_work_is_done_at_once_by_whoever_brings_it_after_what_was_noted_before() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, threads, held) = held_writer(directory.path());
        drop(held);
        while writer.shared.pen.try_lock().is_err() || !writer.shared.queue().jobs.is_empty() {
            std::thread::yield_now();
        }
        writer.submit_lazy(|connection, _| {
            connection.execute("INSERT INTO notes VALUES ('noted')", []).unwrap();
            Step::Keep(Box::new(|_| {}))
        });
        let (sender, doers) = mpsc::channel();
        by_whom(&writer, &sender, "short");
        let here = std::thread::current().name().map(str::to_owned);
        assert_eq!(doers.try_recv(), Ok(("short", here)), "before it returned");
        assert_eq!(notes(directory.path()), ["noted", "short"]);
        writer.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn short_work_waits_its_turn_behind_what_waits() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, threads, held) = held_writer(directory.path());
        let (sender, answers) = mpsc::channel();
        let (doer, doers) = mpsc::channel();
        note(&writer, &sender, "first", "first".to_owned());
        by_whom(&writer, &doer, "second");
        assert!(doers.try_recv().is_err());
        drop((held, sender));
        finish(&writer, threads, &answers);
        assert_eq!(doers.try_recv(), Ok(("second", Some("herma-write".to_owned()))));
        assert_eq!(notes(directory.path()), ["first", "second"]);
    }

    #[test]
    fn whoever_brings_short_work_does_not_wait_for_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, threads, held) = held_writer(directory.path());
        drop(held);
        while writer.shared.pen.try_lock().is_err() || !writer.shared.queue().jobs.is_empty() {
            std::thread::yield_now();
        }
        let other = Connection::open(directory.path().join("test.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (sender, doers) = mpsc::channel();
        by_whom(&writer, &sender, "short");
        assert!(doers.try_recv().is_err(), "it is not done, and yet the caller goes on");
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(doers.recv_timeout(BUSY_TIMEOUT), Ok(("short", Some("herma-write".to_owned()))));
        writer.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn work_that_nobody_waits_for_is_written_however_much_more_comes() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, threads, held) = held_writer(directory.path());
        drop(held);
        let (sender, written) = mpsc::channel();
        let began = Instant::now();
        while written.try_recv().is_err() {
            assert!(began.elapsed() < Duration::from_secs(5), "it is put off for ever");
            let sender = sender.clone();
            writer.submit_lazy(move |_, _| {
                let _ = sender.send(());
                Step::Keep(Box::new(|_| {}))
            });
            std::thread::sleep(Duration::from_millis(2));
        }
        writer.stop();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn everything_queued_before_the_end_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let (writer, threads, held) = held_writer(directory.path());
        let (sender, answers) = mpsc::channel();
        for _ in 0..2 * BATCH_JOBS {
            note(&writer, &sender, "note", "text".to_owned());
        }
        writer.submit_lazy(|connection, _| {
            connection.execute("INSERT INTO notes VALUES ('last')", []).unwrap();
            Step::Keep(Box::new(|_| {}))
        });
        drop((held, sender));
        assert_eq!(finish(&writer, threads, &answers), vec![("note", true); 2 * BATCH_JOBS]);
        let notes = notes(directory.path());
        assert_eq!((notes.len(), notes.last().map(String::as_str)), (2 * BATCH_JOBS + 1, Some("last")));
    }
}
