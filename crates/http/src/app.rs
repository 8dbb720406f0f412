//! The routes, and the layers that every request passes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{delete, get, patch, post, put};
use herma_gateway::access::Access;
use herma_gateway::{Gateway, Origin, Sessions};
use herma_model::{CreatorKind, Principal};
use herma_wire::responses::{HostedTools, KeptItems, Known};
use http::header::ETAG;
use http::{HeaderName, HeaderValue, Method, Uri};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::body_budget::BodyBudget;
use crate::error::ApiError;
use crate::failed_logins::FailedLogins;
use crate::layers::{Entry, Guard};
use crate::metrics::Metrics;
use crate::sockets::Sockets;
use crate::{headers, request_id, routes};

/// How callers authenticate.
pub enum Authentication {
    /// With an API key.
    Keys(Access),
    /// Without authentication: every caller is this principal, and session headers are refused.
    None(Principal),
}

/// The settings of HTTP.
pub struct HttpSettings {
    /// Origins of web pages that may call. `*` allows any.
    pub cors_origins: Vec<String>,
    /// The largest request body or WebSocket message.
    pub max_body_bytes: usize,
    /// The most bytes that all request bodies being read may have together.
    pub body_budget: usize,
    /// The most WebSockets that may be open at the same time.
    pub max_websockets: usize,
    /// How long one WebSocket may be open.
    pub websocket_lifetime: Duration,
    /// Headers in which front ends send the id of a chat, the most specific first.
    pub chat_headers: Vec<String>,
    /// Whether responses with `store: false` are kept if they come under a chat.
    pub keep_chats: bool,
    /// What happens to a client's tools that the model server cannot have.
    pub hosted_tools: HostedTools,
    /// How callers authenticate.
    pub authentication: Authentication,
}

impl HttpSettings {
    /// Whether pages of this origin may call.
    pub(crate) fn allows(&self, origin: &HeaderValue) -> bool {
        self.cors_origins.iter().any(|allowed| allowed == ANY_ORIGIN || allowed.as_bytes() == origin.as_bytes())
    }
}

/// Allows every origin.
const ANY_ORIGIN: &str = "*";

/// The state that all handlers share.
pub(crate) struct App {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) settings: HttpSettings,
    pub(crate) metrics: Metrics,
    pub(crate) sockets: Sockets,
    pub(crate) bodies: BodyBudget,
    pub(crate) failed_logins: FailedLogins,
    pub(crate) started: Instant,
}

impl App {
    /// The conversations that a principal can see.
    pub(crate) fn sessions(&self, principal: &Principal) -> Sessions<'_> {
        self.gateway.sessions(principal)
    }

    /// All metrics in the text format of Prometheus. Cancel-safe.
    pub(crate) async fn metrics_text(&self) -> String {
        self.metrics.text(&self.gateway, self.sockets.open(), self.started.elapsed().as_secs_f64()).await
    }

    /// What a request is read with, beside the stored items that it refers to.
    pub(crate) fn known(&self, items: KeptItems) -> Known {
        let servers = self.gateway.settings().tools.labels().map(str::to_owned).collect();
        Known { items, hosted: self.settings.hosted_tools, servers }
    }
}

/// The creator and source of conversations that HTTP clients make.
pub(crate) const ORIGIN: Origin = Origin { creator: CreatorKind::Api, source: "api" };

pub(crate) type Shared = Arc<App>;

