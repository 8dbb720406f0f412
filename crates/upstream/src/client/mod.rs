//! The client of an OpenAI-compatible model server.
//!
//! Owns requests, retries and time limits. A call is repeated only if no part of an answer has arrived.

mod answer_body;
mod answer_stream;
mod body;
mod certificates;
mod connection;
mod connector;
mod context_length;
mod failure;
mod models;
mod pass_on;
mod pool;
mod post;
mod retry;
mod settings;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use herma_model::{ModelCall, ModelEvent, ModelFailure, Retries, TraceContext};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;
use serde::de::IgnoredAny;

use self::answer_body::{Answer, AnswerBody};
use self::answer_stream::AnswerStream;
use self::connector::ConnectError;
use self::failure::FailureMessages;
pub use self::pool::Connections;
use self::pool::{Pool, SendError};
pub use self::post::{NotPosted, PostTarget};
use self::retry::FailedAttempt;
use self::settings::Endpoints;
pub use self::settings::{HttpSettings, SettingsError};
use crate::decode::{DecodeError, decode_answer, in_one_piece};
use crate::server::{ModelInfo, ModelServer, ModelStream, PassedAnswer, PassedTo};

/// The largest body that is read as one answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// How much of the body of an error response is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long reading the body of an error response may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// A model server that is reached over HTTP.
pub struct HttpModelServer {
    endpoints: Endpoints,
    /// The headers of every request.
    headers: HeaderMap,
    connections: Arc<Pool>,
    timeout: Duration,
    retries: u32,
    failures: Arc<FailureMessages>,
}

impl HttpModelServer {
    /// Checks the settings. Sends nothing. For `https`, certificates are loaded in the background.
    pub fn new(settings: HttpSettings, connections: &Connections) -> Result<Self, SettingsError> {
        let endpoints = Endpoints::parse(&settings.base_url)?;
        let api_key = settings.api_key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
        let mut headers = HeaderMap::new();
        headers.insert(HOST, endpoints.host_header.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("herma/", env!("CARGO_PKG_VERSION"))));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(key) = &api_key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| SettingsError::Key)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &settings.headers {
            let refused = || SettingsError::Header(name.clone());
            let mut value = HeaderValue::try_from(value).map_err(|_| refused())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name).map_err(|_| refused())?, value);
        }
        let connections = connections.to(&endpoints.origin);
        let values = settings.headers.into_iter().map(|(_, value)| value).chain(endpoints.query_secrets());
        let failures = Arc::new(FailureMessages::new(endpoints.host(), api_key, values));
        Ok(Self { endpoints, headers, connections, timeout: settings.timeout, retries: settings.retries, failures })
    }

    /// Sends a request, with retries, and returns when the answer begins. Cancel-safe.
    async fn send(
        &self,
        (method, uri): (Method, &Uri),
        body: Bytes,
        retries: Retries,
        trace: Option<&TraceContext>,
    ) -> Result<Answer, ModelFailure> {
        let headers = self.headers_with(trace);
        let retries = match retries {
            Retries::AsConfigured => self.retries,
            Retries::None => 0,
        };
        let mut attempt = 0;
        loop {
            let failed = match self.attempt(&method, uri, &headers, &body).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let Some(wait) = failed.wait_before_next(attempt, retries) else {
                return Err(failed.failure);
            };
            let (status, why) = (failed.failure.status, failed.failure.for_log());
            let server = self.failures.host();
            tracing::warn!(server, attempt, ?wait, status, %why, "the model server failed; the call is repeated");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// The headers of a request. A trace adds its own. Headers of the settings count more.
    fn headers_with(&self, trace: Option<&TraceContext>) -> Cow<'_, HeaderMap> {
        let Some(trace) = trace else { return Cow::Borrowed(&self.headers) };
        let mut headers = self.headers.clone();
        let state = trace.state.as_ref().map(ToString::to_string);
        for (name, text) in [(TRACE_PARENT, Some(trace.to_parent())), (TRACE_STATE, state)] {
            if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
                headers.entry(name).or_insert(value);
            }
        }
        Cow::Owned(headers)
    }

    /// Sends a request once. Cancel-safe.
    async fn attempt(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Answer, FailedAttempt> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers.clone();
        let answer = match tokio::time::timeout(self.timeout, self.connections.send(request)).await {
            Err(_) => return Err(FailedAttempt::plain(self.failures.no_answer_within(self.timeout))),
            Ok(Err(SendError::Connect(ConnectError::Settings(error)))) => {
                return Err(FailedAttempt::permanent(self.failures.no_client(&error)));
            }
            Ok(Err(error)) => return Err(FailedAttempt::plain(self.failures.unreachable(&error))),
            Ok(Ok(answer)) => answer,
        };
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        let Answer { status, headers, body } = answer;
        let body = self.error_body(body).await;
        Err(FailedAttempt::with_headers(self.failures.status(status, &body), &headers))
    }

    /// The body of an error response, as far as it could be read. Cancel-safe.
    async fn error_body(&self, mut answer: AnswerBody) -> Vec<u8> {
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(piece)) = answer.piece().await {
                body.extend_from_slice(&piece);
                if body.len() > MAX_ERROR_BYTES {
                    break;
                }
            }
        };
        // If the body does not arrive in time, the status must be enough.
        drop(tokio::time::timeout(self.timeout.min(ERROR_BODY_TIMEOUT), reading).await);
        body
    }

    /// Reads a whole body. Cancel-safe.
    async fn whole_body(&self, mut answer: AnswerBody) -> Result<Vec<u8>, ModelFailure> {
        let expected = answer.expected().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let mut body = Vec::with_capacity(expected.min(MAX_ERROR_BYTES));
        loop {
            let piece = tokio::time::timeout(self.timeout, answer.piece()).await;
            match piece.map_err(|_| self.failures.silent_for(self.timeout))?.map_err(|_| self.failures.cut_off())? {
                None => return Ok(body),
                Some(piece) => body.extend_from_slice(&piece),
            }
            if body.len() > MAX_ANSWER_BYTES {
                return Err(self.failures.too_large(MAX_ANSWER_BYTES));
            }
        }
    }
}

