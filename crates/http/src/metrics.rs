//! Metrics for operators. Labels are few and fixed: never an id, a name or a path that a client chose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use herma_gateway::{Counters, Gateway};
use herma_telemetry::SpanCounts;
use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// How long the store may take to say that it can be written.
const STORE_LIMIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TaskLabels {
    task: &'static str,
}

/// The metrics of HTTP, and those of the gateway.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    live_turns: Gauge,
    waiting_turns: Gauge,
    store_ready: Gauge,
    spans_exported: Counter,
    spans_dropped: Counter,
    websockets: Gauge,
    compactions: Family<OutcomeLabels, Counter>,
    titles_asked: Family<OutcomeLabels, Counter>,
    title_input_tokens: Counter,
    title_output_tokens: Counter,
    memory_waiting: Family<TaskLabels, Gauge>,
    memory_dropped: Counter,
    uptime_seconds: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Registers the metrics of HTTP and the gateway's counters.
    pub(crate) fn with(counters: &Counters) -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("herma"),
            requests: Family::default(),
            live_turns: Gauge::default(),
            waiting_turns: Gauge::default(),
            store_ready: Gauge::default(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            websockets: Gauge::default(),
            compactions: Family::default(),
            titles_asked: Family::default(),
            title_input_tokens: Counter::default(),
            title_output_tokens: Counter::default(),
            memory_waiting: Family::default(),
            memory_dropped: Counter::default(),
            uptime_seconds: Gauge::default(),
        };
        metrics.registered(counters)
    }

    fn registered(mut self, counters: &Counters) -> Self {
        let registry = &mut self.registry;
        registry.register("http_requests", "Requests answered", self.requests.clone());
        counters.register(registry);
        registry.register("compactions", "Compactions of conversations, by outcome", self.compactions.clone());
        registry.register("titles_asked", "Titles that a model was asked for, by outcome", self.titles_asked.clone());
        registry.register("title_input_tokens", "Prompt tokens of titles", self.title_input_tokens.clone());
        registry.register("title_output_tokens", "Answer tokens of titles", self.title_output_tokens.clone());
        registry.register("live_turns", "Turns that run or wait in this process", self.live_turns.clone());
        let about = "Turns of this process that wait for their conversation";
        registry.register("waiting_turns", about, self.waiting_turns.clone());
        registry.register("store_ready", "Whether the store can be written", self.store_ready.clone());
        registry.register("spans_exported", "Spans that the collector took", self.spans_exported.clone());
        registry.register("spans_dropped", "Spans that were lost", self.spans_dropped.clone());
        registry.register("websockets", "WebSockets that are open", self.websockets.clone());
        let waiting = "What an outside memory provider has still to be told, of all processes";
        registry.register("memory_waiting", waiting, self.memory_waiting.clone());
        let dropped = "Turns that an outside memory provider was not told";
        registry.register("memory_dropped", dropped, self.memory_dropped.clone());
        registry.register("uptime_seconds", "Time since the server was started", self.uptime_seconds.clone());
        self
    }

    /// All metrics in Prometheus' text format.
    pub(crate) async fn text(&self, gateway: &Gateway, websockets: usize, uptime: f64) -> String {
        let (compactions, titles) = (gateway.compactions(), gateway.titles_asked());
        let set = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        let gauge = |gauge: &Gauge, count: usize| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        for (outcome, count) in
            [("applied", compactions.applied), ("trimmed", compactions.trimmed), ("failed", compactions.failed)]
        {
            set(&self.compactions.get_or_create(&OutcomeLabels { outcome }), count);
        }
        for (outcome, count) in [("made", titles.made), ("failed", titles.failed)] {
            set(&self.titles_asked.get_or_create(&OutcomeLabels { outcome }), count);
        }
        set(&self.title_input_tokens, titles.input_tokens);
        set(&self.title_output_tokens, titles.output_tokens);
        gauge(&self.live_turns, gateway.live_turns());
        gauge(&self.waiting_turns, gateway.waiting_turns());
        gauge(&self.websockets, websockets);
        gauge(&self.store_ready, usize::from(is_store_ready(gateway).await));
        let SpanCounts { exported, dropped } = gateway.settings().tracer.counts();
        set(&self.spans_exported, exported);
        set(&self.spans_dropped, dropped);
        self.uptime_seconds.set(uptime);
        let backlog = gateway.memory_backlog().await.ok().flatten().unwrap_or_default();
        for (task, count) in [("record", backlog.turns), ("erase", backlog.erasures)] {
            let waiting = i64::try_from(count).unwrap_or(i64::MAX);
            self.memory_waiting.get_or_create(&TaskLabels { task }).set(waiting);
        }
        set(&self.memory_dropped, backlog.dropped);
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("the metrics could not be written");
        }
        text
    }
}

/// Whether the store can be written. A store that does not answer in time cannot. At the end of the process the store
/// is closed on purpose, so it is not asked then.
async fn is_store_ready(gateway: &Gateway) -> bool {
    gateway.is_draining() || matches!(tokio::time::timeout(STORE_LIMIT, gateway.check_store()).await, Ok(Ok(())))
}

/// The name of a method. Methods that no route takes share the name `other`.
pub(crate) fn method_name(method: &http::Method) -> &'static str {
    match *method {
        http::Method::GET => "GET",
        http::Method::HEAD => "HEAD",
        http::Method::POST => "POST",
        http::Method::PUT => "PUT",
        http::Method::PATCH => "PATCH",
        http::Method::DELETE => "DELETE",
        http::Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// A request that is counted by route, method and status when it is answered.
pub(crate) struct CountedRequest {
    method: &'static str,
    route: String,
}

impl CountedRequest {
    pub(crate) fn of(request: &Request) -> Self {
        let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
        Self { method: method_name(request.method()), route }
    }

    pub(crate) fn answered_with(self, metrics: &Metrics, status: StatusCode) {
        let Self { method, route } = self;
        metrics.requests.get_or_create(&RequestLabels { method, route, status: status.as_u16() }).inc();
    }
}
