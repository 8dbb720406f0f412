//! Builds the model server and the settings of the gateway from the configuration.

use std::sync::Arc;

use herma_config::{CompactionConfig, CompactionMode, Config, Keep, Secret, TitleMaker, TitlesConfig, WebOrigin};
use herma_gateway::{BudgetSettings, CompactionSettings, ModelSettings, Settings, Titling};
use herma_http::{Authentication, HttpSettings};
use herma_model::{Price, provenance};
use herma_upstream::{HttpModelServer, ModelServer, OfflineModel};

use super::tools::tool_settings;
use crate::failure::Misuse;

/// The default model if no model server is set.
const OFFLINE: &str = "offline";

/// The configured model server, else the offline model.
pub(crate) fn model_server(config: &Config) -> Result<Arc<dyn ModelServer>, Misuse> {
    let upstream = &config.upstream;
    let Some(base_url) = &upstream.base_url else { return Ok(Arc::new(OfflineModel)) };
    let server = HttpModelServer::new(herma_upstream::HttpSettings {
        base_url: base_url.as_str().to_owned(),
        api_key: upstream.api_key.as_ref().map(|key| Secret::expose(key).to_owned()),
        timeout: upstream.timeout,
        retries: upstream.retries,
    });
    Ok(Arc::new(server.map_err(|error| Misuse(format!("`[upstream]` cannot be used: {error}")))?))
}

/// A line that tells people where answers come from.
pub(crate) fn model_line(config: &Config, server: &dyn ModelServer) -> String {
    match (&config.upstream.base_url, &config.upstream.model) {
        (None, _) => format!(
            "no model server is set, so {} answers; to set one, for example Ollama: \
             HERMA_UPSTREAM=http://localhost:11434/v1 HERMA_MODEL=llama3.2, or [upstream] in herma.toml, or `serve \
             --upstream URL --model NAME`; a key goes into HERMA_UPSTREAM_API_KEY",
            server.describe()
        ),
        (Some(_), Some(model)) => format!("answers come from {}, model {model}", server.describe()),
        (Some(_), None) => format!(
            "answers come from {}; no model is set, so every request must name one: set it with --model or HERMA_MODEL",
            server.describe()
        ),
    }
}

/// A hint if no context window is set. Without one, a conversation is compacted only after the model server has refused
/// it.
pub(crate) fn window_line(config: &Config) -> Option<&'static str> {
    let is_known = config.upstream.context_window.is_some()
        || config.models.iter().any(|(_, model)| model.context_window.is_some());
    let is_wanted = config.upstream.base_url.is_some() && config.compaction.mode != CompactionMode::Off;
    (is_wanted && !is_known).then_some(
        "no context window is set, so a conversation is compacted only when the model server says that it is too \
         long; to do it in time, set --context-window, HERMA_CONTEXT_WINDOW or `upstream.context_window`",
    )
}

/// The gateway's settings.
pub(crate) fn gateway_settings(config: &Config) -> Settings {
    let default_model = match (&config.upstream.model, &config.upstream.base_url) {
        (Some(model), _) => model.clone(),
        (None, Some(_)) => String::new(),
        (None, None) => OFFLINE.to_owned(),
    };
    let model = |(name, model): (&str, &herma_config::ModelConfig)| {
        let settings = ModelSettings {
            upstream_model: model.upstream_model.clone(),
            context_window: model.context_window,
            price: model.price.as_ref().map(|price| Price { input: price.input, output: price.output }),
        };
        (name.to_owned(), settings)
    };
    Settings {
        default_model,
        context_window: config.upstream.context_window,
        models: config.models.iter().map(model).collect(),
        compaction: compaction_settings(&config.compaction),
        titles: titling(&config.titles),
        tools: tool_settings(&config.tools),
        budgets: BudgetSettings {
            turn_tokens: config.budgets.turn_tokens,
            conversation_tokens: config.budgets.conversation_tokens,
            tree_tokens: config.budgets.tree_tokens,
        },
        max_live_turns: config.admission.max_running,
        queue_limit: u32::try_from(config.admission.queue_limit).unwrap_or(u32::MAX),
        queue_timeout: config.admission.queue_timeout,
        cache_bytes: config.store.cache_bytes,
        responses_kept: match config.retention.responses {
            Keep::Forever => None,
            Keep::For(span) => Some(span),
        },
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
        keep_chats: true,
        authentication,
    }
}
