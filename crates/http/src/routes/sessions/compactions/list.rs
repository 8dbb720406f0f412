//! `GET /api/sessions/{alias}/compactions`: the ledger, newest first.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use herma_model::Principal;
use herma_wire::list::Page;
use herma_wire::resource::CompactionRow;

use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;
use crate::routes::sessions::alias;

/// A page of the ledger.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["limit", "cursor"])?;
    let (limit, before) = (parameters.limit()?, parameters.numeric_cursor()?);
    let page = app.sessions(&principal).compactions(&alias(&name)?, before, limit).await?;
    let rows: Vec<CompactionRow<'_>> = page.rows.iter().map(CompactionRow::from).collect();
    Ok(Json(Page::new(rows, page.next.map(|at| at.to_string()))).into_response())
}
