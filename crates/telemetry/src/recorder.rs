//! The queue of spans that have ended. A full queue drops further spans and counts them: no turn waits for an export.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::span::EndedSpan;

/// Most spans of one batch.
pub(crate) const BATCH: usize = 512;

/// What became of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanCounts {
    /// The collector took them.
    pub exported: u64,
    /// They were lost: the queue was full, or the collector did not take them.
    pub dropped: u64,
}

/// Takes spans that have ended.
#[derive(Debug)]
pub(crate) struct Recorder {
    queue: Mutex<Vec<EndedSpan>>,
    limit: usize,
    /// Notified when a whole batch waits.
    full_batch: Notify,
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let [exported, dropped] = [const { AtomicU64::new(0) }; 2];
        Self { queue: Mutex::default(), limit, full_batch: Notify::new(), exported, dropped }
    }

    fn queue(&self) -> MutexGuard<'_, Vec<EndedSpan>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a span. Never waits for the exporter.
    pub(crate) fn take(&self, span: EndedSpan) {
        let waiting = {
            let mut queue = self.queue();
            if queue.len() >= self.limit {
                drop(queue);
                self.count_dropped(1);
                return;
            }
            queue.push(span);
            queue.len()
        };
        if waiting == BATCH.min(self.limit) {
            self.full_batch.notify_one();
        }
    }

    pub(crate) fn counts(&self) -> SpanCounts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SpanCounts { exported: count(&self.exported), dropped: count(&self.dropped) }
    }

    pub(crate) fn count_dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// The oldest spans, as many as go into one batch.
    pub(crate) fn batch(&self) -> Vec<EndedSpan> {
        let mut queue = self.queue();
        let end = queue.len().min(BATCH);
        queue.drain(..end).collect()
    }

    /// Waits until a whole batch waits. Cancel-safe.
    pub(crate) async fn has_batch(&self) {
        self.full_batch.notified().await;
    }

    pub(crate) fn count_exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }
}
