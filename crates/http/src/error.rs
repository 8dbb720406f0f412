//! Errors as clients see them. Status, code, message, retry advice and metric label are decided only here.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use herma_gateway::{Conflict, Field, GatewayError, KeyProblem, Missing};
use herma_model::turn::FailureCode;
use herma_model::{ModelFailure, TurnFailure};
use herma_store::StoreError;
use herma_wire::BadRequest;
use herma_wire::error::ErrorBody;
use herma_wire::sse;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::dialect::{Dialect, FieldLocation};
use crate::security_headers;

/// Tells the SDKs whether a retry can help, where the status alone would mislead them.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Code: `previous_response_id` names no stored response.
const PREVIOUS_NOT_FOUND: &str = "previous_response_not_found";
/// Code: a header is invalid.
const INVALID_HEADER: &str = "invalid_header";
/// Code: too many WebSockets are open, or this one has reached its lifetime.
const SOCKET_LIMIT: &str = "websocket_connection_limit_reached";

/// Whether a retry of the same request can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryAdvice {
    /// The status alone says it.
    ByStatus,
    /// After this many seconds.
    After(u32),
    /// Never.
    Never,
}

/// The code of an error, attached to its answer for the request log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// An error that can be sent to a client.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    label: &'static str,
    body: Box<ErrorBody>,
    retry: RetryAdvice,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let body =
            ErrorBody { message: message.into(), kind: kind(status).to_owned(), param: None, code: code.to_owned() };
        Self { status, label: code, body: Box::new(body), retry: RetryAdvice::ByStatus }
    }

    fn param(mut self, param: impl Into<String>) -> Self {
        self.body.param = Some(param.into());
        self
    }

    fn retry(mut self, retry: RetryAdvice) -> Self {
        self.retry = retry;
        self
    }

    /// The code for metrics and logs: one of a few fixed words.
    pub(crate) fn label(&self) -> &'static str {
        self.label
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The body, for a stream that is already open.
    pub(crate) fn body(&self) -> &ErrorBody {
        &self.body
    }

    /// The error as a WebSocket event.
    pub(crate) fn event(&self) -> String {
        self.body.to_event(self.event_status())
    }

    /// The error as an event of a stream that opened before its response began.
    pub(crate) fn first_frame(&self) -> Bytes {
        sse::event("error", &self.body.to_first_event(self.event_status()))
    }

    /// The status inside an event. OpenAI's specification says 400 there for an unknown previous response; over HTTP it
    /// is 404.
    fn event_status(&self) -> u16 {
        let is_bad = self.status == StatusCode::NOT_FOUND && self.label == PREVIOUS_NOT_FOUND;
        let status = if is_bad { StatusCode::BAD_REQUEST } else { self.status };
        status.as_u16()
    }

    pub(crate) fn invalid(message: impl Into<String>, param: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message).param(param)
    }

    pub(crate) fn invalid_header(name: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID_HEADER, message).param(name)
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "the API key is missing or not valid; send 'Authorization: Bearer KEY'";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    pub(crate) fn read_only_key() -> Self {
        let message = "this API key may only read; use a key without --read-only";
        Self::new(StatusCode::FORBIDDEN, "read_only_key", message)
    }

    pub(crate) fn headers_need_auth(name: &str) -> Self {
        let message = "session headers need authentication; start the server without --no-auth";
        Self::new(StatusCode::FORBIDDEN, "session_headers_need_auth", message).param(name)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", what)
    }

    pub(crate) fn needs_upgrade() -> Self {
        let message = "this route is a WebSocket: send 'Connection: Upgrade' and 'Upgrade: websocket', or use POST";
        Self::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
    }

    pub(crate) fn origin_not_allowed() -> Self {
        let message =
            "pages of this origin may not open a connection; the operator can add it to 'server.cors_origins'";
        Self::new(StatusCode::FORBIDDEN, "origin_not_allowed", message).param("Origin")
    }

    pub(crate) fn too_many_sockets(limit: usize) -> Self {
        let message = format!("{limit} WebSockets are open, which is the limit; try again later, or use POST");
        Self::new(StatusCode::TOO_MANY_REQUESTS, SOCKET_LIMIT, message)
    }

    pub(crate) fn socket_too_old(limit: Duration) -> Self {
        let message = format!("the connection has been open for {limit:?}, which is the limit; open another one");
        Self::new(StatusCode::BAD_REQUEST, SOCKET_LIMIT, message)
    }

    pub(crate) fn too_many_waiting(most: usize) -> Self {
        let message = format!("a turn is running and {most} messages wait, or as many bytes as one may have");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", format!("{message}, which is the limit"))
    }

    pub(crate) fn not_text() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", "a message must be JSON in a text frame")
    }

    pub(crate) fn unknown_route(path: &str) -> Self {
        match meant_route(path) {
            Some(meant) => {
                Self::not_found(&format!("there is no such route; {meant} is one: base URLs end in one /v1"))
            }
            None => Self::not_found("there is no such route; GET /openapi.json lists them"),
        }
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "this route does not take this method; GET /openapi.json lists what it takes";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!("the request body is larger than {limit} bytes, which is the limit");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub(crate) fn too_many_bodies(limit: usize) -> Self {
        let message =
            format!("the request bodies being read have {limit} bytes together, which is the limit; try again");
        GatewayError::overloaded(message).into()
    }

    pub(crate) fn unreadable_body() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", "the request body broke off")
    }

    pub(crate) fn headers_too_large() -> Self {
        let message = "the headers of the request are too many or too long";
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", message)
    }

    pub(crate) fn address_too_long() -> Self {
        Self::new(StatusCode::URI_TOO_LONG, "address_too_long", "the address of the request is too long")
    }

    pub(crate) fn not_http() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", "the request is not valid HTTP/1.1")
    }

    pub(crate) fn body_too_slow(limit: Duration) -> Self {
        let message = format!("the rest of the request body did not come within {} seconds", limit.as_secs());
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    }

    pub(crate) fn content_encoding() -> Self {
        let message = "compressed request bodies are not read; send the body without 'Content-Encoding'";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message).param("Content-Encoding")
    }

    pub(crate) fn host_not_allowed() -> Self {
        let message = "without authentication only this machine's own names are answered; use http://127.0.0.1 or \
                       http://localhost";
        Self::new(StatusCode::FORBIDDEN, "host_not_allowed", message).param("Host")
    }

    pub(crate) fn media_type() -> Self {
        let message = "the request body must be JSON; send 'Content-Type: application/json'";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn no_approval_pending() -> Self {
        let message = "no approval is pending: the run does not wait for one, or not for this call";
        Self::new(StatusCode::CONFLICT, "approval_not_pending", message).retry(RetryAdvice::Never)
    }

    /// An error of the model server, with that server's status if it is an error status.
    pub(crate) fn of_model_server(failure: &ModelFailure) -> Self {
        let error = Self::of_turn(&TurnFailure::from(failure.clone()), Dialect::Chat);
        match failure.status.and_then(|status| StatusCode::from_u16(status).ok()) {
            Some(status) if status.is_client_error() || status.is_server_error() => {
                let body = ErrorBody { kind: kind(status).to_owned(), param: None, ..*error.body };
                Self { status, body: Box::new(body), ..error }
            }
            _ => error,
        }
    }

    /// An error of the gateway, as clients of these routes see it.
    pub(crate) fn of(error: &GatewayError, dialect: Dialect) -> Self {
        let response = |status| Self::new(status, error.code(), dialect.message(error));
        match error {
            GatewayError::Invalid(invalid) => response(StatusCode::BAD_REQUEST).about(invalid.field(), dialect),
            GatewayError::NotFound(Missing::PreviousResponse) => {
                response(StatusCode::NOT_FOUND).about(Some(Field::PreviousResponse), dialect)
            }
            GatewayError::NotFound(_) => response(StatusCode::NOT_FOUND),
            GatewayError::SessionKey(KeyProblem::Conflict) => response(StatusCode::CONFLICT).retry(RetryAdvice::Never),
            GatewayError::SessionKey(KeyProblem::NotAllowed) => response(StatusCode::FORBIDDEN),
            GatewayError::Busy { retry_after, .. } => {
                let seconds = u32::try_from(retry_after.as_secs()).unwrap_or(u32::MAX);
                response(StatusCode::CONFLICT).retry(RetryAdvice::After(seconds))
            }
            GatewayError::Conflict(Conflict::IdempotencyMismatch) => {
                response(StatusCode::UNPROCESSABLE_ENTITY).param("Idempotency-Key")
            }
            GatewayError::Conflict(Conflict::VersionMismatch) => {
                response(StatusCode::PRECONDITION_FAILED).param("If-Match")
            }
            GatewayError::Conflict(Conflict::Exists) => {
                response(StatusCode::CONFLICT).about(Some(Field::Id), dialect).retry(RetryAdvice::Never)
            }
            GatewayError::Conflict(Conflict::NoApprovalPending) => Self::no_approval_pending(),
            GatewayError::Conflict(_) => response(StatusCode::CONFLICT).retry(RetryAdvice::Never),
            GatewayError::Overloaded(limit) => {
                response(StatusCode::TOO_MANY_REQUESTS).retry(RetryAdvice::After(limit.retry_after_seconds()))
            }
            GatewayError::Draining => response(StatusCode::SERVICE_UNAVAILABLE).retry(RetryAdvice::After(1)),
            GatewayError::Store(error) => error.into(),
            GatewayError::Turn(failure) | GatewayError::CutOff(failure) => Self::of_turn(failure, dialect),
        }
    }

    /// Sets the field that is at fault.
    fn about(self, field: Option<Field>, dialect: Dialect) -> Self {
        match field.map(|field| dialect.locate(field)) {
            None => self,
            Some(FieldLocation::Name(name)) => self.param(name),
            Some(FieldLocation::Header(name)) => {
                let body = ErrorBody { code: INVALID_HEADER.to_owned(), ..*self.body };
                Self { label: INVALID_HEADER, body: Box::new(body), ..self }.param(name)
            }
        }
    }

    fn of_turn(failure: &TurnFailure, dialect: Dialect) -> Self {
        let message = failure.message.clone();
        match failure.code {
            FailureCode::ContextLengthExceeded => {
                Self::new(StatusCode::BAD_REQUEST, "context_length_exceeded", message)
                    .about(Some(Field::Messages), dialect)
            }
            FailureCode::BudgetExceeded => Self::new(StatusCode::BAD_REQUEST, failure.code.as_str(), message),
            FailureCode::UpstreamTimeout => Self::new(StatusCode::GATEWAY_TIMEOUT, failure.code.as_str(), message),
            FailureCode::UpstreamError => {
                let retry = match (failure.upstream_status, failure.retry_after_seconds) {
                    (_, Some(seconds)) => RetryAdvice::After(seconds),
                    (Some(400..=499), None) if !matches!(failure.upstream_status, Some(408 | 425 | 429)) => {
                        RetryAdvice::Never
                    }
                    _ => RetryAdvice::ByStatus,
                };
                Self::new(StatusCode::BAD_GATEWAY, failure.code.as_str(), message).retry(retry)
            }
            FailureCode::Abandoned => {
                Self::new(StatusCode::CONFLICT, failure.code.told(), message).retry(RetryAdvice::After(1))
            }
            FailureCode::Interrupted | FailureCode::Cancelled => {
                Self::new(StatusCode::CONFLICT, failure.code.as_str(), message).retry(RetryAdvice::Never)
            }
            FailureCode::Busy => {
                Self::new(StatusCode::CONFLICT, failure.code.as_str(), message).retry(RetryAdvice::After(1))
            }
            FailureCode::Refused => {
                Self::new(StatusCode::CONFLICT, failure.code.as_str(), message).retry(RetryAdvice::Never)
            }
            FailureCode::Internal => Self::new(StatusCode::INTERNAL_SERVER_ERROR, failure.code.as_str(), message),
        }
    }

    fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message).retry(RetryAdvice::After(1))
    }
}

