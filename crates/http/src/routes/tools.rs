//! `GET /v1/tools`: the tools that Herma runs for the caller.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use herma_gateway::{GatewayError, KeyProblem, rows};
use herma_model::Principal;
use herma_wire::list::Page;
use http::HeaderMap;

use crate::app::Shared;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::Json;

/// Lists the tools that turns under the request's session key may use. Starts their servers and waits a little.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = SessionHeaders::read(&headers)?.key;
    if key.as_ref().is_some_and(|key| !principal.session_keys.allows(key)) {
        return Err(GatewayError::SessionKey(KeyProblem::NotAllowed).into());
    }
    let tools = app.gateway.tools(&principal, key.as_ref()).await;
    Ok(Json(Page::new(tools.iter().map(rows::tool).collect(), None)).into_response())
}
