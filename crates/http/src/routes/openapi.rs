//! `GET /openapi.json`.

use axum::response::Response;

use crate::{json, openapi};

/// The description of every route.
pub(crate) async fn show() -> Response {
    json::from_bytes(openapi::DOCUMENT.as_bytes().to_vec())
}
