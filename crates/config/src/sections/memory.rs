//! `[memory]`: what is remembered of a session key beyond its conversations.

use crate::error::ConfigError;
use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::words;
use crate::values::http_url::HttpUrl;
use crate::values::secret::Secret;

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
    /// Most tokens that are recalled into one turn; 0 recalls nothing.
    pub recall_tokens: u32,
    /// The Honcho server, without a slash at the end.
    pub base_url: Option<HttpUrl>,
    /// The key sent to it.
    pub api_key: Option<Secret>,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { provider: MemoryProvider::Builtin, recall_tokens: 1024, base_url: None, api_key: None }
    }
}

impl MemoryConfig {
    pub(crate) fn read(section: &mut Section) -> Result<Self, ConfigError> {
        let default = Self::default();
        let config = Self {
            provider: section.or("provider", default.provider)?,
            recall_tokens: section.or("recall_tokens", default.recall_tokens)?,
            base_url: section.read::<HttpUrl>("base_url")?.map(|url| url.trimmed()),
            api_key: section.read("api_key")?,
        };
        if config.provider == MemoryProvider::Honcho && config.base_url.is_none() {
            return Err(ConfigError::Conflict(
                "`memory.provider` is \"honcho\", which needs `memory.base_url`: set it to the URL of the Honcho server"
                    .to_owned(),
            ));
        }
        Ok(config)
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["memory"], "What is remembered of a session key beyond its conversations.");
        page.set("provider", self.provider.as_str(), "builtin, honcho or off.");
        page.set("recall_tokens", self.recall_tokens, "Most tokens that are recalled into one turn.");
        page.maybe(
            "base_url",
            self.base_url.as_ref().map(HttpUrl::as_str),
            "https://api.honcho.dev",
            "The Honcho server.",
        );
        page.secret("api_key", self.api_key.is_some(), "The key sent to it.");
    }
}