/// OpenAI's type of error for a status.
fn kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

/// For routes of resources. Routes that run turns have their own dialects: [`ApiError::of`].
impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> Self {
        Self::of(&error, Dialect::Resource)
    }
}

impl From<&StoreError> for ApiError {
    fn from(error: &StoreError) -> Self {
        tracing::warn!(%error, "the store failed");
        Self::unavailable("the store cannot be used right now; try again")
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<BadRequest> for ApiError {
    fn from(bad: BadRequest) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, bad.code, bad.message);
        match bad.param {
            Some(param) => error.param(param),
            None => error,
        }
    }
}

impl ApiError {
    /// The whole answer as bytes, for a connection that closes after it. It has the headers that every answer has.
    pub(crate) fn into_http(self) -> Bytes {
        let (status, json) = (self.status, self.body.to_json());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(json.len()));
        security_headers::add(&mut headers);
        let mut answer = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for (name, value) in &headers {
            answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        answer.extend(b"\r\n");
        answer.extend(json);
        answer.into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body.to_json()).into_response();
        response.extensions_mut().insert(ErrorCode(self.label));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.retry {
            RetryAdvice::ByStatus => {}
            RetryAdvice::After(seconds) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
            RetryAdvice::Never => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
        }
        response
    }
}

/// The route that a client means whose base URL lacks the `/v1`, or has it twice.
fn meant_route(path: &str) -> Option<String> {
    const BELOW_V1: [&str; 7] = ["chat", "responses", "conversations", "runs", "models", "completions", "embeddings"];
    let route = path.strip_prefix("/v1/v1/").or_else(|| path.strip_prefix('/'))?;
    let resource = route.split('/').next().unwrap_or_default();
    BELOW_V1.contains(&resource).then(|| format!("/v1/{}", route.chars().take(64).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use herma_gateway::UndoProblem;
    use herma_model::CompactionId;

    use super::*;

    #[test]
    fn a_compaction_that_cannot_succeed_is_not_retried() {
        let later = CompactionId::from_uuid(uuid::Uuid::from_u128(1));
        for (error, code) in [
            (Conflict::NothingToCompact, "nothing_to_compact"),
            (Conflict::CannotUndo(UndoProblem::AlreadyUndone), "cannot_undo"),
            (Conflict::CannotUndo(UndoProblem::Covered(later)), "cannot_undo"),
            (Conflict::TooManyPins { limit: 100 }, "too_many_pins"),
        ] {
            let error = ApiError::from(GatewayError::Conflict(error));
            assert_eq!((error.label(), error.status, error.retry), (code, StatusCode::CONFLICT, RetryAdvice::Never));
        }
        let too_many = ApiError::from(GatewayError::Conflict(Conflict::TooManyPins { limit: 100 }));
        assert!(too_many.body().message.contains("100"), "a refusal names its limit");
    }

    #[test]
    fn an_answer_to_a_malformed_head_has_the_headers_of_every_answer() {
        let answer = String::from_utf8(ApiError::not_http().into_http().to_vec()).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        for line in [
            "HTTP/1.1 400 Bad Request",
            "content-type: application/json",
            "connection: close",
            &length,
            "cache-control: no-store",
            "x-content-type-options: nosniff",
        ] {
            assert!(head.lines().any(|had| had == line), "{line} in {head}");
        }
    }
}
