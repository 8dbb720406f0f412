//! A queue of log lines, which a separate thread writes to stderr.
//!
//! A request never waits for stderr: when the queue is full, further lines are dropped, and their number is logged.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use anyhow::Context;

/// The most lines that may wait.
const MAX_LINES: usize = 4096;
/// How long writing the last lines may take at the end.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

enum Job {
    Write(Vec<u8>),
    /// Answer when all lines before are written.
    Flush(Sender<()>),
}

/// Takes lines from any thread.
pub(super) struct LogQueue {
    jobs: SyncSender<Job>,
    dropped: Arc<AtomicU64>,
}

/// On drop, writes the lines that still wait.
pub(crate) struct Flush(SyncSender<Job>);

/// Starts the thread.
pub(super) fn start() -> anyhow::Result<(Arc<LogQueue>, Flush)> {
    let (jobs, queue) = sync_channel(MAX_LINES);
    let dropped = Arc::new(AtomicU64::new(0));
    let lines = Arc::new(LogQueue { jobs: jobs.clone(), dropped: Arc::clone(&dropped) });
    std::thread::Builder::new()
        .name("herma-log".to_owned())
        .spawn(move || run(&queue, &dropped))
        .context("cannot start the thread of the log")?;
    Ok((lines, Flush(jobs)))
}

fn run(queue: &Receiver<Job>, dropped: &AtomicU64) {
    for job in queue {
        match job {
            // If stderr cannot be written, there is no place to report that.
            Job::Write(line) => drop(io::stderr().lock().write_all(&line)),
            Job::Flush(done) => drop(done.send(())),
        }
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "log lines were dropped, because stderr was not read fast enough");
        }
    }
}

impl Write for &LogQueue {
    /// Queues a whole line; the log never hands over less.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.jobs.try_send(Job::Write(line.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let (done, written) = channel();
        if self.0.try_send(Job::Flush(done)).is_ok() {
            // Lines that stderr does not take in time are lost.
            let _ = written.recv_timeout(FLUSH_LIMIT);
        }
    }
}
