//! What every door shares that answers with a turn: recognising its request, waiting for its end, and handing out the answer.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use herma_gateway::{Finished, SessionView, TurnEvent, TurnHandle};
use herma_model::{TenantId, TurnId};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};

use crate::app::Shared;
use crate::body::{Delivery, TrackedBody};
use crate::error::ApiError;
use crate::headers;

/// What a body is recognised by if it comes again.
pub(crate) fn digest(body: &[u8]) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(body)[..16]);
    digest
}

/// Waits for the end of a turn whose answer is wanted whole.
pub(crate) async fn finished(app: &Shared, mut handle: TurnHandle, began: Instant) -> Result<Arc<Finished>, ApiError> {
    loop {
        match handle.next().await {
            TurnEvent::Finished(finished) => {
                app.metrics.turn_ended("completed", began);
                app.metrics.tokens(finished.answer.finish.usage.unwrap_or_default());
                return Ok(finished);
            }
            TurnEvent::Failed(error) => {
                let error = ApiError::from(error);
                app.metrics.turn_ended(error.label(), began);
                return Err(error);
            }
            TurnEvent::Queued { .. }
            | TurnEvent::Started { .. }
            | TurnEvent::Compacted { .. }
            | TurnEvent::Delta(_) => {}
        }
    }
}

/// An answer as JSON, with its session in the headers. That it was handed out is noted.
pub(crate) fn whole(app: &Shared, finished: &Finished, json: Vec<u8>) -> Response {
    handed_out(app, finished.tenant, finished.turn, finished.session.as_ref(), json)
}

/// What is told of a turn as JSON, with its session in the headers. That it was handed out is noted.
pub(crate) fn handed_out(
    app: &Shared,
    tenant: TenantId,
    turn: TurnId,
    session: Option<&SessionView>,
    json: Vec<u8>,
) -> Response {
    let mut delivery = Delivery::of(Arc::clone(&app.gateway));
    delivery.expect(tenant, turn);
    let mut response = Response::new(Body::new(TrackedBody::new(json, delivery)));
    let told = response.headers_mut();
    told.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(session) = session {
        headers::tell(told, session);
    }
    response
}
