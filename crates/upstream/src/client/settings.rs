//! How to reach a model server, and errors about settings that cannot work.

use std::fmt;
use std::time::Duration;

use reqwest::Url;

/// How to reach a model server. Proxies of the environment are not used. Redirects are not followed.
#[derive(Clone)]
pub struct HttpSettings {
    /// The base URL of its API, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, sent as a bearer token.
    pub api_key: Option<String>,
    /// Headers sent with every request. One of the name `Authorization` is sent in place of the key.
    pub headers: Vec<(String, String)>,
    /// The longest wait for the beginning of an answer, and between two pieces of it.
    pub timeout: Duration,
    /// How often a call is repeated if no part of an answer has arrived.
    pub retries: u32,
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings")
            .field("has_api_key", &self.api_key.is_some())
            .field("timeout", &self.timeout)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

/// Why settings cannot work. The messages contain no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The base URL is not a URL. Correct the setting.
    #[error("the model server's base URL is not a URL: {0}")]
    NotAUrl(String),
    /// The scheme is neither `http` nor `https`. Correct the setting.
    #[error("the model server's base URL must begin with http:// or https://, not {0}:")]
    Scheme(String),
    /// The URL contains a user name or password, which logs would show. Use the key setting.
    #[error("the model server's base URL must not contain a user name or password; set the API key instead")]
    Credentials,
    /// The key cannot be sent in a header. Correct the setting.
    #[error("the model server's API key contains characters that cannot be sent")]
    Key,
    /// A header cannot be sent. Correct the setting.
    #[error("the header {0:?} of the model server cannot be sent")]
    Header(String),
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The URLs of a model server.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    pub(super) base: Url,
    pub(super) completions: Url,
    pub(super) text_completions: Url,
    pub(super) embeddings: Url,
    pub(super) models: Url,
}

impl Endpoints {
    /// Reads a base URL. Keeps its query, because some servers want one in every request.
    pub(super) fn parse(base_url: &str) -> Result<Self, SettingsError> {
        let mut base = Url::parse(base_url.trim()).map_err(|error| SettingsError::NotAUrl(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(SettingsError::Scheme(base.scheme().to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(SettingsError::Credentials);
        }
        base.set_fragment(None);
        let path = base.path().trim_end_matches('/').to_owned();
        let at = |end: &str| {
            let mut url = base.clone();
            url.set_path(&format!("{path}{end}"));
            url
        };
        Ok(Self {
            completions: at("/chat/completions"),
            text_completions: at("/completions"),
            embeddings: at("/embeddings"),
            models: at("/models"),
            base: at(""),
        })
    }

    /// `host`, or `host:port` if the URL names a port.
    pub(super) fn host(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        self.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The values of the query that may be secrets: all but those of a version.
    pub(super) fn query_secrets(&self) -> impl Iterator<Item = String> {
        let pairs = self.base.query_pairs().filter(|(name, _)| name != "api-version");
        pairs.map(|(_, value)| value.into_owned())
    }

    /// The base URL without its query, which may hold a secret.
    pub(super) fn without_query(&self) -> String {
        let mut url = self.base.clone();
        url.set_query(None);
        url.as_str().trim_end_matches('/').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_appended_to_the_base_url() {
        for (base, completions, shown) in [
            ("http://localhost:11434/v1", "http://localhost:11434/v1/chat/completions", "http://localhost:11434/v1"),
            (
                " https://api.example.com/v1/ ",
                "https://api.example.com/v1/chat/completions",
                "https://api.example.com/v1",
            ),
            ("http://[::1]:8080", "http://[::1]:8080/chat/completions", "http://[::1]:8080"),
            (
                "https://a.example/openai/deployments/x?api-version=2024-10-21",
                "https://a.example/openai/deployments/x/chat/completions?api-version=2024-10-21",
                "https://a.example/openai/deployments/x",
            ),
        ] {
            let endpoints = Endpoints::parse(base).unwrap();
            assert_eq!(endpoints.completions.as_str(), completions);
            assert_eq!(endpoints.without_query(), shown);
        }
    }

    #[test]
    fn unusable_urls_are_refused_without_quoting_them() {
        let refused = |base: &str| Endpoints::parse(base).unwrap_err();
        assert!(matches!(refused("api.example.com"), SettingsError::NotAUrl(_)));
        assert_eq!(refused("localhost:80/v1"), SettingsError::Scheme("localhost".to_owned()));
        assert_eq!(refused("ftp://a.example"), SettingsError::Scheme("ftp".to_owned()));
        assert_eq!(refused("https://me:secret@a.example"), SettingsError::Credentials);
    }
}
