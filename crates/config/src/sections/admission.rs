//! `[admission]`: how many turns run and wait.

use std::time::Duration;

use crate::page::{Page, integer};
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;
use crate::values::span;

/// Limits for turns that run or wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// The most turns of this process at the same time, including those that wait.
    pub max_running: usize,
    /// The most turns that wait for one conversation. 0 means that no turn waits.
    pub queue_limit: usize,
    /// How long a turn waits for its conversation.
    pub queue_timeout: Duration,
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        Self { max_running: 4096, queue_limit: 64, queue_timeout: Duration::from_secs(120) }
    }
}

impl AdmissionConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        Self {
            max_running: section.read_where("max_running", POSITIVE, |turns| *turns > 0).unwrap_or(default.max_running),
            queue_limit: section.or("queue_limit", default.queue_limit),
            queue_timeout: section.or("queue_timeout", default.queue_timeout),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["admission"], "How many turns run and wait.");
        page.set(
            "max_running",
            integer(self.max_running),
            "Most turns of this process at the same time, waiting ones included.",
        );
        page.set(
            "queue_limit",
            integer(self.queue_limit),
            "Most turns that wait for one conversation; 0 lets none wait.",
        );
        page.set("queue_timeout", span::text(self.queue_timeout), "How long a turn waits for its conversation.");
    }
}
