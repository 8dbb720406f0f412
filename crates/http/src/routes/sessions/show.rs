//! `GET /api/sessions/{alias}`.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use herma_model::Principal;

use super::{alias, pin_of, row_response};
use crate::app::Shared;
use crate::error::ApiError;
use crate::path::Named;
use crate::query::Parameters;

/// One conversation, at its head or at exactly the named session.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["pin"])?;
    Ok(row_response(&app.sessions(&principal).find(&alias(&name)?, pin_of(&parameters)?).await?))
}
