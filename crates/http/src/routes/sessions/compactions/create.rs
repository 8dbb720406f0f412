//! `POST /api/sessions/{alias}/compactions`: compacts now, or previews a compaction.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use herma_gateway::CompactionRequest;
use herma_model::Principal;
use herma_wire::resource::{CompactRequest, CompactionPreview};

use super::answer;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::request_log::Notes;
use crate::revision;
use crate::routes::sessions::alias;

/// Compacts a conversation. With `dry_run` it only says what that would do.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let alias = alias(&name)?;
    let body = body::read(&app, &parts.headers, body).await?;
    let CompactRequest { dry_run, mode, model } = CompactRequest::parse(&body)?;
    let expected = revision::expected(&parts.headers)?;
    let trace = Notes::current().trace();
    let request = CompactionRequest { principal, alias, mode, model, expected, begun: None, cancelled: None, trace };
    if dry_run {
        let preview = app.gateway.preview_compaction(request).await?;
        return Ok(Json(CompactionPreview::from(&preview)).into_response());
    }
    Ok(answer(&app.gateway.compact(request).await?))
}
