//! Settings from command-line flags. They override all other sources.

use std::path::PathBuf;

use crate::error::Origin;
use crate::reading::section::TextSettings;

/// The flags; `None` if a flag was not given. Not `Debug`, because a store URL may hold a password.
#[derive(Clone, Default)]
pub struct Overrides {
    /// `--data`.
    pub data: Option<PathBuf>,
    /// `--config`.
    pub config_file: Option<PathBuf>,
    /// `--store`.
    pub store: Option<String>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--upstream`.
    pub upstream: Option<String>,
    /// `--model`.
    pub model: Option<String>,
    /// `--context-window`.
    pub context_window: Option<u32>,
    /// `--no-auth`.
    pub no_auth: Option<bool>,
    /// What `--verbose` logs.
    pub log: Option<String>,
}

impl Overrides {
    /// Replaces the texts of variables with those of flags.
    pub(crate) fn apply_to(self, texts: &mut TextSettings) {
        let flags = [
            ("store.url", "--store", self.store),
            ("server.listen", "--listen", self.listen),
            ("upstream.base_url", "--upstream", self.upstream),
            ("upstream.model", "--model", self.model),
            ("upstream.context_window", "--context-window", self.context_window.map(|tokens| tokens.to_string())),
            ("telemetry.log", "--verbose", self.log),
            ("server.no_auth", "--no-auth", self.no_auth.map(|on| on.to_string())),
        ];
        for (key, flag, text) in flags {
            if let Some(text) = text {
                texts.insert(key.to_owned(), (text, Origin::Flag(flag)));
            }
        }
    }
}
