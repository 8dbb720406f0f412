//! Makes commits durable: syncs the write-ahead log after them.

use std::fs::File;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_store::StoreError;

use crate::failure::StoreResult;
use crate::writer::Callback;

/// A sync that takes this long is logged as slow, because every answer waits for one.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// The log, and whether a sync of it has ever failed.
pub(crate) struct Log {
    file: File,
    broken: Mutex<Option<StoreError>>,
}

impl Log {
    pub(crate) fn new(file: File) -> Self {
        Self { file, broken: Mutex::default() }
    }

    /// Makes every commit so far durable. After a failure it is unknown what is on disk, so every later call fails
    /// until a restart.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        if broken.is_none()
            && let Err(error) = self.file.sync_data()
        {
            tracing::error!(%error, "the database could not be synced to disk");
            *broken = Some(StoreError::Failed(format!("the database could not be synced to disk: {error}")));
        }
        warn_if_slow(began.elapsed());
        broken.clone().map_or(Ok(()), Err)
    }

    /// Syncs once for all callers in `waiting`, then calls them back.
    pub(crate) fn sync_for(&self, waiting: Vec<Callback>) {
        let outcome = self.sync();
        for finish in waiting {
            finish(outcome.clone());
        }
    }
}

fn warn_if_slow(taken: Duration) {
    if taken >= SLOW_AFTER {
        let milliseconds = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(milliseconds, "a sync of the disk was slow; answers wait for it");
    }
}

/// The sync thread: it runs until all senders are dropped.
pub(crate) fn run(log: &Log, queue: &Receiver<Vec<Callback>>) {
    while let Ok(mut waiting) = queue.recv() {
        waiting.extend(queue.try_iter().flatten());
        log.sync_for(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    #[derive(Default)]
    struct Written(Mutex<Vec<u8>>);

    impl Write for &Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_sync_is_a_warning_and_a_quick_one_is_not() {
        let written = Arc::new(Written::default());
        let log = tracing_subscriber::fmt().with_writer(Arc::clone(&written)).with_ansi(false).finish();
        tracing::subscriber::with_default(log, || {
            warn_if_slow(Duration::from_millis(999));
            warn_if_slow(Duration::from_millis(1500));
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("WARN") && text.contains("milliseconds=1500"), "{text}");
    }
}
