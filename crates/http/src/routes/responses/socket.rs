//! `GET /v1/responses`: opens a WebSocket that carries one turn after another.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::{IntoResponse, Response};
use http::header::{ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderValue};

use super::connection::{Connection, refuse};
use crate::app::Shared;
use crate::error::ApiError;
use crate::headers::SessionHeaders;

/// Opens a WebSocket. Its session headers apply to every turn on it.
pub(crate) async fn connect(
    State(app): State<Shared>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    // Browsers let any page open a WebSocket to any server, so the page's origin is checked here.
    if headers.get(ORIGIN).is_some_and(|origin| !app.settings.allows(origin)) {
        return Err(ApiError::origin_not_allowed());
    }
    let Ok(upgrade) = upgrade else { return Ok(needs_upgrade()) };
    let turns = turn_headers(&headers)?.in_chat(&app, &headers);
    // Messages up to twice the limit are read to their end, so that the client can be told that they are too large.
    let limit = app.settings.max_body_bytes.saturating_mul(2);
    let upgrade = upgrade.max_message_size(limit).max_frame_size(limit);
    Ok(match app.sockets.try_acquire() {
        None => {
            let error = ApiError::too_many_sockets(app.sockets.limit());
            upgrade.on_upgrade(async move |socket| refuse(socket, &error).await)
        }
        Some(permit) => upgrade.on_upgrade(async move |socket| {
            Connection::new(permit, app, headers, turns, socket).serve().await;
        }),
    })
}

/// The headers that apply to each turn. Headers that identify a single request are refused.
fn turn_headers(headers: &HeaderMap) -> Result<SessionHeaders, ApiError> {
    let headers = SessionHeaders::read(headers)?;
    if headers.idempotency_key.is_some() {
        let message = "Idempotency-Key names one request, and a WebSocket carries many; leave it out, or use POST";
        return Err(ApiError::invalid_header("Idempotency-Key", message));
    }
    if headers.if_match.is_some() {
        let message = "If-Match is about one request, and a WebSocket carries many; leave it out, or use POST";
        return Err(ApiError::invalid_header("If-Match", message));
    }
    Ok(SessionHeaders { sdk_attempt: 0, ..headers })
}

fn needs_upgrade() -> Response {
    let mut response = ApiError::needs_upgrade().into_response();
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    response
}
