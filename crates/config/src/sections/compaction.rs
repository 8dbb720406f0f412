//! `[compaction]`: what happens when a conversation is too long for its model.

use std::time::Duration;

use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::words;
use crate::values::fraction::Fraction;
use crate::values::span::{self, FORMS_ABOVE_ZERO};

words!(
    /// What a compaction does to the session.
    CompactionMode: r#""split", "in_place" or "off""# {
        /// Ends the session and starts the next with the summary.
        Split = "split",
        /// Keeps the session. The summary replaces the messages that it covers.
        InPlace = "in_place",
        /// There is no automatic compaction.
        Off = "off",
    }
);

/// When and how histories are summarised. `keep_recent` is always below `threshold`.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionConfig {
    /// What a compaction does to the session.
    pub mode: CompactionMode,
    /// Compaction begins when the context fills this part of the model's window.
    pub threshold: Fraction,
    /// The newest messages that fill this part of the window are kept word for word.
    pub keep_recent: Fraction,
    /// The model that summarises; the conversation's model if `None`.
    pub model: Option<String>,
    /// How long one attempt at a summary may take.
    pub timeout: Duration,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            mode: CompactionMode::Split,
            threshold: Fraction::percent(75),
            keep_recent: Fraction::percent(20),
            model: None,
            timeout: Duration::from_secs(120),
        }
    }
}

impl CompactionConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        let config = Self {
            mode: section.or("mode", default.mode),
            threshold: section.or("threshold", default.threshold),
            keep_recent: section.or("keep_recent", default.keep_recent),
            model: section.read("model"),
            timeout: section
                .read_where("timeout", FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero())
                .unwrap_or(default.timeout),
        };
        if config.keep_recent >= config.threshold {
            section.conflict(format!(
                "`compaction.keep_recent` ({}) must be below `compaction.threshold` ({}): a compaction that keeps as \
                 much as made it necessary frees nothing",
                config.keep_recent, config.threshold
            ));
        }
        config
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["compaction"], "What happens when a conversation outgrows its model.");
        page.set("mode", self.mode.as_str(), "split starts a new session, in_place keeps it, off never compacts.");
        page.set("threshold", self.threshold.get(), "The part of the model's context window at which it begins.");
        page.set("keep_recent", self.keep_recent.get(), "The part of the window that is kept word for word.");
        page.maybe("model", self.model.as_deref(), "NAME", "The model that summarises, if not the conversation's own.");
        page.set("timeout", span::text(self.timeout), "How long one attempt at a summary may take.");
    }
}
