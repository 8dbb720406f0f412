//! `[memory]`: what is remembered of a session key beyond its conversations.

use std::time::Duration;

use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::words;
use crate::values::http_url::HttpUrl;
use crate::values::secret::Secret;
use crate::values::span::{self, FORMS_ABOVE_ZERO};

words!(
    /// Who remembers.
    MemoryProvider: r#""builtin", "honcho" or "off""# {
        /// Herma itself, with full-text search in its own store.
        Builtin = "builtin",
        /// A Honcho server.
        Honcho = "honcho",
        /// Nobody.
        Off = "off",
    }
);

/// Long-term memory. It is used only where a session key is in force. Honcho always has a `base_url`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Who remembers.
    pub provider: MemoryProvider,
    /// The Honcho server, without a slash at the end.
    pub base_url: Option<HttpUrl>,
    /// The key sent to it.
    pub api_key: Option<Secret>,
    /// Most tokens that are recalled into one turn; 0 recalls nothing.
    pub budget: u32,
    /// How long a turn waits for what is recalled.
    pub timeout: Duration,
    /// Whether what was said in earlier conversations is recalled.
    pub passages: bool,
    /// Whether facts are recalled.
    pub facts: bool,
    /// The model that reads finished conversations for facts; no model does if `None`.
    pub model: Option<String>,
    /// Whether Honcho's sessions have the names that Hermes gave them.
    pub hermes_names: bool,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            provider: MemoryProvider::Builtin,
            base_url: None,
            api_key: None,
            budget: 800,
            timeout: Duration::from_millis(500),
            passages: true,
            facts: true,
            model: None,
            hermes_names: false,
        }
    }
}

impl MemoryConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        let config = Self {
            provider: section.or("provider", default.provider),
            base_url: section.read::<HttpUrl>("base_url").map(|url| url.trimmed()),
            api_key: section.read("api_key"),
            budget: section.or("budget", default.budget),
            timeout: section
                .read_where("timeout", FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero())
                .unwrap_or(default.timeout),
            passages: section.or("passages", default.passages),
            facts: section.or("facts", default.facts),
            model: section.read("model"),
            hermes_names: section.or("hermes_names", default.hermes_names),
        };
        if config.provider == MemoryProvider::Honcho && config.base_url.is_none() {
            section.conflict(
                "`memory.provider` is \"honcho\", which needs `memory.base_url`: set it to the URL of the Honcho server"
                    .to_owned(),
            );
        }
        config
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["memory"], "What is remembered of a session key beyond its conversations.");
        page.set("provider", self.provider.as_str(), "builtin, honcho or off.");
        page.maybe(
            "base_url",
            self.base_url.as_ref().map(HttpUrl::as_str),
            "https://api.honcho.dev",
            "The Honcho server.",
        );
        page.secret("api_key", self.api_key.is_some(), "The key sent to it.");
        page.set("budget", self.budget, "Most tokens that are recalled into one turn.");
        page.set("timeout", span::text(self.timeout), "How long a turn waits for what is recalled.");
        page.set("passages", self.passages, "Recall what was said in earlier conversations.");
        page.set("facts", self.facts, "Recall facts.");
        page.maybe("model", self.model.as_deref(), "NAME", "A model that reads finished conversations for facts.");
        page.set(
            "hermes_names",
            self.hermes_names,
            "Honcho's sessions have Hermes' names; then keys can fall together.",
        );
    }
}
