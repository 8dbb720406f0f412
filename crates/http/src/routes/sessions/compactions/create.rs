//! `POST /api/sessions/{alias}/compactions`: compact now, or say what that would do.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use herma_gateway::{CompactionRequest, GatewayError};
use herma_model::turn::FailureCode;
use herma_model::{Principal, TurnFailure};
use herma_store::Scope;
use herma_wire::resource::{CompactRequest, CompactionPreview};

use super::answer;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::routes::sessions::alias;

/// Compacts a conversation, or previews that.
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
    let request = CompactionRequest { scope: Scope::of(&principal), alias, mode, model };
    let gateway = Arc::clone(&app.gateway);
    if dry_run {
        let preview = to_its_end(async move { gateway.preview_compaction(request).await }).await?;
        return Ok(Json(CompactionPreview::from(&preview)).into_response());
    }
    Ok(answer(&to_its_end(async move { gateway.compact(request).await }).await?))
}

/// Does the work on a task of its own: a client that goes away does not waste a summary that is paid for.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, GatewayError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => {
            tracing::error!(%error, "a compaction came to no end");
            let message = "the gateway failed while it compacted the conversation; this is a defect of Herma";
            Err(GatewayError::Turn(TurnFailure::new(FailureCode::Internal, message)).into())
        }
    }
}
