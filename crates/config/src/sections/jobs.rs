//! `[jobs]`: scheduled background work.

use crate::page::{Page, integer};
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;

/// Whether this process runs scheduled jobs, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobsConfig {
    /// Whether this process runs jobs that are due.
    pub enabled: bool,
    /// The most jobs that it runs at the same time.
    pub max_running: usize,
}

impl Default for JobsConfig {
    fn default() -> Self {
        Self { enabled: true, max_running: 4 }
    }
}

impl JobsConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        Self {
            enabled: section.or("enabled", default.enabled),
            max_running: section.read_where("max_running", POSITIVE, |jobs| *jobs > 0).unwrap_or(default.max_running),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["jobs"], "Scheduled background work.");
        page.set("enabled", self.enabled, "Whether this process runs jobs that are due.");
        page.set("max_running", integer(self.max_running), "Most jobs that it runs at the same time.");
    }
}
