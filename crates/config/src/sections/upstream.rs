//! `[upstream]`: the model server.

use std::time::Duration;

use super::headers::{self, Headers};
use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;
use crate::values::base_url::BaseUrl;
use crate::values::secret::Secret;
use crate::values::span::{self, FORMS_ABOVE_ZERO};

/// A server that speaks the OpenAI API. Without one the built-in offline model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its URL including the version, such as `https://api.openai.com/v1`, without a slash at the end.
    pub base_url: Option<BaseUrl>,
    /// The key sent to it.
    pub api_key: Option<Secret>,
    /// Headers sent with every request.
    pub headers: Headers,
    /// The model for requests that name none.
    pub model: Option<String>,
    /// The context window, in tokens, of models that do not set their own.
    pub context_window: Option<u32>,
    /// The longest wait for the first byte, and between two pieces.
    pub timeout: Duration,
    /// How many times a call is repeated that failed before its first piece.
    pub retries: u32,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            base_url: None,
            api_key: None,
            headers: Headers::new(),
            model: None,
            context_window: None,
            timeout: Duration::from_secs(120),
            retries: 2,
        }
    }
}

impl UpstreamConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        Self {
            base_url: section.read("base_url"),
            api_key: section.read("api_key"),
            headers: headers::read(section),
            model: section.read("model"),
            context_window: section.read_where("context_window", POSITIVE, |tokens| *tokens > 0),
            timeout: section
                .read_where("timeout", FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero())
                .unwrap_or(default.timeout),
            retries: section.or("retries", default.retries),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["upstream"], "The model server: anything that speaks the OpenAI API.");
        page.base_url(
            self.base_url.as_ref(),
            "https://api.openai.com/v1",
            "Without one the built-in offline model answers.",
        );
        page.secret("api_key", self.api_key.is_some(), "The key sent to it.");
        headers::write(&self.headers, page);
        page.maybe("model", self.model.as_deref(), "NAME", "The model for requests that name none.");
        page.maybe(
            "context_window",
            self.context_window,
            128_000,
            "Context window, in tokens, of models that do not set their own.",
        );
        page.set("timeout", span::text(self.timeout), "The longest wait for the first byte, and between two pieces.");
        page.set("retries", self.retries, "How many times a call that failed before its first piece is tried again.");
    }
}
