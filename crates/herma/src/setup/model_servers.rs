//! Builds the model servers from the configuration, and says where answers come from.

use std::sync::Arc;

use herma_config::{BaseUrl, Config, ModelServerConfig};
use herma_gateway::models::{ModelServers, ServerId};
use herma_upstream::{Connections, HttpModelServer, ModelServer, OfflineModel};

use super::tools::exposed;
use crate::failure::Misuse;

/// The configured model servers.
pub(crate) struct ConfiguredServers {
    /// All of them. That of `[upstream]` is the offline model if none is set there.
    pub(crate) servers: ModelServers,
    /// Which models of `[models]` each server other than that of `[upstream]` has.
    pub(crate) others: Vec<OtherServer>,
    /// The connections to all of them.
    pub(crate) connections: Connections,
}

/// A model server that models of `[models]` have in place of that of `[upstream]`.
pub(crate) struct OtherServer {
    pub(crate) id: ServerId,
    config: ModelServerConfig,
    /// The models, by the names that clients use.
    pub(crate) models: Vec<String>,
}

impl ConfiguredServers {
    /// Builds them. Models that reach their server in the same way share it. Sends nothing.
    pub(crate) fn of(config: &Config) -> Result<Self, Misuse> {
        let connections = Connections::default();
        let upstream = config.upstream_server();
        let mut servers = ModelServers::new(match &upstream {
            Some(upstream) => server(upstream, &connections).map_err(|error| unusable("[upstream]", &error))?,
            None => Arc::new(OfflineModel),
        });
        let mut others: Vec<OtherServer> = Vec::new();
        for (name, model) in config.models.iter() {
            let Some(own) = config.server_of(model).filter(|own| Some(own) != upstream.as_ref()) else { continue };
            if let Some(known) = others.iter_mut().find(|known| known.config == own) {
                known.models.push(name.to_owned());
                continue;
            }
            let made = server(&own, &connections).map_err(|error| unusable(&format!("[models.{name}]"), &error))?;
            others.push(OtherServer { id: servers.add(made), config: own, models: vec![name.to_owned()] });
        }
        Ok(Self { servers, others, connections })
    }

    /// The server of a model of `[models]`.
    pub(crate) fn of_model(&self, name: &str) -> ServerId {
        let other = self.others.iter().find(|other| other.models.iter().any(|model| model == name));
        other.map_or(ServerId::Upstream, |other| other.id)
    }

    /// Lines that tell people where answers come from.
    pub(crate) fn lines(&self, config: &Config) -> Vec<String> {
        let others = self.others.iter().map(|other| {
            let described = self.servers.of(other.id).describe();
            format!("answers of {} come from {described}", other.models.join(", "))
        });
        let upstream = self.servers.of(ServerId::Upstream).describe();
        let first = match self.others.is_empty() {
            false => mixed_line(config, &upstream),
            true => only_line(config, &upstream),
        };
        std::iter::once(first).chain(others).collect()
    }
}

/// The setting that has the key of a server.
pub(crate) fn key_setting(others: &[OtherServer], id: ServerId) -> String {
    let other = others.iter().find(|other| other.id == id);
    match other.and_then(|other| other.models.first()) {
        Some(model) => format!("`models.{model}.api_key`"),
        None => "HERMA_UPSTREAM_API_KEY or `upstream.api_key`".to_owned(),
    }
}

fn server(config: &ModelServerConfig, connections: &Connections) -> Result<Arc<dyn ModelServer>, String> {
    let settings = herma_upstream::HttpSettings {
        base_url: BaseUrl::expose(&config.base_url),
        api_key: config.api_key.as_ref().map(|key| key.expose().to_owned()),
        headers: exposed(&config.headers),
        timeout: config.timeout,
        retries: config.retries,
    };
    let server = HttpModelServer::new(settings, connections).map_err(|error| error.to_string())?;
    Ok(Arc::new(server))
}

fn unusable(table: &str, error: &str) -> Misuse {
    Misuse(format!("`{table}` cannot be used: {error}"))
}

/// Where answers come from if there is one server.
fn only_line(config: &Config, upstream: &str) -> String {
    match (&config.upstream.base_url, &config.upstream.model) {
        (None, _) => format!(
            "no model server is set, so {upstream} answers; to set one, for example Ollama: \
             HERMA_UPSTREAM=http://localhost:11434/v1 HERMA_MODEL=llama3.2, or [upstream] in herma.toml, or `serve \
             --upstream URL --model NAME`; a key goes into HERMA_UPSTREAM_API_KEY"
        ),
        (Some(_), Some(model)) => format!("answers come from {upstream}, model {model}"),
        (Some(_), None) => format!(
            "answers come from {upstream}; no model is set, so every request must name one: set it with --model or \
             HERMA_MODEL"
        ),
    }
}

/// Where answers come from that no other server gives.
fn mixed_line(config: &Config, upstream: &str) -> String {
    let default = match (&config.upstream.model, &config.upstream.base_url) {
        (Some(model), _) => format!("a request that names no model gets {model}"),
        (None, Some(_)) => {
            "no model is set, so every request must name one: set it with --model or HERMA_MODEL".to_owned()
        }
        (None, None) => "it also answers requests that name no model: HERMA_MODEL sets another for them".to_owned(),
    };
    format!("answers of all models without a server of their own come from {upstream}; {default}")
}
