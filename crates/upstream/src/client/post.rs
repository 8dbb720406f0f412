//! Posts documents to a server that is no model server, such as a collector of telemetry. It uses the same connections
//! and certificates as the calls of models.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;

use super::answer_body::Answer;
use super::pool::{Connections, Pool};
use super::retry::asked_wait;
use super::settings::{Endpoints, SettingsError};

/// How much of an answer is read.
const MAX_ANSWER: usize = 64 * 1024;

/// Why a document was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPosted {
    /// For the log, without a secret.
    pub why: String,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// The pause that the server asks for.
    pub retry_after: Option<Duration>,
}

/// Where documents are posted to.
pub struct PostTarget {
    uri: Uri,
    host: String,
    headers: HeaderMap,
    connections: Arc<Pool>,
    timeout: Duration,
}

impl PostTarget {
    /// Checks the settings. Sends nothing. `timeout` is for a whole request and its answer.
    pub fn new(
        url: &str,
        headers: &[(String, String)],
        content_type: &'static str,
        timeout: Duration,
        connections: &Connections,
    ) -> Result<Self, SettingsError> {
        let endpoints = Endpoints::parse(url)?;
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            let refused = || SettingsError::Header(name.clone());
            let mut value = HeaderValue::try_from(value).map_err(|_| refused())?;
            value.set_sensitive(true);
            sent.insert(HeaderName::try_from(name).map_err(|_| refused())?, value);
        }
        sent.insert(HOST, endpoints.host_header.clone());
        sent.insert(USER_AGENT, HeaderValue::from_static(concat!("herma/", env!("CARGO_PKG_VERSION"))));
        sent.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Ok(Self {
            uri: endpoints.itself()?,
            host: endpoints.host(),
            headers: sent,
            connections: connections.to(&endpoints.origin),
            timeout,
        })
    }

    /// Posts a document, once. Returns the beginning of the answer's body. Cancel-safe.
    pub async fn post(&self, body: Bytes) -> Result<Bytes, NotPosted> {
        let failed = |why: String, status| NotPosted { why, status, retry_after: None };
        let posting = async {
            let mut request = Request::new(Full::new(body));
            *request.method_mut() = Method::POST;
            *request.uri_mut() = self.uri.clone();
            *request.headers_mut() = self.headers.clone();
            let sent = self.connections.send(request).await;
            let Answer { status, headers, mut body } =
                sent.map_err(|error| failed(format!("{} cannot be reached: {error}", self.host), None))?;
            let mut answer = Vec::new();
            while let Ok(Some(piece)) = body.piece().await {
                answer.extend_from_slice(&piece);
                if answer.len() > MAX_ANSWER {
                    break;
                }
            }
            if (200..300).contains(&status) {
                return Ok(Bytes::from(answer));
            }
            let retry_after = asked_wait(&headers);
            let why = format!("{} answered with status {status}", self.host);
            Err(NotPosted { retry_after, ..failed(why, Some(status)) })
        };
        let too_late = || failed(format!("{} did not answer within {:?}", self.host, self.timeout), None);
        tokio::time::timeout(self.timeout, posting).await.unwrap_or_else(|_| Err(too_late()))
    }
}
