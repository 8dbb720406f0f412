//! What an operator can set about turns.

use std::time::Duration;

use herma_model::provenance::CompactionMode;
use herma_model::{Cost, Usage};
use herma_telemetry::Tracer;

use crate::budget::BudgetSettings;
use crate::memory::MemorySettings;
use crate::models::{Models, ResolvedModel, ServerId};
use crate::tools::ToolSettings;

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
    pub models: Models,
    /// The currency of all prices. `None` if it is not set, or not the same for all.
    pub currency: Option<String>,
    /// When and how histories are summarised.
    pub compaction: CompactionSettings,
    /// How conversations without a title get one.
    pub titles: Titling,
    /// Tools that Herma runs.
    pub tools: ToolSettings,
    /// Long-term memory.
    pub memory: MemorySettings,
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
    /// Begins traces.
    pub tracer: Tracer,
}

impl Settings {
    /// Names that stand for the default model, so that clients of other gateways need not be reconfigured.
    pub const DEFAULT_NAMES: [&'static str; 3] = ["default", "herma", "hermes-agent"];

    /// The cost of a model call. `None` without a price or a usage.
    pub(crate) fn cost(&self, model: &ResolvedModel<'_>, usage: Option<Usage>) -> Option<Cost> {
        let usage = usage?;
        let price = model.price.or_else(|| self.models.price_of(model))?;
        Some(Cost::of(usage, price))
    }

    /// The model that a client asked for. A name that is not configured is the name of a model of `[upstream]`.
    pub fn resolve_model<'a>(&'a self, asked: Option<&'a str>) -> ResolvedModel<'a> {
        let name = asked.filter(|name| !Self::DEFAULT_NAMES.contains(name)).unwrap_or(&self.default_model);
        let found = self.models.find(name);
        let model = found.unwrap_or(ResolvedModel { name, server: ServerId::Upstream, window: None, price: None });
        ResolvedModel { window: model.window.or(self.context_window), ..model }
    }

    /// The name by which clients can ask for a model that a server lists. `None` if no name leads to it.
    pub fn name_of_listed(&self, server: ServerId, listed: &str) -> Option<String> {
        let leads_there = |name: &String| {
            let model = self.resolve_model(Some(name));
            (model.server, model.name) == (server, listed)
        };
        let names = std::iter::once(listed.to_owned()).chain(self.models.pattern_names(server, listed));
        names.into_iter().find(leads_there)
    }
}

#[cfg(test)]
mod tests {
    use herma_memory::RecallLimits;
    use herma_model::Price;

    use super::*;
    use crate::memory::ProviderSettings;
    use crate::models::{ModelSettings, UpstreamName};

    const OLLAMA: ServerId = ServerId::Other(0);
    const AZURE: ServerId = ServerId::Other(1);

    fn settings() -> Settings {
        let model = |upstream_model, server, context_window, price: Option<f64>| ModelSettings {
            upstream_model,
            server,
            context_window,
            price: price.map(|input| Price { input, output: 0.0 }),
        };
        let named = |name: &str| UpstreamName::Named(name.to_owned());
        let models = [
            ("fast", model(named("gpt-5-mini"), ServerId::Upstream, None, Some(1.0))),
            ("llama", model(named("llama3.2"), OLLAMA, Some(4_000), Some(2.0))),
            ("azure-llama", model(named("llama3.2"), AZURE, None, Some(3.0))),
            ("local/*", model(UpstreamName::Rest, OLLAMA, Some(2_000), None)),
            ("gpt-*", model(UpstreamName::AsAsked, AZURE, None, None)),
            ("gpt-5*", model(UpstreamName::AsAsked, ServerId::Upstream, None, None)),
            ("old-*", model(named("gpt-5"), ServerId::Upstream, None, None)),
        ];
        Settings {
            default_model: "fast".to_owned(),
            context_window: Some(8_000),
            models: models.into_iter().map(|(name, model)| (name.to_owned(), model)).collect(),
            currency: None,
            compaction: CompactionSettings {
                mode: None,
                threshold: 0.75,
                keep_recent: 0.2,
                model: None,
                timeout: Duration::ZERO,
            },
            titles: Titling::Off,
            tools: ToolSettings::default(),
            memory: MemorySettings {
                provider: ProviderSettings::Off,
                limits: RecallLimits { budget: 0, timeout: Duration::ZERO },
                model: None,
            },
            budgets: BudgetSettings::default(),
            max_live_turns: 1,
            queue_limit: 1,
            queue_timeout: Duration::ZERO,
            cache_bytes: 0,
            responses_kept: None,
            tracer: Tracer::default(),
        }
    }

    #[test]
    fn a_name_leads_to_one_model_of_one_server() {
        let settings = settings();
        for (asked, name, server, window) in [
            (None, "gpt-5-mini", ServerId::Upstream, 8_000),
            (Some("hermes-agent"), "gpt-5-mini", ServerId::Upstream, 8_000),
            (Some("fast"), "gpt-5-mini", ServerId::Upstream, 8_000),
            (Some("llama"), "llama3.2", OLLAMA, 4_000),
            (Some("llama3.2"), "llama3.2", ServerId::Upstream, 8_000),
            (Some("azure-llama"), "llama3.2", AZURE, 8_000),
            (Some("local/qwen3:8b"), "qwen3:8b", OLLAMA, 2_000),
            (Some("gpt-4o"), "gpt-4o", AZURE, 8_000),
            (Some("gpt-5-nano"), "gpt-5-nano", ServerId::Upstream, 8_000),
            (Some("old-one"), "gpt-5", ServerId::Upstream, 8_000),
            (Some("unknown"), "unknown", ServerId::Upstream, 8_000),
        ] {
            let model = settings.resolve_model(asked);
            assert_eq!((model.name, model.server, model.window), (name, server, Some(window)), "{asked:?}");
        }
    }

    #[test]
    fn models_of_the_same_name_at_two_servers_have_their_own_prices() {
        let settings = settings();
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let cost = |asked| settings.cost(&settings.resolve_model(Some(asked)), Some(usage));
        let costs = |amount: f64| Some(Cost::of(usage, Price { input: amount, output: 0.0 }));
        assert_eq!((cost("llama"), cost("local/llama3.2")), (costs(2.0), costs(2.0)), "the same model");
        assert_eq!((cost("azure-llama"), cost("llama3.2")), (costs(3.0), None));
        assert_eq!((cost("fast"), cost("gpt-5-mini"), cost("unknown")), (costs(1.0), costs(1.0), None));
    }

    #[test]
    fn a_listed_model_is_shown_by_a_name_that_leads_to_it() {
        let settings = settings();
        for (server, listed, shown) in [
            (ServerId::Upstream, "other", Some("other")),
            (ServerId::Upstream, "gpt-4o", None),
            (ServerId::Upstream, "gpt-5-nano", Some("gpt-5-nano")),
            (OLLAMA, "qwen3:8b", Some("local/qwen3:8b")),
            (AZURE, "gpt-4o", Some("gpt-4o")),
            (AZURE, "text-embedding", None),
        ] {
            assert_eq!(settings.name_of_listed(server, listed).as_deref(), shown, "{listed} of {server:?}");
        }
    }
}
