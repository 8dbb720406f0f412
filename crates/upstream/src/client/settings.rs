//! How to reach a model server, and errors about settings that cannot work.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;
use url::{Host, Url};

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

/// Where connections to a model server go.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// Scheme, host and port.
    pub(super) address: Uri,
    /// The name that the server's certificate must have. `None` for `http`.
    pub(super) certified_name: Option<ServerName<'static>>,
}

/// The addresses of a model server, in the forms in which requests need them.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    base: Url,
    pub(super) origin: Origin,
    /// The value of the header `Host`.
    pub(super) host_header: HeaderValue,
    /// Path and query of each route.
    pub(super) completions: Uri,
    pub(super) text_completions: Uri,
    pub(super) embeddings: Uri,
    pub(super) models: Uri,
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
        base.set_path(&path);
        let at = |end: &str| {
            let query = base.query().map(|query| format!("?{query}")).unwrap_or_default();
            Uri::try_from(format!("{path}{end}{query}")).map_err(|error| SettingsError::NotAUrl(error.to_string()))
        };
        let host = host(&base);
        Ok(Self {
            completions: at("/chat/completions")?,
            text_completions: at("/completions")?,
            embeddings: at("/embeddings")?,
            models: at("/models")?,
            origin: Origin::parse(&base, &host)?,
            host_header: HeaderValue::try_from(host).map_err(|error| SettingsError::NotAUrl(error.to_string()))?,
            base,
        })
    }

    /// Path and query of the base URL itself.
    pub(super) fn itself(&self) -> Result<Uri, SettingsError> {
        let query = self.base.query().map(|query| format!("?{query}")).unwrap_or_default();
        Uri::try_from(format!("{}{query}", self.base.path())).map_err(|error| SettingsError::NotAUrl(error.to_string()))
    }

    /// `host`, or `host:port` if the URL names a port.
    pub(super) fn host(&self) -> String {
        host(&self.base)
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

impl Origin {
    fn parse(base: &Url, host: &str) -> Result<Self, SettingsError> {
        let address = Uri::try_from(format!("{}://{host}/", base.scheme()));
        let address = address.map_err(|error| SettingsError::NotAUrl(error.to_string()))?;
        let certified_name = match base.host() {
            Some(Host::Domain(name)) if base.scheme() == "https" => {
                let name = ServerName::try_from(name.to_owned());
                Some(name.map_err(|error| SettingsError::NotAUrl(error.to_string()))?)
            }
            Some(Host::Ipv4(address)) if base.scheme() == "https" => Some(IpAddr::V4(address).into()),
            Some(Host::Ipv6(address)) if base.scheme() == "https" => Some(IpAddr::V6(address).into()),
            _ => None,
        };
        Ok(Self { address, certified_name })
    }
}

/// `host`, or `host:port` if the URL names a port other than its scheme's.
fn host(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_appended_to_the_base_url() {
        for (base, host, completions, shown) in [
            ("http://localhost:11434/v1", "localhost:11434", "/v1/chat/completions", "http://localhost:11434/v1"),
            (
                " https://api.example.com:443/v1/#x ",
                "api.example.com",
                "/v1/chat/completions",
                "https://api.example.com/v1",
            ),
            ("http://[::1]:8080", "[::1]:8080", "/chat/completions", "http://[::1]:8080"),
            ("https://[::1]", "[::1]", "/chat/completions", "https://[::1]"),
            (
                "https://a.example/openai/deployments/x y?api-version=2024-10-21&a|b={}",
                "a.example",
                "/openai/deployments/x%20y/chat/completions?api-version=2024-10-21&a|b={}",
                "https://a.example/openai/deployments/x%20y",
            ),
        ] {
            let endpoints = Endpoints::parse(base).unwrap();
            assert_eq!(endpoints.completions, completions);
            assert_eq!(endpoints.without_query(), shown);
            assert_eq!((endpoints.host().as_str(), endpoints.host_header.as_bytes()), (host, host.as_bytes()));
            assert_eq!(endpoints.origin.certified_name.is_some(), shown.starts_with("https"));
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
