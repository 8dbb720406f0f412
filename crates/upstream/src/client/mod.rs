//! The client of an OpenAI-compatible model server.
//!
//! Owns requests, retries and time limits. A call is repeated only if no part of an answer has arrived.

mod answer_stream;
mod body;
mod connection;
mod context_length;
mod failure;
mod models;
mod pass_on;
mod retry;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use herma_model::{ModelCall, ModelEvent, ModelFailure, Retries};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use serde::de::IgnoredAny;

use self::answer_stream::AnswerStream;
use self::connection::Connection;
pub use self::connection::Connections;
use self::failure::FailureMessages;
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

/// A model server that is reached over HTTP.
pub struct HttpModelServer {
    endpoints: Endpoints,
    headers: HeaderMap,
    connection: Connection,
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
        let connection = connections.of_scheme(endpoints.base.scheme())?;
        let values = settings.headers.into_iter().map(|(_, value)| value).chain(endpoints.query_secrets());
        let failures = Arc::new(FailureMessages::new(endpoints.host(), api_key, values));
        Ok(Self { endpoints, headers, connection, timeout: settings.timeout, retries: settings.retries, failures })
    }

    /// Sends a request, with retries, and returns when the answer begins. Cancel-safe.
    async fn send(&self, method: Method, url: &Url, body: Bytes, retries: Retries) -> Result<Response, ModelFailure> {
        let retries = match retries {
            Retries::AsConfigured => self.retries,
            Retries::None => 0,
        };
        let mut attempt = 0;
        loop {
            let failed = match self.attempt(&method, url, &body).await {
                Ok(response) => return Ok(response),
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

    /// Sends a request once. Cancel-safe.
    async fn attempt(&self, method: &Method, url: &Url, body: &Bytes) -> Result<Response, FailedAttempt> {
        let client = self.connection.client().await;
        let client = client.map_err(|error| FailedAttempt::permanent(self.failures.no_client(&error)))?;
        let mut request = Request::new(method.clone(), url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = (method == Method::POST).then(|| body.clone().into());
        let response = match tokio::time::timeout(self.timeout, client.execute(request)).await {
            Err(_) => return Err(FailedAttempt::plain(self.failures.no_answer_within(self.timeout))),
            Ok(Err(error)) => return Err(FailedAttempt::plain(self.failures.unreachable(&error))),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.error_body(response).await;
        Err(FailedAttempt::with_headers(self.failures.status(status, &body), &headers))
    }

    /// The body of an error response, as far as it could be read. Cancel-safe.
    async fn error_body(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(piece)) = response.chunk().await {
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
    async fn whole_body(&self, mut response: Response) -> Result<Vec<u8>, ModelFailure> {
        let expected = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let mut body = Vec::with_capacity(expected.min(MAX_ERROR_BYTES));
        loop {
            let piece = tokio::time::timeout(self.timeout, response.chunk()).await;
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
        drop(call);
        let response = self.send(Method::POST, &self.endpoints.completions, body, retries).await?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let is_document = content_type.contains("json") || content_type.contains("html");
        if streaming && !is_document {
            let is_declared = content_type.starts_with("text/event-stream");
            return Ok(Box::pin(AnswerStream::new(response, is_declared, self.timeout, self.failures.clone())));
        }
        let body = self.whole_body(response).await?;
        let answer = decode_answer(&body).map_err(|error| self.failures.decoding(&error))?;
        if !streaming {
            return Ok(Box::pin(stream::iter([Ok(ModelEvent::Answered(Box::new(answer)))])));
        }
        let (delta, finish) = in_one_piece(answer);
        let delta = Some(delta).filter(|delta| !delta.is_empty()).map(ModelEvent::Delta);
        Ok(Box::pin(stream::iter(delta.into_iter().chain([ModelEvent::Finished(finish)]).map(Ok))))
    }

    async fn pass_on(&self, to: PassedTo, body: Bytes) -> Result<PassedAnswer, ModelFailure> {
        let url = match to {
            PassedTo::Completions => &self.endpoints.text_completions,
            PassedTo::Embeddings => &self.endpoints.embeddings,
        };
        // The client that sent this request decides whether to repeat it.
        let response = self.send(Method::POST, url, body, Retries::None).await?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if content_type.starts_with("text/event-stream") {
            return Ok(PassedAnswer::Stream(pass_on::bytes_of(response, self.timeout, self.failures.clone())));
        }
        let body = self.whole_body(response).await?;
        match serde_json::from_slice::<IgnoredAny>(&body) {
            Ok(_) => Ok(PassedAnswer::Whole(body)),
            Err(error) => Err(self.failures.decoding(&DecodeError::not_json(&body, &error))),
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ModelFailure> {
        let response = self.send(Method::GET, &self.endpoints.models, Bytes::new(), Retries::AsConfigured).await?;
        let body = self.whole_body(response).await?;
        models::decode_models(&body).map_err(|error| self.failures.decoding(&error))
    }

    fn describe(&self) -> String {
        format!("the model server at {}", self.endpoints.without_query())
    }
}
