//! Which thread writes, in which order, and what happens to work that cannot be written.

mod combining;

use std::sync::mpsc;

use super::*;
use crate::failure::{StoreResult, Translate as _};
use crate::open::BUSY_TIMEOUT;

type Answers = mpsc::Receiver<(&'static str, StoreResult<()>)>;

/// A writer that blocks in its first job until the returned sender is dropped. Everything submitted meanwhile becomes
/// one batch.
fn blocked_writer(directory: &std::path::Path) -> (Writer, Vec<JoinHandle<()>>, mpsc::Sender<()>) {
    let path = directory.join("test.db");
    let connection = crate::open::writer(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE notes (text TEXT NOT NULL); PRAGMA max_page_count = 40; PRAGMA cache_size = 10")
        .unwrap();
    let log = File::options().write(true).open(crate::open::log_path(&path)).unwrap();
    let (writer, threads) = Writer::start(connection, log, Instance::new(&path)).unwrap();
    let (held, hold) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    writer.submit(move |_, _| {
        begun.send(()).unwrap();
        let _ = hold.recv();
        JobOutcome::Keep(Box::new(|_| {}))
    });
    has_begun.recv().unwrap();
    (writer, threads, held)
}

/// A writer that has nothing to do.
fn idle_writer(directory: &std::path::Path) -> (Writer, Vec<JoinHandle<()>>) {
    let (writer, threads, held) = blocked_writer(directory);
    drop(held);
    while writer.shared.write_connection.try_lock().is_err() || !writer.shared.queue().jobs.is_empty() {
        std::thread::yield_now();
    }
    (writer, threads)
}

fn end(writer: &Writer, threads: Vec<JoinHandle<()>>) {
    writer.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn note(writer: &Writer, answers: &mpsc::Sender<(&'static str, StoreResult<()>)>, name: &'static str, text: String) {
    let answers = answers.clone();
    writer.submit(move |connection, _| {
        match connection.execute("INSERT INTO notes VALUES (?1)", [text]).translated() {
            Ok(_) => JobOutcome::Keep(Box::new(move |committed| drop(answers.send((name, committed))))),
            Err(error) => JobOutcome::Undo(Box::new(move |_| drop(answers.send((name, Err(error)))))),
        }
    });
}

fn finish(writer: &Writer, threads: Vec<JoinHandle<()>>, answers: &Answers) -> Vec<(&'static str, bool)> {
    end(writer, threads);
    answers.try_iter().map(|(name, outcome)| (name, outcome.is_ok())).collect()
}

fn notes(directory: &std::path::Path) -> Vec<String> {
    let connection = Connection::open(directory.join("test.db")).unwrap();
    let mut select = connection.prepare("SELECT text FROM notes").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_transaction_that_the_database_rolls_back_is_not_half_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads, held) = blocked_writer(directory.path());
    let (sender, answers) = mpsc::channel();
    note(&writer, &sender, "before", "before".to_owned());
    note(&writer, &sender, "too much", "x".repeat(1_000_000));
    note(&writer, &sender, "after", "after".to_owned());
    drop((held, sender));
    let reported = finish(&writer, threads, &answers);
    assert!(reported.contains(&("too much", false)) && reported.contains(&("after", true)), "{reported:?}");
    let kept: Vec<_> = reported.into_iter().filter(|(_, kept)| *kept).map(|(name, _)| name).collect();
    assert_eq!(notes(directory.path()), kept, "exactly what was reported as kept is stored");
}

/// What happens at a run of work, in the order in which it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Ran(&'static str),
    Answered(&'static str, bool),
}

/// What a job of these tests does after it has begun.
#[derive(Clone, Copy)]
enum Does {
    Writes,
    WritesAndFails,
    Fails,
}

impl Does {
    fn run(
        self,
        connection: &Connection,
        seen: &mpsc::Sender<Seen>,
        name: &'static str,
        answer: Answer<()>,
    ) -> JobOutcome {
        seen.send(Seen::Ran(name)).unwrap();
        if !matches!(self, Self::Fails) {
            connection.execute("INSERT INTO notes VALUES (?1)", [name]).unwrap();
        }
        match self {
            Self::Writes => JobOutcome::Keep(Box::new(move |committed| answer.send(committed))),
            Self::WritesAndFails | Self::Fails => {
                JobOutcome::Undo(Box::new(move |_| answer.send(Err(StoreError::Fenced))))
            }
        }
    }
}

/// Runs these jobs as one batch. Returns what was seen: all runs, then what the callers heard.
fn seen_of(jobs: &[(&'static str, bool, Does)], directory: &std::path::Path) -> Vec<Seen> {
    let (writer, threads, held) = blocked_writer(directory);
    let (sender, seen) = mpsc::channel();
    let mut answers = Vec::new();
    for &(name, is_repeatable, does) in jobs {
        let (answer, answered) = Answer::channel();
        answers.push((name, answered));
        let sender = sender.clone();
        if is_repeatable {
            let run =
                move |connection: &Connection, _: &mut Instance| does.run(connection, &sender, name, answer.clone());
            writer.submit_short(WhenUnavailable::Refuse, run);
        } else {
            writer.submit(move |connection, _| does.run(connection, &sender, name, answer));
        }
    }
    drop((held, sender));
    end(&writer, threads);
    let heard = answers.into_iter().map(|(name, mut answered)| (name, answered.try_recv().unwrap().is_ok()));
    seen.try_iter().chain(heard.map(|(name, is_kept)| Seen::Answered(name, is_kept))).collect()
}

#[test]
fn jobs_run_again_if_a_later_one_fails_after_it_has_written() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = [("first", true, Does::Writes), ("fails", true, Does::WritesAndFails), ("last", true, Does::Writes)];
    use Seen::{Answered, Ran};
    let seen = seen_of(&jobs, directory.path());
    assert_eq!(seen[seen.len() - 3..], [Answered("first", true), Answered("fails", false), Answered("last", true)]);
    let runs = |name| seen.iter().filter(|seen| **seen == Ran(name)).count();
    assert_eq!((runs("first"), runs("fails"), runs("last")), (2, 2, 1), "{seen:?}");
    assert_eq!(notes(directory.path()), ["first", "last"]);
}

#[test]
fn a_job_that_fails_before_it_has_written_makes_no_other_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = [("first", true, Does::Writes), ("fails", true, Does::Fails), ("last", true, Does::Writes)];
    let seen = seen_of(&jobs, directory.path());
    assert_eq!(seen.iter().filter(|seen| matches!(seen, Seen::Ran(_))).count(), 3, "{seen:?}");
    assert_eq!(notes(directory.path()), ["first", "last"]);
}

#[test]
fn a_job_that_can_run_only_once_does_so_although_a_later_one_fails() {
    let directory = tempfile::tempdir().unwrap();
    let jobs = [
        ("first", true, Does::Writes),
        ("once", false, Does::Writes),
        ("fails", true, Does::WritesAndFails),
        ("once, fails", false, Does::WritesAndFails),
        ("last", true, Does::Writes),
    ];
    let seen = seen_of(&jobs, directory.path());
    assert_eq!(seen.iter().filter(|seen| matches!(seen, Seen::Ran(_))).count(), jobs.len(), "{seen:?}");
    assert_eq!(notes(directory.path()), ["first", "once", "last"]);
}

/// Submits short work that reports which thread ran it.
fn submit_reporting_thread(
    writer: &Writer,
    threads_used: &mpsc::Sender<(&'static str, Option<String>)>,
    name: &'static str,
) {
    let threads_used = threads_used.clone();
    writer.submit_short(WhenUnavailable::Refuse, move |connection, _| {
        connection.execute("INSERT INTO notes VALUES (?1)", [name]).unwrap();
        let doer = std::thread::current().name().map(str::to_owned);
        let threads_used = threads_used.clone();
        JobOutcome::Keep(Box::new(move |_| drop(threads_used.send((name, doer)))))
    });
}

#[test]
fn short_work_runs_on_the_calling_thread_after_earlier_lazy_work() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = idle_writer(directory.path());
    writer.submit_lazy(WhenUnavailable::Wait, |connection, _| {
        connection.execute("INSERT INTO notes VALUES ('noted')", []).unwrap();
        JobOutcome::Keep(Box::new(|_| {}))
    });
    let (sender, threads_used) = mpsc::channel();
    submit_reporting_thread(&writer, &sender, "short");
    let here = std::thread::current().name().map(str::to_owned);
    assert_eq!(threads_used.try_recv(), Ok(("short", here)), "before it returned");
    assert_eq!(notes(directory.path()), ["noted", "short"]);
    end(&writer, threads);
}

#[test]
fn the_caller_of_short_work_does_not_wait_for_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = idle_writer(directory.path());
    let (sender, synced) = mpsc::channel();
    writer.submit_short(WhenUnavailable::Refuse, move |_, _| {
        let sender = sender.clone();
        JobOutcome::KeepDurably(Box::new(move |_| drop(sender.send(std::thread::current().name().map(str::to_owned)))))
    });
    assert_eq!(synced.recv_timeout(BUSY_TIMEOUT), Ok(Some("herma-sync".to_owned())));
    end(&writer, threads);
}

#[test]
fn short_work_waits_behind_queued_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads, held) = blocked_writer(directory.path());
    let (sender, answers) = mpsc::channel();
    let (doer, threads_used) = mpsc::channel();
    note(&writer, &sender, "first", "first".to_owned());
    submit_reporting_thread(&writer, &doer, "second");
    assert!(threads_used.try_recv().is_err());
    drop((held, sender));
    finish(&writer, threads, &answers);
    assert_eq!(threads_used.try_recv(), Ok(("second", Some("herma-write".to_owned()))));
    assert_eq!(notes(directory.path()), ["first", "second"]);
}

