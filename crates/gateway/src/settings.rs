//! What an operator can set about turns.

use std::collections::HashMap;
use std::time::Duration;

use herma_model::provenance::CompactionMode;
use herma_model::{Cost, Price, Usage};

use crate::budget::BudgetSettings;
use crate::tools::ToolSettings;

/// A model by the name clients use.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    /// Its name at the model server.
    pub upstream_model: String,
    /// How many tokens fit into it.
    pub context_window: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
}

/// When and how histories are summarised.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionSettings {
    /// What a compaction does to the session. If `None`, there are only compactions that a client asks for.
    pub mode: Option<CompactionMode>,
    /// The part of the window that may be full before a compaction begins.
    pub threshold: f64,
    /// The part of the window that the newest messages may fill, which are kept word for word.
    pub keep_recent: f64,
    /// The model that summarises. If `None`, the conversation's own model.
    pub model: Option<String>,
    /// How long one request for a summary may take.
    pub timeout: Duration,
}

/// How conversations without a title get one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Titling {
    /// They get none.
    Off,
    /// An excerpt of the first message.
    FirstMessage,
    /// A model makes a title.
    Model {
        /// The model that is asked. If `None`, the conversation's own model.
        model: Option<String>,
        /// How long it may take.
        timeout: Duration,
    },
}

/// What an operator can set about turns.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model of requests that name none, or one of [`Settings::DEFAULT_NAMES`]. Empty if every request must name a
    /// model.
    pub default_model: String,
    /// How many tokens fit into models without a window of their own.
    pub context_window: Option<u32>,
    /// Models with names of their own.
    pub models: HashMap<String, ModelSettings>,
    /// When and how histories are summarised.
    pub compaction: CompactionSettings,
    /// How conversations without a title get one.
    pub titles: Titling,
    /// Tools that Herma runs.
    pub tools: ToolSettings,
    /// Token budgets.
    pub budgets: BudgetSettings,
    /// Most turns of this process at one time, waiting ones included.
    pub max_live_turns: usize,
    /// Most turns that wait in one conversation.
    pub queue_limit: u32,
    /// How long a turn waits for those before it.
    pub queue_timeout: Duration,
    /// Most bytes of history kept in memory.
    pub cache_bytes: usize,
    /// How long a response can be fetched after it ended. If `None`, until a client deletes it.
    pub responses_kept: Option<Duration>,
}

impl Settings {
    /// Names that stand for the default model, so that clients of other gateways need not be reconfigured.
    pub const DEFAULT_NAMES: [&'static str; 3] = ["default", "herma", "hermes-agent"];

    /// The cost of a model call, by the model server's name for the model. `None` without a price or a usage.
    pub(crate) fn cost(&self, upstream_model: &str, usage: Option<Usage>) -> Option<Cost> {
        let price = self.models.values().find(|model| model.upstream_model == upstream_model)?.price?;
        usage.map(|usage| Cost::of(usage, price))
    }

    /// The model server's name for the model that a client asked for, and how many tokens fit. Unknown names stay
    /// unchanged.
    pub fn resolve_model(&self, asked: Option<&str>) -> (String, Option<u32>) {
        let name = asked.filter(|name| !Self::DEFAULT_NAMES.contains(name)).unwrap_or(&self.default_model);
        match self.models.get(name) {
            Some(model) => (model.upstream_model.clone(), model.context_window.or(self.context_window)),
            None => (name.to_owned(), self.context_window),
        }
    }
}
