//! Shared by all routes that answer with a turn: identify the request, wait for the end of the turn, send the answer.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use herma_gateway::{Caller, Destination, Finished, SessionView, ToolOffer, TurnEvent, TurnHandle, TurnRequest};
use herma_model::{Principal, SessionKind, TenantId, TurnId};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};

use crate::app::{ORIGIN, Shared};
use crate::body::{Delivery, TrackedBody};
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::{self, SessionHeaders};
use crate::request_log::Notes;

/// A digest of a body, by which a repeated request is recognised.
fn digest(body: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(body)[..16]);
    digest
}

/// The turn that a request asks for, with what its headers say. The caller adds what the body says.
pub(crate) fn turn_request(
    principal: Principal,
    headers: SessionHeaders,
    destination: impl Into<Destination>,
    route: &'static str,
    body: &[u8],
) -> TurnRequest {
    let caller = Caller { principal, session_key: headers.key, origin: ORIGIN };
    let mut request = TurnRequest::new(caller, destination, route);
    request.trace = Notes::current().trace();
    request.destination.policy = headers.policy;
    request.destination.reason = headers.reason;
    request.destination.expected = headers.if_match;
    request.options.on_disconnect = headers.on_disconnect;
    // Helpers of front ends write titles and the like, and need no tools.
    request.options.tools = if headers.kind == SessionKind::Auxiliary { ToolOffer::Off } else { headers.tools };
    request.options.memory = headers.memory;
    request.identity.body = digest(body);
    request.identity.sdk_attempt = headers.sdk_attempt;
    request.identity.repeats_failures = headers.repeats_failures;
    request.identity.idempotency_key = headers.idempotency_key;
    if let Some(peer) = headers.peer {
        // The caller submits the turn before it waits for anything.
        peer.connection.end_intake();
        request.identity.client = peer.client;
    }
    request
}

/// Submits a turn, and notes its model for the request log.
pub(crate) fn submit(app: &Shared, request: TurnRequest, dialect: Dialect) -> Result<TurnHandle, ApiError> {
    Notes::current().model(app.gateway.settings().resolve_model(request.options.model.as_deref()).name);
    // A whole answer is waited for without a pause. A stream waits for its client's socket too.
    let submitted = match request.options.streaming {
        true => app.gateway.submit(request),
        false => app.gateway.submit_to_listener(request),
    };
    submitted.map_err(dialect.error_mapper())
}

/// Waits for the whole answer of a turn.
pub(crate) async fn finished(mut handle: TurnHandle, dialect: Dialect) -> Result<Arc<Finished>, ApiError> {
    loop {
        if let Some(end) = end(&handle.next().await, dialect) {
            return end;
        }
    }
}

/// Waits until a turn's id is durable, so that it can be given to the client. The turn goes on by itself.
pub(crate) async fn accepted(
    mut handle: TurnHandle,
    dialect: Dialect,
) -> Result<(TurnId, Option<SessionView>), ApiError> {
    let begun = loop {
        match handle.next().await {
            TurnEvent::Queued { turn, session, .. } => break (turn, Some(session)),
            TurnEvent::Started { turn, session, .. } => break (turn, session),
            event => {
                if let Some(end) = end(&event, dialect) {
                    return end.map(|finished| (finished.turn, finished.session.clone()));
                }
            }
        }
    };
    if let Some(session) = &begun.1 {
        Notes::current().conversation(session.facts.id);
    }
    Ok(begun)
}

/// How the turn ended. `None` if this event is not the end.
fn end(event: &TurnEvent, dialect: Dialect) -> Option<Result<Arc<Finished>, ApiError>> {
    match event {
        TurnEvent::Finished(finished) => {
            note(&Notes::current(), finished);
            Some(Ok(Arc::clone(finished)))
        }
        TurnEvent::Failed(error) => Some(Err(ApiError::of(error, dialect))),
        TurnEvent::Queued { .. }
        | TurnEvent::Started { .. }
        | TurnEvent::Step { .. }
        | TurnEvent::Text(_)
        | TurnEvent::Delta(_) => None,
    }
}

/// Notes the conversation and the usage of an answer for the request log.
pub(crate) fn note(notes: &Notes, finished: &Finished) {
    if let Some(session) = &finished.session {
        notes.conversation(session.facts.id);
    }
    if let Some(usage) = finished.answer.finish.usage {
        notes.usage(usage);
    }
}

/// An answer as JSON, with its session in the headers. When it was sent, the turn is marked as delivered.
pub(crate) fn whole(app: &Shared, finished: &Finished, json: Vec<u8>) -> Response {
    tracked_json(app, finished.tenant, finished.turn, finished.session.as_ref(), json)
}

/// JSON about a turn, with its session in the headers. When it was sent, the turn is marked as delivered.
pub(crate) fn tracked_json(
    app: &Shared,
    tenant: TenantId,
    turn: TurnId,
    session: Option<&SessionView>,
    json: Vec<u8>,
) -> Response {
    let mut delivery = Delivery::of(Arc::clone(&app.gateway));
    delivery.expect(tenant, turn);
    let outlet = delivery.outlet();
    let mut response = Response::new(Body::new(TrackedBody::new(json, delivery)));
    response.extensions_mut().insert(outlet);
    let response_headers = response.headers_mut();
    response_headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(session) = session {
        headers::insert_session(response_headers, session);
    }
    response
}
