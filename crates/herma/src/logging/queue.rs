//! A queue of log lines, which a separate thread writes to stderr.
//!
//! A request never waits for stderr: when the queue is full, further lines are dropped, and their number is logged.
//!
//! A line that comes alone is written at once. After that the thread sleeps for a moment, so that busy servers wake it
//! once for many lines. To wake a thread for each line would cost a tenth of a turn.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use anyhow::Context;

/// The most lines that may wait.
const MAX_LINES: usize = 4096;
/// How long lines gather after a write. Lines that the process has not written yet are lost if it is killed.
const GATHER: Duration = Duration::from_millis(10);
/// The most bytes of lines that are written together. Pipes take this many at once, so lines of several processes that
/// share a pipe are not mixed.
const MAX_WRITE: usize = 4096;
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
    let mut lines = Vec::with_capacity(MAX_WRITE);
    while let Ok(first) = queue.recv() {
        let mut is_flushed = false;
        for job in std::iter::once(first).chain(queue.try_iter().take(MAX_LINES)) {
            match job {
                Job::Write(line) => {
                    if lines.len() + line.len() > MAX_WRITE {
                        write(&mut lines);
                    }
                    lines.extend_from_slice(&line);
                }
                Job::Flush(done) => {
                    write(&mut lines);
                    let _caller_may_be_gone = done.send(());
                    is_flushed = true;
                }
            }
        }
        write(&mut lines);
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            tracing::warn!(lines = count, "log lines were dropped, because stderr was not read fast enough");
        }
        if !is_flushed {
            // Not `recv_timeout`: a thread that waits for the queue is woken by each line.
            std::thread::sleep(GATHER);
        }
    }
}

/// Writes the lines and empties the buffer.
fn write(lines: &mut Vec<u8>) {
    // If stderr cannot be written, there is no place to report that.
    drop(io::stderr().lock().write_all(lines));
    lines.clear();
    lines.shrink_to(MAX_WRITE);
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
