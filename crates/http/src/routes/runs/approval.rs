//! `POST /v1/runs/{id}/approval`: a person's answer to a run that waits for one.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{GatewayError, Missing};
use herma_model::Principal;
use herma_store::Question;
use herma_wire::runs::{self, ApprovalTarget};

use super::run_id;
use super::stored::{record, state_of};
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::json;
use crate::path::Named;

/// Answers the oldest open question of a run, the one about a call, or all. The last answer lets the run go on.
pub(crate) async fn approve(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let id = run_id(&id)?;
    record(&app, &principal, id).await?;
    let asked = runs::parse_approval(&body)?;
    let question = match asked.about {
        ApprovalTarget::Oldest => Question::Oldest,
        ApprovalTarget::Call(call) => Question::Call(call),
        ApprovalTarget::All => Question::All,
    };
    let answered = app.gateway.answer(&principal, id.turn(), question, asked.choice).await;
    let call = answered.map_err(|error| match error {
        // The run is there, so it is not parked.
        GatewayError::NotFound(Missing::Turn) => ApiError::no_approval_pending(),
        error => ApiError::of(&error, Dialect::Runs),
    })?;
    let (record, _) = record(&app, &principal, id).await?;
    Ok(json::from_bytes(runs::approval_response(id, &call.id, asked.choice, state_of(&record).status())))
}
