//! What an operator can set about turns.

use std::collections::HashMap;
use std::time::Duration;

use herma_model::provenance::CompactionMode;

/// A model by the name clients use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSettings {
    /// Its name at the model server.
    pub upstream_model: String,
    /// How many tokens fit into it.
    pub context_window: Option<u32>,
}

/// When and how histories are summarised.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionSettings {
    /// What it does to the session; absent, nothing is compacted unless somebody asks.
    pub mode: Option<CompactionMode>,
    /// The part of the window at which it begins.
    pub threshold: f64,
    /// The part of the window, of the newest messages, that is kept word for word.
    pub keep_recent: f64,
    /// The model that summarises; the one the conversation is for if absent.
    pub model: Option<String>,
    /// How long one try at a summary may take.
    pub timeout: Duration,
}

/// What conversations are called that nobody gave a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Titling {
    /// Nothing.
    Off,
    /// The beginning of what was first said in them.
    FirstMessage,
    /// What a model calls them.
    Model {
        /// The model that is asked; the one the conversation is for if absent.
        model: Option<String>,
        /// How long it may take.
        timeout: Duration,
    },
}

/// What an operator can set about turns.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model of requests that name none, or one of [`Settings::DEFAULT_NAMES`]; empty if every request must name its own.
    pub default_model: String,
    /// How many tokens fit into models that say nothing themselves.
    pub context_window: Option<u32>,
    /// Models with names of their own.
    pub models: HashMap<String, ModelSettings>,
    /// When and how histories are summarised.
    pub compaction: CompactionSettings,
    /// What conversations are called that nobody gave a title.
    pub titles: Titling,
    /// Most turns of this process at one time, waiting ones included.
    pub max_live_turns: usize,
    /// Most turns that wait in one conversation.
    pub queue_limit: u32,
    /// How long a turn waits for those before it.
    pub queue_timeout: Duration,
    /// Most bytes of history kept in memory.
    pub cache_bytes: usize,
    /// How long a response can be fetched after it ended; absent, until somebody deletes it.
    pub responses_kept: Option<Duration>,
}

impl Settings {
    /// Names that stand for the default model, so that clients of other gateways need not be reconfigured.
    pub const DEFAULT_NAMES: [&'static str; 3] = ["default", "herma", "hermes-agent"];

    /// The model server's name for what a client asked for, and how many tokens fit. Unknown names go to the model server as they are.
    pub fn resolve_model(&self, asked: Option<&str>) -> (String, Option<u32>) {
        let name = asked.filter(|name| !Self::DEFAULT_NAMES.contains(name)).unwrap_or(&self.default_model);
        match self.models.get(name) {
            Some(model) => (model.upstream_model.clone(), model.context_window.or(self.context_window)),
            None => (name.to_owned(), self.context_window),
        }
    }
}
