//! Checks each model server: whether it lists its models, and the configured ones are among them.

use std::time::Duration;

use futures_util::future::join_all;
use herma_config::Config;
use herma_gateway::Settings;
use herma_gateway::models::ServerId;
use herma_model::ModelFailure;
use herma_upstream::ModelInfo;

use super::check::Check;
use crate::setup::{self, ConfiguredServers};

const MODEL: &str = "model server";
/// How long a model server may take to list its models.
const MODELS_LIMIT: Duration = Duration::from_secs(5);

/// Ollama lists models with their tag. A name without one means this tag.
const IMPLIED_TAG: &str = ":latest";

/// Checks all servers at the same time, that of `[upstream]` first.
pub(super) async fn checks(config: &Config) -> Vec<Check> {
    let mut config = config.clone();
    config.upstream.retries = 0;
    let servers = match ConfiguredServers::of(&config) {
        Ok(servers) => servers,
        Err(error) => return vec![Check::problem(MODEL, error.to_string())],
    };
    let settings = setup::gateway_settings(&config, &servers);
    let configured = servers.servers.iter().map(async |(id, server)| {
        if id == ServerId::Upstream && config.upstream.base_url.is_none() {
            return servers.lines(&config).into_iter().next().map(|line| Check::ok(MODEL, line));
        }
        let expected = Expected::of(id, &servers, &settings);
        let described = server.describe();
        Some(match tokio::time::timeout(MODELS_LIMIT, server.models()).await {
            Err(_) => Check::problem(
                MODEL,
                format!(
                    "{described} did not answer within {MODELS_LIMIT:?}; check that it runs and that the URL is right"
                ),
            ),
            Ok(Err(failure)) => expected.refused(&described, &failure),
            Ok(Ok(models)) => expected.answered(&described, &models),
        })
    });
    join_all(configured).await.into_iter().flatten().collect()
}

/// What a model server should have.
struct Expected {
    /// Models by the server's names.
    models: Vec<String>,
    /// The setting of its key.
    key: String,
    /// True if requests must name a model, because there is no default.
    has_no_default: bool,
}

impl Expected {
    fn of(id: ServerId, servers: &ConfiguredServers, settings: &Settings) -> Self {
        let other = servers.others.iter().find(|other| other.id == id);
        let default = Some(settings.resolve_model(None)).filter(|model| model.server == id && !model.name.is_empty());
        let own = other.into_iter().flat_map(|other| &other.models).filter(|name| !name.ends_with('*'));
        let own = own.map(|name| settings.resolve_model(Some(name)));
        let mut models: Vec<String> = default.into_iter().chain(own).map(|model| model.name.to_owned()).collect();
        models.sort_unstable();
        models.dedup();
        let key = setup::key_setting(&servers.others, id);
        Self { models, key, has_no_default: other.is_none() && settings.default_model.is_empty() }
    }

    fn refused(&self, described: &str, failure: &ModelFailure) -> Check {
        let reason = &failure.message;
        match failure.status {
            Some(401 | 403) => {
                Check::problem(MODEL, format!("{described} refuses the key: {reason}; set {}", self.key))
            }
            Some(404 | 405) => Check::warning(
                MODEL,
                format!("{described} does not list its models: {reason}; if turns fail too, the URL may lack a /v1"),
            ),
            _ => Check::problem(
                MODEL,
                format!("{described} cannot be asked: {reason}; check that it runs and that the URL is right"),
            ),
        }
    }

    fn answered(&self, described: &str, models: &[ModelInfo]) -> Check {
        let count = models.len();
        if self.has_no_default {
            let advice = "every request must name one, or set HERMA_MODEL";
            let found = format!("{described} answers and offers {count} models, but none is set: {advice}");
            return Check::warning(MODEL, found);
        }
        let is = |offered: &ModelInfo, name: &str| offered.id.strip_suffix(IMPLIED_TAG).unwrap_or(&offered.id) == name;
        let is_offered = |name: &&String| {
            models.is_empty() || models.iter().any(|offered| offered.id == **name || is(offered, name))
        };
        let (offered, missing): (Vec<&String>, Vec<&String>) = self.models.iter().partition(is_offered);
        if missing.is_empty() {
            let offered = match offered.is_empty() {
                true if count == 1 => "1 model".to_owned(),
                true => format!("{count} models"),
                false => join(&offered),
            };
            return Check::ok(MODEL, format!("{described} answers and offers {offered}"));
        }
        let first: Vec<_> = models.iter().take(5).map(|offered| &offered.id).collect();
        let more = if count > first.len() { ", …" } else { "" };
        let found =
            format!("{described} answers but does not list {}; it offers {}{more}", join(&missing), join(&first));
        Check::warning(MODEL, found)
    }
}

fn join(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
