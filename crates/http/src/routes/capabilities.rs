//! `GET /v1/capabilities`: the features and limits of this server.

use axum::extract::State;
use herma_model::limits::{
    MAX_MEMORY, MAX_NAME_BYTES, MAX_PAGE, MAX_PINNED, MAX_REQUEST_MESSAGES, MAX_SEARCH_CHARACTERS,
};
use herma_model::provenance::CompactionMode;
use herma_store::KEPT_EVENTS;
use serde_json::{Value, json};

use crate::app::{Authentication, Shared};
use crate::json::Json;

/// Features that only Hermes advertises, and whether Herma has them.
const NAMED_BY_HERMES: [(&str, bool); 10] = [
    ("responses_api", true),
    ("session_chat", true),
    ("session_chat_streaming", true),
    ("session_fork", true),
    ("skills_api", false),
    ("admin_config_rw", false),
    ("jobs_admin", false),
    ("memory_write_api", true),
    ("audio_api", false),
    ("realtime_voice", false),
];

/// Features of session keys.
const OF_SESSION_KEYS: [(&str, &str); 2] = [("memory_header", "X-Hermes-Memory"), ("current_conversation", "current")];

/// Features that a server has if it runs tools.
const WITH_TOOLS: [&str; 4] = ["tools", "run_approval_response", "tool_progress_events", "approval_events"];

/// Lists Herma's own features only if this server has them, and Hermes' features always, as true or false.
pub(crate) async fn show(State(app): State<Shared>) -> Json<Value> {
    let settings = app.gateway.settings();
    let authenticated = matches!(app.settings.authentication, Authentication::Keys(_));
    Json(json!({
        "object": "hermes.api_server.capabilities",
        "platform": "herma",
        "version": env!("CARGO_PKG_VERSION"),
        "model": settings.default_model,
        "auth": { "type": "bearer", "required": authenticated },
        "features": features(&app),
        "limits": {
            "body_bytes": app.settings.max_body_bytes,
            "body_budget_bytes": app.settings.body_budget,
            "messages_per_request": MAX_REQUEST_MESSAGES,
            "name_bytes": MAX_NAME_BYTES,
            "page_rows": MAX_PAGE,
            "pinned_messages_per_conversation": MAX_PINNED,
            "websockets": app.sockets.limit(),
            "websocket_seconds": app.settings.websocket_lifetime.as_secs(),
            "search_characters": MAX_SEARCH_CHARACTERS,
            "memory_characters": MAX_MEMORY,
            "session_events_kept": KEPT_EVENTS,
            "live_turns": settings.max_live_turns,
            "queued_turns_per_conversation": settings.queue_limit,
            "queue_seconds": settings.queue_timeout.as_secs(),
            "tool_rounds": settings.tools.max_rounds,
            "tool_output_characters": settings.tools.max_output,
            "tool_approval_seconds": settings.tools.approval_timeout.as_secs(),
            "delegated_tasks_per_turn": settings.tools.delegate.max_children,
            "delegation_depth": settings.tools.delegate.max_depth,
        },
        "endpoints": crate::openapi::endpoints(),
    }))
}

fn features(app: &Shared) -> Value {
    let mut features = json!({
        "chat_completions": true,
        "chat_completions_streaming": true,
        "responses": true,
        "responses_streaming": true,
        "responses_websocket": true,
        "responses_conversation": true,
        "responses_background": true,
        "responses_resume": true,
        "responses_compact": true,
        "conversations": true,
        "completions": true,
        "embeddings": true,
        "runs": true,
        "run_submission": true,
        "run_status": true,
        "run_events_sse": true,
        "run_events_resume": "Last-Event-ID",
        "run_stop": true,
        "run_kinds": ["main", "auxiliary", "background"],
        "session_resources": true,
        "search": true,
        "session_events_sse": true,
        "session_events_resume": "Last-Event-ID",
        "session_continuity_header": "X-Hermes-Session-Id",
        "conversation_header": "X-Hermes-Conversation-Id",
        "session_key_header": "X-Hermes-Session-Key",
        "history_continuity": true,
        "chat_id_headers": app.settings.chat_headers,
        "turn_policies": ["queue", "reject", "interrupt", "branch"],
        "session_kind_header": "X-Hermes-Session-Kind",
        "tools_header": "X-Hermes-Tools",
        "on_disconnect": ["finish", "cancel"],
        "idempotency_key": true,
        "sdk_retries_join": true,
        "client_tools": true,
        "compaction_modes": CompactionMode::ALL,
        "compaction_undo": true,
        "pinned_messages": true,
        "stream_events_header": "X-Hermes-Events",
        "cors": !app.settings.cors_origins.is_empty(),
    });
    // `json!` takes no more fields at once.
    features["erasure_receipts"] = json!(true);
    features["memories"] = json!(true);
    for (name, value) in OF_SESSION_KEYS {
        features[name] = json!(value);
    }
    let has_tools = !app.gateway.settings().tools.offer_nothing();
    for name in WITH_TOOLS {
        features[name] = json!(has_tools);
    }
    for (name, is_there) in NAMED_BY_HERMES {
        features[name] = json!(is_there);
    }
    features
}
