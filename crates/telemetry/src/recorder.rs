//! The queue of spans that have ended. A full queue drops further spans and counts them: no turn waits for an export.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::span::EndedSpan;

/// How many spans wait, and how many are sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most spans that wait. Further ones are dropped and counted.
    pub queue: usize,
    /// Most spans of one batch.
    pub batch: usize,
}

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
    /// Most spans of one batch, from 1 to `limit`.
    batch: usize,
    /// Notified when the first span waits.
    first: Notify,
    /// Notified when a whole batch waits.
    full_batch: Notify,
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl Recorder {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        let limit = limits.queue.max(1);
        let [exported, dropped] = [const { AtomicU64::new(0) }; 2];
        let [first, full_batch] = [const { Notify::const_new() }; 2];
        let batch = limits.batch.clamp(1, limit);
        Self { queue: Mutex::default(), limit, batch, first, full_batch, exported, dropped }
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
        if waiting == 1 {
            self.first.notify_one();
        }
        if waiting == self.batch {
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
        let end = queue.len().min(self.batch);
        queue.drain(..end).collect()
    }

    /// Waits until a span waits. It may return once too often. Cancel-safe.
    pub(crate) async fn has_spans(&self) {
        self.first.notified().await;
    }

    /// Waits until a whole batch waits. It may return once too often. Cancel-safe.
    pub(crate) async fn has_batch(&self) {
        self.full_batch.notified().await;
    }

    pub(crate) fn count_exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }
}
