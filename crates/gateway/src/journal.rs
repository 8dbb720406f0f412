//! What a running turn has shown, written down now and then, so that a crash keeps it.

use std::time::Duration;

use herma_store::Lease;
use tokio::time::Instant;

use crate::gateway::Gateway;

/// How often what was shown is written down while a turn runs.
const JOURNAL_EVERY: Duration = Duration::from_millis(250);

/// Writes what was shown down, now and then.
pub(crate) struct Journal {
    streaming: bool,
    written: usize,
    due: Option<Instant>,
}

impl Journal {
    /// Only what is streamed is shown before its end.
    pub(crate) const fn new(streaming: bool) -> Self {
        Self { streaming, written: 0, due: None }
    }

    /// Takes note that something was shown.
    pub(crate) fn shown(&mut self) {
        if self.streaming && self.due.is_none() {
            self.due = Some(Instant::now() + JOURNAL_EVERY);
        }
    }

    /// Waits until there is something to write. Cancel-safe.
    pub(crate) async fn due(&self) {
        match self.due {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Writes what is new of everything shown.
    pub(crate) fn write(&mut self, gateway: &Gateway, lease: Lease, shown: &str) {
        self.due = None;
        if let Some(new) = shown.get(self.written..).filter(|new| !new.is_empty()) {
            gateway.store.journal(lease, new.to_owned());
            self.written = shown.len();
        }
    }
}
