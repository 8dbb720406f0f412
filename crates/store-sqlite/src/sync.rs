//! Making commits durable: the write-ahead log is synced behind them.

use std::fs::File;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use herma_store::StoreError;

use crate::failure::Outcome;
use crate::writer::Finish;

/// The log, and whether a sync of it has ever failed.
pub(crate) struct Log {
    file: File,
    broken: Mutex<Option<StoreError>>,
}

impl Log {
    pub(crate) fn new(file: File) -> Self {
        Self { file, broken: Mutex::default() }
    }

    /// Makes every commit so far durable. After a failure nobody knows what is on disk: nothing is acknowledged again until a restart.
    pub(crate) fn sync(&self) -> Outcome<()> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        if broken.is_none()
            && let Err(error) = self.file.sync_data()
        {
            tracing::error!(%error, "the database could not be synced to disk");
            *broken = Some(StoreError::Failed(format!("the database could not be synced to disk: {error}")));
        }
        broken.clone().map_or(Ok(()), Err)
    }

    /// Syncs once for everybody who has come to wait, then tells them.
    pub(crate) fn sync_for(&self, waiting: Vec<Finish>) {
        let outcome = self.sync();
        for finish in waiting {
            finish(outcome.clone());
        }
    }
}

/// Syncs for those who come, until nobody can come any more.
pub(crate) fn run(log: &Log, queue: &Receiver<Vec<Finish>>) {
    while let Ok(mut waiting) = queue.recv() {
        waiting.extend(queue.try_iter().flatten());
        log.sync_for(waiting);
    }
}
