//! `POST /v1/runs`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{AskWhere, MemoryUse, OnDisconnect};
use herma_model::Principal;
use herma_store::NewResponse;
use herma_wire::responses;
use herma_wire::runs::{self, RunRequest};
use http::StatusCode;

use super::ROUTE;
use super::stored::{StoredRun, record, stored_object};
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::naming;
use crate::routes::responses::{fill, named_items};
use crate::routes::sessions::{refuse_without_auth, session_key};

/// Starts a run. Answers when its id is durable, with the run as it is then.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let mut headers = SessionHeaders::of(&parts)?;
    let body = body::read(&app, &parts.headers, body).await?;
    let named = named_items(&app, &principal, &responses::references(&body)?, Dialect::Runs).await?;
    let asked = runs::parse(&body, &app.known(named))?;
    check_request(&app, &asked)?;
    headers.key = session_key(headers.key, asked.session_key.as_deref())?;
    let mut names = naming::of_headers(&headers);
    if let Some(name) = &asked.session_id {
        naming::add_session(&mut names, name)?;
    }
    naming::add_body_names(&mut names, &asked.request, headers.key.as_ref())?;
    let destination = naming::destination(&app, &principal, names, &headers, Dialect::Runs).await?;
    let model = app.gateway.settings().resolve_model(asked.request.model.as_deref()).name.to_owned();
    let requested = destination.conversation.name().map(|name| name.to_string());
    let stored = StoredRun { requested, model, echo: asked.request.echo.clone() };
    let mut turn = answer::turn_request(principal.clone(), headers, destination, ROUTE, &body);
    if let Some(kind) = asked.kind {
        turn.destination.kind = kind;
    }
    turn.options.memory = memory_use(turn.options.memory, asked.memory)?;
    fill(&app, &mut turn, asked.request);
    turn.options.approvals = AskWhere::ByTurn;
    turn.options.streaming = true;
    turn.options.on_disconnect = OnDisconnect::Finish;
    turn.options.response =
        Some(NewResponse { echo: Arc::from(stored.to_json()), kept: true, visible_while_queued: true });
    let handle = answer::submit(&app, turn, Dialect::Runs)?;
    let (turn, session) = answer::accepted(handle, Dialect::Runs).await?;
    let (record, stored) = record(&app, &principal, turn.as_run()).await?;
    let mut response =
        answer::tracked_json(&app, principal.tenant, turn, session.as_ref(), stored_object(&record, &stored));
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// How a run uses memory, by the header and the body. They must not contradict each other.
fn memory_use(header: MemoryUse, body: Option<bool>) -> Result<MemoryUse, ApiError> {
    let asked = match body {
        Some(true) => MemoryUse::On,
        Some(false) => MemoryUse::Off,
        None => return Ok(header),
    };
    match header {
        MemoryUse::Off | MemoryUse::On if header != asked => {
            Err(ApiError::invalid("memory contradicts the header X-Hermes-Memory", "memory"))
        }
        MemoryUse::Off | MemoryUse::On | MemoryUse::AsUsual => Ok(asked),
    }
}

fn check_request(app: &Shared, asked: &RunRequest) -> Result<(), ApiError> {
    if !asked.request.store {
        return Err(ApiError::invalid("store must not be false: a run is there to be looked at later", "store"));
    }
    refuse_without_auth(app, &[("session_id", &asked.session_id), ("session_key", &asked.session_key)])
}
