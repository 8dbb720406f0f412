//! `[retention]`: what is forgotten by itself.

use crate::error::ConfigError;
use crate::page::Page;
use crate::reading::section::Section;
use crate::values::keep::Keep;

/// How long things are kept that could be fetched again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Stored responses. Their conversations are not touched.
    pub responses: Keep,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self { responses: Keep::Forever }
    }
}

impl RetentionConfig {
    pub(crate) fn read(section: &mut Section) -> Result<Self, ConfigError> {
        Ok(Self { responses: section.or("responses", Self::default().responses)? })
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["retention"], "What is forgotten by itself.");
        page.set(
            "responses",
            self.responses.to_string(),
            "Stored responses, after they ended: \"forever\", or a duration such as \"30d\". What was said stays.",
        );
    }
}
