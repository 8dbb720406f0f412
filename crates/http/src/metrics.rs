//! Metrics for operators. Labels are few and fixed: never an id, a name or a path that a client chose.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request};
use herma_gateway::{Compactions, Counters, TitlesAsked};
use herma_store::Backlog;
use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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
        registry.register("websockets", "WebSockets that are open", self.websockets.clone());
        let waiting = "What an outside memory provider has still to be told, of all processes";
        registry.register("memory_waiting", waiting, self.memory_waiting.clone());
        let dropped = "Turns that an outside memory provider was not told";
        registry.register("memory_dropped", dropped, self.memory_dropped.clone());
        registry.register("uptime_seconds", "Time since the server was started", self.uptime_seconds.clone());
        self
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn text(
        &self,
        live_turns: usize,
        websockets: usize,
        (compactions, titles): (Compactions, TitlesAsked),
        memory: Option<&Backlog>,
        uptime: f64,
    ) -> String {
        let set = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
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
        self.live_turns.set(i64::try_from(live_turns).unwrap_or(i64::MAX));
        self.websockets.set(i64::try_from(websockets).unwrap_or(i64::MAX));
        self.uptime_seconds.set(uptime);
        if let Some(backlog) = memory {
            for (task, count) in [("record", backlog.turns), ("erase", backlog.erasures)] {
                let waiting = i64::try_from(count).unwrap_or(i64::MAX);
                self.memory_waiting.get_or_create(&TaskLabels { task }).set(waiting);
            }
            set(&self.memory_dropped, backlog.dropped);
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("the metrics could not be written");
        }
        text
    }
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
