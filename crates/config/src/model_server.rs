//! How each model server is reached: what `[models.NAME]` sets, and what it takes over from `[upstream]`.

use std::time::Duration;

use crate::config::Config;
use crate::sections::headers::Headers;
use crate::sections::models::ModelConfig;
use crate::values::base_url::BaseUrl;
use crate::values::secret::Secret;

/// How a model server is reached. Two models with equal ones share a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelServerConfig {
    /// The base URL of its API.
    pub base_url: BaseUrl,
    /// The key sent to it.
    pub api_key: Option<Secret>,
    /// Headers sent with every request. They win over the key.
    pub headers: Headers,
    /// The longest wait for the first byte, and between two pieces.
    pub timeout: Duration,
    /// How many times a call is repeated that failed before its first piece.
    pub retries: u32,
}

impl Config {
    /// The server of `[upstream]`. `None` if the offline model answers in its place.
    pub fn upstream_server(&self) -> Option<ModelServerConfig> {
        let upstream = &self.upstream;
        Some(ModelServerConfig {
            base_url: upstream.base_url.clone()?,
            api_key: upstream.api_key.clone(),
            headers: upstream.headers.clone(),
            timeout: upstream.timeout,
            retries: upstream.retries,
        })
    }

    /// The server of a model. `None` if neither the model nor `[upstream]` sets one.
    ///
    /// The key and the headers of `[upstream]` are for its own base URL. A model with another one does not get them.
    pub fn server_of(&self, model: &ModelConfig) -> Option<ModelServerConfig> {
        let upstream = self.upstream_server();
        let shared = upstream.filter(|upstream| model.base_url.as_ref().is_none_or(|url| *url == upstream.base_url));
        let mut headers = shared.as_ref().map(|shared| shared.headers.clone()).unwrap_or_default();
        if model.api_key.is_some() {
            headers.remove("authorization");
        }
        headers.extend(model.headers.clone());
        let (base_url, shared_key) = shared.map(|shared| (shared.base_url, shared.api_key)).unzip();
        Some(ModelServerConfig {
            base_url: model.base_url.clone().or(base_url)?,
            api_key: model.api_key.clone().or(shared_key.flatten()),
            headers,
            timeout: model.timeout.unwrap_or(self.upstream.timeout),
            retries: self.upstream.retries,
        })
    }
}
