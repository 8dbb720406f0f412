//! `[telemetry]`: logs, traces and the export of metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::headers::{self, Headers};
use crate::page::Page;
use crate::reading::given::{GivenValue, ValueError};
use crate::reading::section::Section;
use crate::reading::setting::{Setting, words};
use crate::values::http_url::HttpUrl;
use crate::values::span;

words!(
    /// How a line of the log is written.
    LogFormat: r#""text" or "json""# {
        /// For people.
        Text = "text",
        /// One JSON object per line, for programs.
        Json = "json",
    }
);

words!(
    /// What is sent to a collector.
    ExportedSignal: r#""traces" or "metrics""# {
        /// Spans of requests and turns.
        Traces = "traces",
        /// What `/metrics` has.
        Metrics = "metrics",
    }
);

impl Setting for Vec<ExportedSignal> {
    const ALLOWED: &'static str = r#"a list of "traces" and "metrics""#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        given.list()?.into_iter().map(|name| ExportedSignal::read(&GivenValue::Text(name.to_owned()))).collect()
    }
}

/// The levels of a log filter.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
/// The `allowed` text of a log filter.
const LOG: &str = "a level (error, warn, info, debug, trace or off), or a list of a level and of modules with theirs, \
                   such as \"herma=debug,warn\"";
/// The `allowed` text of a ratio.
const RATIO: &str = "a number from 0 to 1, such as 0.1";
/// The `allowed` text of an interval.
const INTERVAL: &str = r#"a duration of at least one second, such as "60s""#;

/// Limits of the export, with OpenTelemetry's defaults. OpenTelemetry's own variables set them. No setting of Herma
/// does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportLimits {
    /// How long one request to the collector may take. `None` is without a limit.
    pub request_timeout: Option<Duration>,
    /// Most spans that wait to be sent.
    pub span_queue: usize,
    /// Most spans of one request. At most `span_queue`.
    pub span_batch: usize,
    /// How long a span waits at most before it is sent.
    pub span_delay: Duration,
    /// How long a batch of spans is tried. `None` is without a limit.
    pub span_timeout: Option<Duration>,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self {
            request_timeout: Some(Duration::from_secs(10)),
            span_queue: 2048,
            span_batch: 512,
            span_delay: Duration::from_secs(5),
            span_timeout: Some(Duration::from_secs(30)),
        }
    }
}

/// Logs, traces and the export of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryConfig {
    /// The log filter, as directives of the tracing crate: `info`, `herma=debug,warn`.
    pub log: String,
    /// How a line of the log is written.
    pub format: LogFormat,
    /// The collector that gets traces and metrics, without a slash at the end. `None` sends nothing.
    pub otlp_endpoint: Option<HttpUrl>,
    /// Headers sent to the collector.
    pub otlp_headers: Headers,
    /// What is sent.
    pub export: Vec<ExportedSignal>,
    /// The name of this service in traces.
    pub service_name: String,
    /// Further attributes of this process in traces.
    pub resource: BTreeMap<String, String>,
    /// The part of all traces that is recorded, from 0 to 1.
    pub sample_ratio: f64,
    /// Whether a caller that sends `traceparent` decides itself whether its trace is recorded.
    pub sample_as_caller: bool,
    /// How often metrics are sent.
    pub metrics_interval: Duration,
    /// Whether model servers and tools are told of traces.
    pub pass_on_traceparent: bool,
    /// Limits of the export.
    pub limits: ExportLimits,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            format: LogFormat::Text,
            otlp_endpoint: None,
            otlp_headers: Headers::new(),
            export: vec![ExportedSignal::Traces, ExportedSignal::Metrics],
            service_name: "herma".to_owned(),
            resource: BTreeMap::new(),
            sample_ratio: 1.0,
            sample_as_caller: true,
            metrics_interval: Duration::from_secs(60),
            pass_on_traceparent: true,
            limits: ExportLimits::default(),
        }
    }
}

impl TelemetryConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        let is_ratio = |ratio: &f64| (0.0..=1.0).contains(ratio);
        let is_long = |interval: &Duration| *interval >= Duration::from_secs(1);
        Self {
            log: section.read_where("log", LOG, |filter: &String| is_log_filter(filter)).unwrap_or(default.log),
            format: section.or("format", default.format),
            otlp_endpoint: section.read::<HttpUrl>("otlp_endpoint").map(|url| url.trimmed()),
            otlp_headers: headers::read_table(section, "otlp_headers"),
            export: section.or("export", default.export),
            service_name: section.or("service_name", default.service_name),
            resource: section.within("resource", |section| {
                let mut resource = BTreeMap::new();
                for name in section.names() {
                    if let Some(value) = section.read(&name) {
                        resource.insert(name, value);
                    }
                }
                resource
            }),
            sample_ratio: section.read_where("sample_ratio", RATIO, is_ratio).unwrap_or(default.sample_ratio),
            sample_as_caller: section.or("sample_as_caller", default.sample_as_caller),
            metrics_interval: section
                .read_where("metrics_interval", INTERVAL, is_long)
                .unwrap_or(default.metrics_interval),
            pass_on_traceparent: section.or("pass_on_traceparent", default.pass_on_traceparent),
            limits: default.limits,
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["telemetry"], "Logs, traces and the export of metrics.");
        page.set("log", self.log.as_str(), "What is logged: a level, or directives such as \"herma=debug,warn\".");
        page.set("format", self.format.as_str(), "How a line of the log is written: \"text\" or \"json\".");
        page.maybe(
            "otlp_endpoint",
            self.otlp_endpoint.as_ref().map(HttpUrl::as_str),
            "http://localhost:4318",
            "The OpenTelemetry collector that gets traces and metrics, by OTLP over HTTP.",
        );
        headers::write_table(&self.otlp_headers, page, "otlp_headers");
        page.set(
            "export",
            self.export.iter().map(|signal| signal.as_str()).collect::<Vec<_>>(),
            "What is sent: \"traces\" and \"metrics\".",
        );
        page.set("service_name", self.service_name.as_str(), "The name of this service in traces.");
        let resource: toml::Table =
            self.resource.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        page.set("resource", resource, "Further attributes of this process in traces.");
        page.set("sample_ratio", self.sample_ratio, "The part of all traces that is recorded.");
        page.set(
            "sample_as_caller",
            self.sample_as_caller,
            "Whether a caller that sends `traceparent` decides itself whether its trace is recorded.",
        );
        page.set("metrics_interval", span::text(self.metrics_interval), "How often metrics are sent.");
        page.set(
            "pass_on_traceparent",
            self.pass_on_traceparent,
            "Whether model servers and tools are told of traces, in `traceparent`.",
        );
    }
}

/// Whether each part of the filter is a level, or a module with its level. The library that filters takes any other
/// word for a module, so that a misspelled level would log nothing.
fn is_log_filter(filter: &str) -> bool {
    let is_level = |text: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text));
    filter.split(',').map(str::trim).all(|part| match part.split_once('=') {
        None => is_level(part),
        Some((module, level)) => !module.is_empty() && !module.contains(char::is_whitespace) && is_level(level),
    })
}
