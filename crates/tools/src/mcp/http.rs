//! A server over streamable HTTP: the library's transport over a client that never reads more than the largest message.
//!
//! The library's own client reads a JSON body of any size, so posting is done here; its streams are bounded already.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};
use tokio::sync::Notify;

use super::{LARGEST_MESSAGE, TOO_LARGE, TOO_LARGE_CODE};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const MOST_REDIRECTS: usize = 3;
/// How much of a refusal is read: it holds an error message.
const LARGEST_REFUSAL: usize = 64 * 1024;

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Makes the transport. Nothing is sent yet.
pub(super) async fn transport(
    label: &str,
    url: &str,
    headers: &[(String, String)],
    changes: Arc<Notify>,
) -> Result<StreamableHttpClientTransport<BoundedClient>, String> {
    let client =
        herma_outbound::client(url, |builder| builder.connect_timeout(CONNECT_TIMEOUT).redirect(redirects())).await;
    let client = client.map_err(|error| format!("The MCP server `{label}` has no HTTP client: {error}."))?;
    let mut custom = Headers::new();
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()));
        let (Ok(parsed_name), Ok(mut value)) = parsed else {
            return Err(format!("`{name}` in `headers` of [tools.mcp.{label}] is no HTTP header. Correct it."));
        };
        value.set_sensitive(true);
        custom.insert(parsed_name, value);
    }
    let client = BoundedClient { client, changes, was_initialized: Arc::default() };
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom).max_sse_event_size(LARGEST_MESSAGE);
    config.retry_config = Arc::new(reconnects());
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// A broken stream is opened again a few times. Afterwards the next call finds out what has become of the server.
fn reconnects() -> FixedInterval {
    let mut policy = FixedInterval::default();
    policy.max_times = Some(5);
    policy.duration = Duration::from_secs(1);
    policy
}

/// Follows a redirect that repeats the request at the same host, as from `/mcp` to `/mcp/`. Another host would be shown
/// the headers.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let repeats = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if repeats && is_same && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
    })
}

/// An HTTP client that reads bounded answers.
#[derive(Clone)]
pub(super) struct BoundedClient {
    client: Client,
    changes: Arc<Notify>,
    was_initialized: Arc<AtomicBool>,
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request =
            self.client.post(uri.as_ref()).header(ACCEPT, [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", "));
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        if let Some(session_id) = &session_id {
            request = request.header(HEADER_SESSION_ID, session_id.as_ref());
        }
        let body = serde_json::to_vec(&message)?;
        let response = request.header(CONTENT_TYPE, JSON_MIME_TYPE).body(body).send().await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(HttpError::SessionExpired);
        }
        if !status.is_success() {
            return refused(&message, session_id.is_none(), response).await;
        }
        if is_initialized(&message) && self.was_initialized.swap(true, Ordering::Relaxed) {
            // The server has forgotten the session. It may have other tools now.
            self.changes.notify_one();
        }
        let Some(id) = request_id(&message) else { return Ok(StreamableHttpPostResponse::Accepted) };
        answered(id, response).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), HttpError> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let client = &self.client;
        client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                LARGEST_MESSAGE,
            )
            .await
    }
}

/// The answer to a request: a message, or a stream that brings it.
async fn answered(id: RequestId, response: Response) -> Result<StreamableHttpPostResponse, HttpError> {
    if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let session_id = response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let kind = content_type(&response);
    if kind.starts_with(EVENT_STREAM_MIME_TYPE) {
        return Ok(StreamableHttpPostResponse::Sse(events(id, response), session_id));
    }
    if !kind.starts_with(JSON_MIME_TYPE) {
        return Err(HttpError::UnexpectedContentType(Some(kind)));
    }
    let message = match body(response, LARGEST_MESSAGE).await? {
        Some(body) => serde_json::from_slice(&body)?,
        None => too_large(id),
    };
    Ok(StreamableHttpPostResponse::Json(message, session_id))
}

/// A refusal: the server's JSON-RPC error, else the status.
async fn refused(
    message: &ClientJsonRpcMessage,
    is_sessionless: bool,
    response: Response,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let status = response.status();
    let failed = Err(HttpStatusError::new(status.as_u16(), None).into());
    let is_about_credentials = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // Some servers say so of a session that they have forgotten.
    let is_about_session = status == StatusCode::BAD_REQUEST && !is_sessionless;
    let Some(id) = request_id(message).filter(|_| !is_about_credentials && !is_about_session) else { return failed };
    let body = if content_type(&response).starts_with(JSON_MIME_TYPE) {
        body(response, LARGEST_REFUSAL).await?.unwrap_or_default()
    } else {
        Vec::new()
    };
    // The id is set anew: a server that could not read the request cannot repeat its id.
    let json = |error| Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id.clone())), None));
    match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => json(error.error),
        // An older server may refuse the request for its revisions in any way. It is then asked in the older way.
        _ if is_discovery(message) && is_sessionless && status.is_client_error() => {
            json(ErrorData::invalid_request(format!("HTTP {status}"), None))
        }
        _ => failed,
    }
}

/// The events of an answer. One that is too large becomes an error of the request.
fn events(id: RequestId, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let too_big = Arc::new(AtomicBool::new(false));
    let exceeded = too_big.clone();
    let mut event = EventSize::default();
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        if event.grow(&chunk) > LARGEST_MESSAGE {
            exceeded.store(true, Ordering::Relaxed);
            return Err(std::io::Error::other(TOO_LARGE));
        }
        Ok(chunk)
    });
    let events = SseStream::from_bytes_stream(bytes);
    let refusal = move || serde_json::to_string(&too_large(id.clone())).unwrap_or_default();
    let state = (events.boxed(), Some(refusal));
    let events = stream::unfold(state, move |(mut events, refusal)| {
        let too_big = too_big.clone();
        async move {
            let refusal = refusal?;
            match events.next().await? {
                Err(_) if too_big.load(Ordering::Relaxed) => Some((Ok(Sse::default().data(refusal())), (events, None))),
                event => Some((event, (events, Some(refusal)))),
            }
        }
    });
    events.boxed()
}

/// Counts the bytes since the last empty line.
#[derive(Default)]
struct EventSize {
    size: usize,
    line: usize,
}

impl EventSize {
    /// Reads on and says how large the largest event was on the way.
    fn grow(&mut self, chunk: &[u8]) -> usize {
        let mut largest = 0;
        for &byte in chunk {
            self.size += 1;
            match byte {
                b'\n' if self.line == 0 => self.size = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            largest = largest.max(self.size);
        }
        largest
    }
}

/// The whole body; `None` if it is larger than the limit.
async fn body(mut response: Response, limit: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE);
    value.map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase()).unwrap_or_default()
}

fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode(TOO_LARGE_CODE), TOO_LARGE, None), Some(id))
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

fn is_initialized(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Notification(sent)
        if matches!(sent.notification, ClientNotification::InitializedNotification(_)))
}
