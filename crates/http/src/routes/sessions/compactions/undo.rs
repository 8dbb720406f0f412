//! `POST /api/sessions/{alias}/compactions/{id}/undo`: gives the model back the messages that a compaction replaced.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{GatewayError, Missing, UndoRequest};
use herma_model::Principal;
use herma_wire::resource as wire;

use super::answer;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::path::NamedWithin;
use crate::revision;
use crate::routes::sessions::alias;

/// Undoes a compaction.
pub(crate) async fn undo(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    NamedWithin(name, id): NamedWithin,
    request: Request,
) -> Result<Response, ApiError> {
    let compaction = id.parse().map_err(|_| GatewayError::NotFound(Missing::Compaction))?;
    let alias = alias(&name)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let model = wire::UndoRequest::parse(&body)?.model;
    let expected = revision::expected(&parts.headers)?;
    let request = UndoRequest { principal, alias, compaction, model, expected };
    Ok(answer(&app.gateway.undo_compaction(&request).await?))
}
