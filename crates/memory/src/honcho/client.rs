//! The HTTP client of a Honcho server: one request, one bounded answer.
//!
//! Its errors never say what was sent or answered, because both may be a person's words, nor the key.

use std::fmt;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;
use url::Url;

use super::HonchoSettings;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one request may take. A delivery's lease is much longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The most bytes of an answer that are read.
const LARGEST_ANSWER: usize = 2 * 1024 * 1024;
/// The longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The version of the API.
const VERSION: &str = "v3";

/// The key of a Honcho server. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Why a request has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum HonchoError {
    /// There is no client, because of the settings or the machine.
    #[error("Honcho cannot be asked: {0}")]
    NoClient(String),
    /// No answer came.
    #[error("Honcho cannot be reached: {0}")]
    Unreachable(&'static str),
    /// The server does not want the request, or cannot serve it now.
    #[error("Honcho answered with status {status}")]
    Status {
        /// The status.
        status: u16,
        /// How long the server wants us to wait.
        retry_after: Option<Duration>,
    },
    /// The answer has another form than the API's.
    #[error("Honcho's answer is not what its API says: {0}")]
    Nonsense(&'static str),
}

impl HonchoError {
    /// Whether there is no such thing at the server.
    pub(super) const fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status: 404, .. })
    }

    /// Whether the same request would be refused again.
    pub(super) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Status { status: 400 | 413 | 415 | 422, .. })
    }

    /// How long the server wants us to wait.
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::NoClient(_) | Self::Unreachable(_) | Self::Nonsense(_) => None,
        }
    }
}

/// The client of one server. The connection is made when it is first needed.
#[derive(Debug)]
pub(super) struct HonchoClient {
    base_url: String,
    api_key: Option<ApiKey>,
    client: OnceCell<Client>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Request<'a> {
    method: Method,
    /// The parts of the path after the version.
    path: &'a [&'a str],
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
}

impl<'a> Request<'a> {
    /// A request without a body.
    pub(super) const fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self { method, path, query: Vec::new(), body: None }
    }

    /// A `POST` with a JSON body.
    pub(super) const fn post(path: &'a [&'a str], body: Value) -> Self {
        Self { method: Method::POST, path, query: Vec::new(), body: Some(body) }
    }

    /// The same with another method.
    pub(super) fn by(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// The same with a parameter.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }
}

impl HonchoClient {
    pub(super) fn new(settings: &HonchoSettings) -> Self {
        let base_url = settings.base_url.trim_end_matches('/');
        let base_url = base_url.strip_suffix("/v3").unwrap_or(base_url).to_owned();
        Self { base_url, api_key: settings.api_key.clone(), client: OnceCell::new() }
    }

    /// Sends a request and reads its answer. Cancel-safe as far as the server is: it may do what was asked.
    pub(super) async fn ask<T: DeserializeOwned>(&self, request: Request<'_>) -> Result<T, HonchoError> {
        let body = self.send(request).await?;
        serde_json::from_slice(&body).map_err(|_| HonchoError::Nonsense("a field is missing or of another type"))
    }

    /// Sends a request whose answer does not matter.
    pub(super) async fn tell(&self, request: Request<'_>) -> Result<(), HonchoError> {
        self.send(request).await.map(drop)
    }

    async fn send(&self, request: Request<'_>) -> Result<Vec<u8>, HonchoError> {
        let client = self.client().await?;
        let mut sent = client.request(request.method.clone(), self.url(&request)?).timeout(REQUEST_TIMEOUT);
        if let Some(body) = &request.body {
            sent = sent.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = sent.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(HonchoError::Status { status: status.as_u16(), retry_after: retry_after(response.headers()) });
        }
        body(response).await
    }

    fn url(&self, request: &Request<'_>) -> Result<Url, HonchoError> {
        let mut url = Url::parse(&self.base_url)
            .map_err(|_| HonchoError::NoClient("`memory.base_url` is no address".to_owned()))?;
        match url.path_segments_mut() {
            Ok(mut path) => drop(path.pop_if_empty().push(VERSION).extend(request.path)),
            Err(()) => return Err(HonchoError::NoClient("`memory.base_url` has no path".to_owned())),
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        Ok(url)
    }

    async fn client(&self) -> Result<&Client, HonchoError> {
        self.client
            .get_or_try_init(|| async {
                let headers = self.headers()?;
                let made = herma_outbound::client(&self.base_url, |builder| {
                    // Another host would be shown the key and what was said.
                    let builder = builder.redirect(Policy::none());
                    builder.default_headers(headers).connect_timeout(CONNECT_TIMEOUT)
                });
                made.await.map_err(HonchoError::NoClient)
            })
            .await
    }

    fn headers(&self) -> Result<HeaderMap, HonchoError> {
        let mut headers = HeaderMap::new();
        if let Some(ApiKey(key)) = &self.api_key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
                HonchoError::NoClient("`memory.api_key` has characters that no HTTP header can have".to_owned())
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

/// The whole body, if it is not too large.
async fn body(mut response: Response) -> Result<Vec<u8>, HonchoError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            return Err(HonchoError::Nonsense("it is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why no answer came, without the URL: it may have the person's words.
fn unreachable(error: &reqwest::Error) -> HonchoError {
    HonchoError::Unreachable(if error.is_timeout() {
        "it did not answer in time"
    } else if herma_outbound::is_untrusted(error) {
        "its certificate is not trusted; SSL_CERT_FILE can name a file with the certificates that you trust"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    })
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// The status of a workspace that still has sessions.
pub(super) const CONFLICT: u16 = StatusCode::CONFLICT.as_u16();
