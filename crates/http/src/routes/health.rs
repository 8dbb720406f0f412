//! Health checks: alive, ready, and details.

use axum::extract::State;
use axum::response::Response;
use herma_gateway::GatewayError;
use herma_gateway::models::ServerId;
use herma_store::Backlog;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;

/// `GET /health`: the process responds.
pub(crate) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok", "platform": "herma", "version": env!("CARGO_PKG_VERSION") }))
}

/// `GET /health/ready`: the server accepts turns.
pub(crate) async fn ready(State(app): State<Shared>) -> Result<Response, ApiError> {
    if app.gateway.is_draining() {
        return Err(GatewayError::Draining.into());
    }
    app.gateway.check_store().await?;
    Ok(axum::response::IntoResponse::into_response(Json(json!({ "status": "ready" }))))
}

/// `GET /health/detailed`: the state of each part.
pub(crate) async fn detailed(State(app): State<Shared>) -> Json<Value> {
    let store = app.gateway.check_store().await;
    let mut health = json!({
        "status": if store.is_ok() && !app.gateway.is_draining() { "ok" } else { "degraded" },
        "version": env!("CARGO_PKG_VERSION"),
        "draining": app.gateway.is_draining(),
        "live_turns": app.gateway.live_turns(),
        "store": store.map_or_else(|error| error.to_string(), |()| "ok".to_owned()),
        "upstream": app.gateway.servers().of(ServerId::Upstream).describe(),
        "model_servers": app.gateway.servers().iter().map(|(_, server)| server.describe()).collect::<Vec<_>>(),
        "uptime_seconds": app.started.elapsed().as_secs(),
    });
    if let Ok(Some(backlog)) = app.gateway.memory_backlog().await {
        health["memory"] = backlog_json(&backlog);
    }
    Json(health)
}

/// What an outside memory provider has still to be told. Fields that do not apply are absent.
fn backlog_json(backlog: &Backlog) -> Value {
    let mut shown = json!({
        "waiting_turns": backlog.turns,
        "waiting_erasures": backlog.erasures,
        "dropped_turns": backlog.dropped,
    });
    if let Some(oldest) = backlog.oldest {
        shown["oldest_at"] = json!(oldest);
    }
    if let Some(delivered) = backlog.delivered_at {
        shown["delivered_at"] = json!(delivered);
    }
    if let Some((at, error)) = &backlog.error {
        shown["error"] = json!({ "at": at, "message": error });
    }
    shown
}
