//! `GET /metrics`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use crate::app::Shared;

/// All metrics in the text format of Prometheus.
pub(crate) async fn show(State(app): State<Shared>) -> Response {
    let text = app.metrics_text().await;
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}