#[async_trait]
impl ModelServer for HttpModelServer {
    async fn call(&self, call: ModelCall) -> Result<ModelStream, ModelFailure> {
        let (streaming, retries) = (call.streaming, call.retries);
        let body = body::request_body(&call);
        let trace = call.trace;
        drop((call.messages, call.params));
        let completions = (Method::POST, &self.endpoints.completions);
        let answer = self.send(completions, body, retries, trace.as_ref()).await?;
        let content_type = answer.content_type();
        let is_document = content_type.contains("json") || content_type.contains("html");
        if streaming && !is_document {
            let is_declared = content_type.starts_with("text/event-stream");
            return Ok(Box::pin(AnswerStream::new(answer.body, is_declared, self.timeout, self.failures.clone())));
        }
        let body = self.whole_body(answer.body).await?;
        let answer = decode_answer(&body).map_err(|error| self.failures.decoding(&error))?;
        if !streaming {
            return Ok(Box::pin(stream::iter([Ok(vec![ModelEvent::Answered(Box::new(answer))])])));
        }
        let (delta, finish) = in_one_piece(answer);
        let delta = Some(delta).filter(|delta| !delta.is_empty()).map(ModelEvent::Delta);
        let events = delta.into_iter().chain([ModelEvent::Finished(finish)]).collect();
        Ok(Box::pin(stream::iter([Ok(events)])))
    }

    async fn pass_on(
        &self,
        to: PassedTo,
        body: Bytes,
        trace: Option<&TraceContext>,
    ) -> Result<PassedAnswer, ModelFailure> {
        let uri = match to {
            PassedTo::Completions => &self.endpoints.text_completions,
            PassedTo::Embeddings => &self.endpoints.embeddings,
        };
        // The client that sent this request decides whether to repeat it.
        let answer = self.send((Method::POST, uri), body, Retries::None, trace).await?;
        let content_type = answer.content_type();
        if content_type.starts_with("text/event-stream") {
            return Ok(PassedAnswer::Stream(pass_on::bytes_of(answer.body, self.timeout, self.failures.clone())));
        }
        let body = self.whole_body(answer.body).await?;
        match serde_json::from_slice::<IgnoredAny>(&body) {
            Ok(_) => Ok(PassedAnswer::Whole(body)),
            Err(error) => Err(self.failures.decoding(&DecodeError::not_json(&body, &error))),
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ModelFailure> {
        let answer =
            self.send((Method::GET, &self.endpoints.models), Bytes::new(), Retries::AsConfigured, None).await?;
        let body = self.whole_body(answer.body).await?;
        models::decode_models(&body).map_err(|error| self.failures.decoding(&error))
    }

    fn host(&self) -> Option<&str> {
        Some(self.failures.host())
    }

    fn describe(&self) -> String {
        format!("the model server at {}", self.endpoints.without_query())
    }
}