#[test]
fn work_that_panics_rolls_back_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = idle_writer(directory.path());
    let work: fn(&Connection, &mut Instance) -> JobOutcome = |connection, _| {
        connection.execute("INSERT INTO notes VALUES ('half')", []).unwrap();
        panic!("on purpose");
    };
    writer.submit_short(WhenUnavailable::Refuse, work);
    writer.submit(work);
    let (sender, answers) = mpsc::channel();
    note(&writer, &sender, "after", "after".to_owned());
    drop(sender);
    assert_eq!(finish(&writer, threads, &answers), [("after", true)]);
    assert_eq!(notes(directory.path()), ["after"]);
}

#[test]
fn the_caller_of_short_work_does_not_wait_for_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = idle_writer(directory.path());
    let other = Connection::open(directory.path().join("test.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, threads_used) = mpsc::channel();
    submit_reporting_thread(&writer, &sender, "short");
    assert!(threads_used.try_recv().is_err(), "the caller returns before the work is done");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(threads_used.recv_timeout(BUSY_TIMEOUT), Ok(("short", Some("herma-write".to_owned()))));
    end(&writer, threads);
}

#[test]
fn lazy_work_is_written_even_if_more_keeps_coming() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads, held) = blocked_writer(directory.path());
    drop(held);
    let (sender, written) = mpsc::channel();
    let began = Instant::now();
    while written.try_recv().is_err() {
        assert!(began.elapsed() < Duration::from_secs(5), "the work is never written");
        let sender = sender.clone();
        writer.submit_lazy(WhenUnavailable::Wait, move |_, _| {
            let _ = sender.send(());
            JobOutcome::Keep(Box::new(|_| {}))
        });
        std::thread::sleep(Duration::from_millis(2));
    }
    end(&writer, threads);
}

#[test]
fn everything_queued_before_the_end_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads, held) = blocked_writer(directory.path());
    let (sender, answers) = mpsc::channel();
    for _ in 0..2 * BATCH_JOBS {
        note(&writer, &sender, "note", "text".to_owned());
    }
    writer.submit_lazy(WhenUnavailable::Wait, |connection, _| {
        connection.execute("INSERT INTO notes VALUES ('last')", []).unwrap();
        JobOutcome::Keep(Box::new(|_| {}))
    });
    drop((held, sender));
    assert_eq!(finish(&writer, threads, &answers), vec![("note", true); 2 * BATCH_JOBS]);
    let notes = notes(directory.path());
    assert_eq!((notes.len(), notes.last().map(String::as_str)), (2 * BATCH_JOBS + 1, Some("last")));
}