/// All routes with their layers.
pub(crate) fn router(app: &Shared) -> Router {
    let open = Router::new()
        .route("/", get(routes::home::show))
        .route("/health", get(routes::health::alive))
        .route("/v1/health", get(routes::health::alive))
        .route("/health/ready", get(routes::health::ready));
    let guarded = Router::new()
        .route("/v1/chat/completions", post(routes::chat::create))
        .route("/v1/responses", post(routes::responses::create))
        .route("/v1/responses", get(routes::responses::connect))
        .route("/v1/responses/compact", post(routes::responses::compact))
        .route("/v1/responses/input_tokens", post(routes::responses::input_tokens))
        .route("/v1/responses/{id}", get(routes::responses::show))
        .route("/v1/responses/{id}", delete(routes::responses::forget))
        .route("/v1/responses/{id}/cancel", post(routes::responses::cancel))
        .route("/v1/responses/{id}/input_items", get(routes::responses::input_items))
        .route("/v1/conversations", get(routes::conversations::list))
        .route("/v1/conversations", post(routes::conversations::create))
        .route("/v1/conversations/{id}", get(routes::conversations::show))
        .route("/v1/conversations/{id}", post(routes::conversations::update))
        .route("/v1/conversations/{id}", delete(routes::conversations::delete))
        .route("/v1/conversations/{id}/items", get(routes::conversations::list_items))
        .route("/v1/conversations/{id}/items", post(routes::conversations::add))
        .route("/v1/conversations/{id}/items/{item_id}", get(routes::conversations::show_item))
        .route("/v1/conversations/{id}/items/{item_id}", delete(routes::conversations::remove))
        .route("/v1/runs", post(routes::runs::create))
        .route("/v1/runs/{id}", get(routes::runs::show))
        .route("/v1/runs/{id}/events", get(routes::runs::events))
        .route("/v1/runs/{id}/stop", post(routes::runs::stop))
        .route("/v1/runs/{id}/approval", post(routes::runs::approve))
        .route("/v1/completions", post(routes::pass_on::completions))
        .route("/v1/embeddings", post(routes::pass_on::embeddings))
        .route("/v1/models", get(routes::models::list))
        .route("/v1/models/{*id}", get(routes::models::show))
        .route("/v1/tools", get(routes::tools::list))
        .route("/v1/capabilities", get(routes::capabilities::show))
        .route("/api/sessions", get(routes::sessions::list))
        .route("/api/sessions", post(routes::sessions::create))
        .route("/api/sessions/{alias}", get(routes::sessions::show))
        .route("/api/sessions/{alias}", patch(routes::sessions::change))
        .route("/api/sessions/{alias}", delete(routes::sessions::delete))
        .route("/api/sessions/{alias}/branch", post(routes::sessions::branch))
        .route("/api/sessions/{alias}/fork", post(routes::sessions::branch))
        .route("/api/sessions/{alias}/end", post(routes::sessions::end))
        .route("/api/sessions/{alias}/reopen", post(routes::sessions::reopen))
        .route("/api/sessions/{alias}/lineage", get(routes::sessions::lineage))
        .route("/api/session-keys/{key}", get(routes::sessions::of_key))
        .route("/api/session-keys/{key}", delete(routes::sessions::erase_key))
        .route("/api/erasures/{id}", get(routes::sessions::erasure))
        .route("/api/session-keys/{key}/new", post(routes::sessions::create_under_key))
        .route("/api/sessions/{alias}/chat", post(routes::sessions::chat))
        .route("/api/sessions/{alias}/chat/stream", post(routes::sessions::chat_stream))
        .route("/api/sessions/{alias}/rewind", post(routes::sessions::rewind))
        .route("/api/sessions/{alias}/restore", post(routes::sessions::restore))
        .route("/api/sessions/{alias}/messages", get(routes::sessions::messages))
        .route("/api/sessions/{alias}/messages/{message_id}/pin", put(routes::sessions::pin))
        .route("/api/sessions/{alias}/messages/{message_id}/pin", delete(routes::sessions::unpin))
        .route("/api/sessions/{alias}/compactions", get(routes::sessions::compactions::list))
        .route("/api/sessions/{alias}/compactions", post(routes::sessions::compactions::create))
        .route("/api/sessions/{alias}/compactions/{id}/undo", post(routes::sessions::compactions::undo))
        .route("/api/search", get(routes::search::search))
        .route("/api/memories", get(routes::memories::list))
        .route("/api/memories", post(routes::memories::create))
        .route("/api/memories", delete(routes::memories::delete_all))
        .route("/api/memories/{id}", get(routes::memories::show))
        .route("/api/memories/{id}", patch(routes::memories::change))
        .route("/api/memories/{id}", delete(routes::memories::delete))
        .route("/api/events", get(routes::events::follow))
        .route("/health/detailed", get(routes::health::detailed))
        .route("/metrics", get(routes::metrics::show))
        .route("/openapi.json", get(routes::openapi::show))
        .route_layer(Guard::new(app));
    let routes = open
        .merge(guarded)
        .fallback(async |uri: Uri| ApiError::unknown_route(uri.path()))
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .with_state(Arc::clone(app));
    let origins = &app.settings.cors_origins;
    if origins.is_empty() {
        return routes.layer(Entry::whole(app));
    }
    // Answers to preflights are logged, but no requests of routes.
    let [inner, outer] = Entry::split(app);
    routes.layer(inner).layer(cors(origins)).layer(outer)
}

/// Lets pages of the configured origins send any header, and read every header of ours.
fn cors(origins: &[String]) -> CorsLayer {
    let allowed = if origins.iter().any(|origin| origin == ANY_ORIGIN) {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let exposed = [
        headers::SESSION_ID,
        headers::CONVERSATION_ID,
        headers::SESSION_KEY,
        request_id::REQUEST_ID,
        ETAG,
        HeaderName::from_static("retry-after"),
        HeaderName::from_static("retry-after-ms"),
        HeaderName::from_static("x-should-retry"),
    ];
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed)
        .max_age(Duration::from_secs(600))
}
