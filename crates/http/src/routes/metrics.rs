//! `GET /metrics`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use crate::app::Shared;

/// All metrics in the text format of Prometheus.
pub(crate) async fn show(State(app): State<Shared>) -> Response {
    let (gateway, uptime) = (&app.gateway, app.started.elapsed().as_secs_f64());
    let own = (gateway.compactions(), gateway.titles_asked());
    let memory = gateway.memory_backlog().await.ok().flatten();
    let text = app.metrics.text(gateway.live_turns(), app.sockets.open(), own, memory.as_ref(), uptime);
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}
