//! Builds the settings of the gateway and of HTTP from the configuration.

use herma_config::{
    CompactionConfig, CompactionMode, Config, Keep, MemoryConfig, MemoryProvider, ModelConfig, TitleMaker,
    TitlesConfig, WebOrigin,
};
use herma_gateway::models::{ModelSettings, UpstreamName};
use herma_gateway::{
    BudgetSettings, CompactionSettings, HonchoSettings, MemoryApiKey, MemorySettings, ProviderSettings, RecallLimits,
    Settings, Titling,
};
use herma_http::{Authentication, HttpSettings};
use herma_model::{Price, provenance};
use herma_telemetry::Tracer;
use herma_wire::responses::HostedTools;

use super::model_servers::ConfiguredServers;
use super::tools::tool_settings;

/// The default model if no model server is set.
const OFFLINE: &str = "offline";

/// A hint if no context window is set. Without one, a conversation is compacted only after the model server has refused
/// it.
pub(crate) fn window_line(config: &Config) -> Option<&'static str> {
    let is_known = config.upstream.context_window.is_some()
        || config.models.iter().any(|(_, model)| model.context_window.is_some());
    let has_server =
        config.upstream.base_url.is_some() || config.models.iter().any(|(_, model)| model.base_url.is_some());
    let is_wanted = has_server && config.compaction.mode != CompactionMode::Off;
    (is_wanted && !is_known).then_some(
        "no context window is set, so a conversation is compacted only when the model server says that it is too \
         long; to do it in time, set --context-window, HERMA_CONTEXT_WINDOW or `upstream.context_window`",
    )
}

/// The gateway's settings. `servers` are those of the same configuration.
pub(crate) fn gateway_settings(config: &Config, servers: &ConfiguredServers) -> Settings {
    let default_model = match (&config.upstream.model, &config.upstream.base_url) {
        (Some(model), _) => model.clone(),
        (None, Some(_)) => String::new(),
        (None, None) => OFFLINE.to_owned(),
    };
    let model = |(name, model): (&str, &ModelConfig)| {
        let settings = ModelSettings {
            upstream_model: upstream_name(name, model),
            server: servers.of_model(name),
            context_window: model.context_window,
            price: model.price.as_ref().map(|price| Price { input: price.input, output: price.output }),
        };
        (name.to_owned(), settings)
    };
    Settings {
        default_model,
        context_window: config.upstream.context_window,
        models: config.models.iter().map(model).collect(),
        currency: config.models.currency().map(str::to_owned),
        compaction: compaction_settings(&config.compaction),
        titles: titling(&config.titles),
        tools: tool_settings(&config.tools),
        memory: memory_settings(&config.memory),
        budgets: BudgetSettings {
            turn_tokens: config.budgets.turn_tokens,
            conversation_tokens: config.budgets.conversation_tokens,
            tree_tokens: config.budgets.tree_tokens,
        },
        max_live_turns: config.admission.max_running,
        queue_limit: u32::try_from(config.admission.queue_limit).unwrap_or(u32::MAX),
        queue_timeout: config.admission.queue_timeout,
        cache_bytes: config.store.cache_bytes,
        tracer: Tracer::off(config.telemetry.pass_on_traceparent),
        responses_kept: match config.retention.responses {
            Keep::Forever => None,
            Keep::For(span) => Some(span),
        },
    }
}

fn memory_settings(config: &MemoryConfig) -> MemorySettings {
    let provider = match (config.provider, honcho_settings(config)) {
        (MemoryProvider::Builtin, _) => ProviderSettings::Builtin { passages: config.passages, facts: config.facts },
        (MemoryProvider::Honcho, Some(honcho)) => ProviderSettings::Honcho(honcho),
        (MemoryProvider::Honcho, None) | (MemoryProvider::Off, _) => ProviderSettings::Off,
    };
    let limits = RecallLimits { budget: config.budget, timeout: config.timeout };
    MemorySettings { provider, limits, model: config.model.clone() }
}

/// How the Honcho server is used. `None` if there is none.
pub(crate) fn honcho_settings(config: &MemoryConfig) -> Option<HonchoSettings> {
    let base_url = config.base_url.as_ref().filter(|_| config.provider == MemoryProvider::Honcho)?;
    Some(HonchoSettings {
        base_url: base_url.as_str().to_owned(),
        api_key: config.api_key.as_ref().map(|key| MemoryApiKey::new(key.expose())),
        hermes_names: config.hermes_names,
        passages: config.passages,
        facts: config.facts,
    })
}

fn upstream_name(name: &str, model: &ModelConfig) -> UpstreamName {
    match model.upstream_model.as_str() {
        ModelConfig::REST => UpstreamName::Rest,
        upstream if upstream == name => UpstreamName::AsAsked,
        upstream => UpstreamName::Named(upstream.to_owned()),
    }
}

fn compaction_settings(config: &CompactionConfig) -> CompactionSettings {
    CompactionSettings {
        mode: match config.mode {
            CompactionMode::Split => Some(provenance::CompactionMode::Split),
            CompactionMode::InPlace => Some(provenance::CompactionMode::InPlace),
            CompactionMode::Off => None,
        },
        threshold: config.threshold.get(),
        keep_recent: config.keep_recent.get(),
        model: config.model.clone(),
        timeout: config.timeout,
    }
}

fn titling(config: &TitlesConfig) -> Titling {
    match config.by {
        TitleMaker::Off => Titling::Off,
        TitleMaker::FirstMessage => Titling::FirstMessage,
        TitleMaker::Model => Titling::Model { model: config.model.clone(), timeout: config.timeout },
    }
}

/// The settings of HTTP.
pub(crate) fn http_settings(config: &Config, authentication: Authentication) -> HttpSettings {
    HttpSettings {
        cors_origins: config.server.cors_origins.iter().map(WebOrigin::as_str).map(str::to_owned).collect(),
        max_body_bytes: config.server.max_body_bytes,
        body_budget: config.server.body_budget,
        max_websockets: config.server.max_websockets,
        websocket_lifetime: config.server.websocket_lifetime,
        chat_headers: config.server.chat_headers.iter().map(|name| name.as_str().to_owned()).collect(),
        keep_chats: config.responses.keep_chats,
        hosted_tools: match config.responses.hosted_tools {
            herma_config::HostedTools::LeaveOut => HostedTools::LeaveOut,
            herma_config::HostedTools::Refuse => HostedTools::Refuse,
            herma_config::HostedTools::PassOn => HostedTools::PassOn,
        },
        authentication,
    }
}
