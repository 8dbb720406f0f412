//! The one thread of this process that writes, and the one that makes writes durable.
//!
//! The writer drains what is queued, runs it as one transaction with a savepoint a job, and commits without waiting for the
//! disk. Jobs that promise durability are then handed to the sync thread, which syncs the write-ahead log once for all that
//! have gathered; when no turn is left, the writer syncs by itself. A commit is therefore visible to every process at once and durable a moment later; who waits for
//! durability is told only then.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
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
    Lazy(Work),
    GiveUp(Lease),
    Checkpoint,
    Stop,
}

/// The way to the writer thread.
pub(crate) struct Writer {
    jobs: Sender<Job>,
    /// How many turns of this process run or wait.
    pub(crate) live: Arc<AtomicUsize>,
}

impl Writer {
    /// Starts both threads.
    pub(crate) fn start(
        connection: Connection,
        log: File,
        instance: Instance,
    ) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (jobs, queue) = channel();
        let (syncs, sync_queue) = channel();
        let live = Arc::new(AtomicUsize::new(0));
        let log = Arc::new(Log::new(log));
        let behind = Arc::clone(&log);
        let sync =
            std::thread::Builder::new().name("herma-sync".into()).spawn(move || sync::run(&behind, &sync_queue))?;
        let mut state =
            Loop { connection, instance, log, live: Arc::clone(&live), syncs, lazy: Vec::new(), lazy_since: None };
        let write = std::thread::Builder::new().name("herma-write".into()).spawn(move || state.run(&queue))?;
        Ok((Self { jobs, live }, vec![write, sync]))
    }

    /// Queues work that somebody waits for.
    pub(crate) fn submit(&self, work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) {
        // A closed queue drops the work, and with it the channel its caller waits on, which says that the store is closed.
        let _ = self.jobs.send(Job::Work(Box::new(work)));
    }

    /// Queues work that nobody waits for: it rides with the next transaction.
    pub(crate) fn submit_lazy(&self, work: impl FnOnce(&Connection, &mut Instance) -> Step + Send + 'static) {
        let _ = self.jobs.send(Job::Lazy(Box::new(work)));
    }

    /// Says that nobody will end this turn of ours: whoever comes next takes its lease over. Needs no transaction, so it
    /// works when the database does not.
    pub(crate) fn give_up(&self, lease: Lease) {
        let _ = self.jobs.send(Job::GiveUp(lease));
    }

    /// Lets the log start over, after somebody else has copied most of it into the database.
    pub(crate) fn restart_log(&self) {
        let _ = self.jobs.send(Job::Checkpoint);
    }

    /// Ends both threads once everything queued is done.
    pub(crate) fn stop(&self) {
        let _ = self.jobs.send(Job::Stop);
    }
}

struct Loop {
    connection: Connection,
    instance: Instance,
    log: Arc<Log>,
    live: Arc<AtomicUsize>,
    syncs: Sender<Vec<Finish>>,
    lazy: Vec<Work>,
    /// When the first of the lazy work came.
    lazy_since: Option<Instant>,
}

impl Loop {
    fn run(&mut self, queue: &Receiver<Job>) {
        let mut batch = VecDeque::new();
        let mut open = true;
        while open || !batch.is_empty() || !self.lazy.is_empty() {
            if batch.is_empty() && open {
                open = self.wait(queue, &mut batch);
            }
            while open && batch.len() < BATCH_JOBS {
                match queue.try_recv() {
                    Ok(job) => open = self.sort(job, &mut batch),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => open = false,
                }
            }
            batch.extend(self.lazy.drain(..));
            self.lazy_since = None;
            if !batch.is_empty() {
                self.transact(&mut batch);
                self.live.store(self.instance.live.len(), Ordering::Release);
            }
        }
    }

    /// Waits for something worth a transaction. False when no more will come.
    fn wait(&mut self, queue: &Receiver<Job>, batch: &mut VecDeque<Work>) -> bool {
        loop {
            let job = match self.lazy_since {
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(since) => queue.recv_timeout(LAZY_WAIT.saturating_sub(since.elapsed())),
            };
            match job {
                Ok(job) => {
                    let open = self.sort(job, batch);
                    if !batch.is_empty() || !open {
                        return open;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn sort(&mut self, job: Job, batch: &mut VecDeque<Work>) -> bool {
        match job {
            Job::Work(work) => {
                // In the order they came: whoever asks later finds what was noted before, an answer's delivery say.
                batch.extend(self.lazy.drain(..));
                batch.push_back(work);
            }
            Job::Lazy(work) => {
                self.lazy.push(work);
                self.lazy_since.get_or_insert_with(Instant::now);
            }
            Job::GiveUp(lease) => self.instance.let_go(lease),
            Job::Checkpoint => self.restart_log(),
            Job::Stop => return false,
        }
        true
    }

    fn restart_log(&self) {
        let _ = self.connection.busy_timeout(RESTART_WAIT);
        let restarted = self.connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        let _ = self.connection.busy_timeout(BUSY_TIMEOUT);
        tracing::debug!(?restarted, "log restarted");
    }

    /// Runs jobs from the front as one transaction; leaves in the batch what no longer fitted into its time.
    fn transact(&mut self, batch: &mut VecDeque<Work>) {
        let began = Instant::now();
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            for work in batch.drain(..) {
                refuse(work, &error);
            }
            return;
        }
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
        if let Err(error) = intact.and_then(|()| self.execute("COMMIT")) {
            let _ = self.connection.execute_batch("ROLLBACK");
            self.instance.restore(before);
            self.instance.reload_live(&self.connection);
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
