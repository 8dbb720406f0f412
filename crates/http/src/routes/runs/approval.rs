//! `POST /v1/runs/{id}/approval`.

use std::convert::Infallible;

use axum::Extension;
use axum::extract::{Request, State};
use herma_model::Principal;
use herma_wire::runs;

use super::run_id;
use super::stored::record;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::path::Named;

/// Always refuses: no turn runs tools that need an approval, so no approval is pending.
pub(crate) async fn approve(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    request: Request,
) -> Result<Infallible, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    record(&app, &principal, run_id(&id)?).await?;
    runs::check_approval(&body)?;
    Err(ApiError::no_approval_pending())
}
