//! Jobs of several turns: which thread writes them, and what happens when the combiner cannot.

use tokio::runtime::{Builder, Runtime};

use super::*;

const WRITER_THREAD: &str = "herma-write";

/// A writer that sleeps, in a process with several turns.
fn busy_process(directory: &std::path::Path) -> (Writer, Vec<JoinHandle<()>>) {
    let (writer, threads) = idle_writer(directory);
    while !writer.shared.queue().sleeping {
        std::thread::yield_now();
    }
    writer.live.store(2, Ordering::Release);
    (writer, threads)
}

/// A runtime with a single thread, which works only in `block_on`.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Has all tasks of the runtime run that are ready.
fn run_ready(runtime: &Runtime) {
    runtime.block_on(async {
        for _ in 0..8 * super::super::combiner::ROUNDS {
            tokio::task::yield_now().await;
        }
    });
}

fn here() -> Option<String> {
    std::thread::current().name().map(str::to_owned)
}

#[test]
fn short_jobs_of_tasks_that_are_ready_together_are_one_transaction_on_their_own_thread() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let writer = Arc::new(writer);
    let (sender, seen) = mpsc::channel();
    let runtime = runtime();
    let names = ["first", "second", "third"];
    for name in names {
        let (writer, sender) = (Arc::clone(&writer), sender.clone());
        runtime.spawn(async move {
            let (answer, answered) = Answer::channel();
            let runs = sender.clone();
            writer.submit_short(WhenUnavailable::Refuse, move |connection, _| {
                assert_ne!(here().as_deref(), Some(WRITER_THREAD));
                Does::Writes.run(connection, &runs, name, answer.clone())
            });
            sender.send(Seen::Answered(name, answered.await.unwrap().is_ok())).unwrap();
        });
    }
    run_ready(&runtime);
    let expected = names.map(Seen::Ran).into_iter().chain(names.map(|name| Seen::Answered(name, true)));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(notes(directory.path()), names);
    end(&writer, threads);
}

#[test]
fn a_runtime_that_ends_leaves_its_jobs_to_the_writer_thread() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let (sender, threads_used) = mpsc::channel();
    let runtime = runtime();
    {
        let _entered = runtime.enter();
        submit_reporting_thread(&writer, &sender, "first");
        submit_reporting_thread(&writer, &sender, "second");
    }
    assert!(threads_used.try_recv().is_err(), "the runtime has not run yet");
    drop(runtime);
    for name in ["first", "second"] {
        assert_eq!(threads_used.recv_timeout(BUSY_TIMEOUT), Ok((name, Some(WRITER_THREAD.to_owned()))));
    }
    end(&writer, threads);
}

#[test]
fn a_closed_store_writes_what_its_combiner_has_not() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let (sender, threads_used) = mpsc::channel();
    let runtime = runtime();
    {
        let _entered = runtime.enter();
        submit_reporting_thread(&writer, &sender, "queued");
    }
    end(&writer, threads);
    assert_eq!(threads_used.try_recv(), Ok(("queued", Some(WRITER_THREAD.to_owned()))));
    run_ready(&runtime);
    assert_eq!(notes(directory.path()), ["queued"]);
}

#[test]
fn a_long_job_is_not_written_by_a_combiner_and_is_not_overtaken() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let (sender, threads_used) = mpsc::channel();
    let runtime = runtime();
    {
        let _entered = runtime.enter();
        submit_reporting_thread(&writer, &sender, "before");
        let long = sender.clone();
        writer.submit(move |connection, _| {
            connection.execute("INSERT INTO notes VALUES ('long')", []).unwrap();
            let doer = here();
            JobOutcome::Keep(Box::new(move |_| drop(long.send(("long", doer)))))
        });
        submit_reporting_thread(&writer, &sender, "after");
    }
    let mut used = Vec::new();
    while used.len() < 3 {
        run_ready(&runtime);
        used.extend(threads_used.try_iter());
    }
    assert_eq!(used.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["before", "long", "after"]);
    assert_eq!(used[1].1.as_deref(), Some(WRITER_THREAD));
    assert_eq!(notes(directory.path()), ["before", "long", "after"]);
    end(&writer, threads);
}

#[test]
fn a_combiner_does_not_wait_for_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let other = Connection::open(directory.path().join("test.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, threads_used) = mpsc::channel();
    let runtime = runtime();
    {
        let _entered = runtime.enter();
        submit_reporting_thread(&writer, &sender, "short");
    }
    let began = Instant::now();
    run_ready(&runtime);
    assert!(began.elapsed() < BUSY_TIMEOUT, "the runtime was held up");
    assert!(threads_used.try_recv().is_err());
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(threads_used.recv_timeout(BUSY_TIMEOUT), Ok(("short", Some(WRITER_THREAD.to_owned()))));
    end(&writer, threads);
}

#[test]
fn a_combiner_goes_on_until_no_job_waits() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let (sender, threads_used) = mpsc::channel();
    let runtime = runtime();
    {
        let _entered = runtime.enter();
        for _ in 0..200 {
            submit_reporting_thread(&writer, &sender, "one of many");
        }
    }
    run_ready(&runtime);
    assert_eq!(threads_used.try_iter().filter(|(_, doer)| *doer == here()).count(), 200);
    assert!(writer.shared.queue().combining.is_none());
    end(&writer, threads);
}

#[test]
fn the_writer_thread_writes_while_the_thread_of_a_combiner_is_busy() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, threads) = busy_process(directory.path());
    let (sender, threads_used) = mpsc::channel();
    let by_writer_thread = |name| Ok((name, Some(WRITER_THREAD.to_owned())));
    // It is not run until the end, as if its thread did something else.
    let runtime = runtime();
    let submit = |name| {
        // The transaction before it has counted the turns, and found none.
        writer.live.store(2, Ordering::Release);
        let _entered = runtime.enter();
        submit_reporting_thread(&writer, &sender, name);
    };
    submit("no other job comes");
    let began = Instant::now();
    let first = loop {
        writer.look_after_combiner();
        match threads_used.try_recv() {
            Ok(used) => break used,
            Err(_) => assert!(began.elapsed() < BUSY_TIMEOUT, "the job still waits for the combiner"),
        }
    };
    assert_eq!(Ok::<_, ()>(first), by_writer_thread("no other job comes"));
    assert!(began.elapsed() >= COMBINER_WAIT, "the combiner had no time");
    for name in ["a job after it", "another one"] {
        submit(name);
        assert_eq!(threads_used.recv_timeout(BUSY_TIMEOUT).map_err(drop), by_writer_thread(name));
    }
    run_ready(&runtime);
    assert!(writer.shared.queue().combining.is_none());
    assert_eq!(notes(directory.path()), ["no other job comes", "a job after it", "another one"]);
    end(&writer, threads);
}
