//! `[titles]`: how conversations get a title if no client gave them one.

use std::time::Duration;

use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::words;
use crate::values::span::{self, FORMS_ABOVE_ZERO};

words!(
    /// Who makes titles.
    TitleMaker: r#""first_message", "model" or "off""# {
        /// The title is the beginning of the first message.
        FirstMessage = "first_message",
        /// A model makes the title after the first answer.
        Model = "model",
        /// No titles are made.
        Off = "off",
    }
);

/// How titles are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitlesConfig {
    /// The maker of titles.
    pub by: TitleMaker,
    /// The model that makes titles; the conversation's model if `None`.
    pub model: Option<String>,
    /// How long the model may take.
    pub timeout: Duration,
}

impl Default for TitlesConfig {
    fn default() -> Self {
        Self { by: TitleMaker::FirstMessage, model: None, timeout: Duration::from_secs(10) }
    }
}

impl TitlesConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        Self {
            by: section.or("by", default.by),
            model: section.read("model"),
            timeout: section
                .read_where("timeout", FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero())
                .unwrap_or(default.timeout),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["titles"], "How conversations get a title if no client gave them one.");
        page.set(
            "by",
            self.by.as_str(),
            "first_message takes the first words, model asks one more question, off makes none.",
        );
        page.maybe("model", self.model.as_deref(), "NAME", "The model that is asked, if not the conversation's own.");
        page.set(
            "timeout",
            span::text(self.timeout),
            "How long a model may take; after that the first words are taken.",
        );
    }
}
