//! `[retention]`: what is deleted automatically, and when.

use crate::page::Page;
use crate::reading::section::Section;
use crate::values::keep::Keep;

/// How long stored things are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Stored responses. Their conversations are kept.
    pub responses: Keep,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { responses: Keep::Forever }
    }
}

impl RetentionConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        Self { responses: section.or("responses", Self::default().responses) }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["retention"], "What is deleted automatically, and when.");
        page.set(
            "responses",
            self.responses.to_string(),
            "Stored responses, after they ended: \"forever\", or a duration such as \"30d\". Messages stay.",
        );
    }
}
