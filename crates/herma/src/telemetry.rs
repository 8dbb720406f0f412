//! Traces and the export of metrics: from the settings to the tasks that send.
//!
//! Without the feature `otlp` nothing is sent, and start-up says so if an endpoint is set.

use herma_config::TelemetryConfig;
use herma_telemetry::Tracer;
use herma_upstream::Connections;

#[cfg(feature = "otlp")]
pub(crate) use otlp::Telemetry;
#[cfg(not(feature = "otlp"))]
pub(crate) use without::Telemetry;

#[cfg(feature = "otlp")]
mod otlp {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use anyhow::Context;
    use bytes::Bytes;
    use herma_config::{ExportLimits, ExportedSignal, Secret};
    use herma_telemetry::{ExportSettings, Exporter, NotSent, QueueLimits, Sampling, Signal};
    use herma_upstream::{NotPosted, PostTarget};

    use super::{Connections, TelemetryConfig, Tracer};

    /// How long one request to the collector may take if there is no limit: 24 days, as OpenTelemetry proposes.
    const NO_LIMIT: Duration = Duration::from_millis(i32::MAX as u64);
    /// How long sending the last spans and metrics may take at the end of a server.
    const FLUSH_LIMIT: Duration = Duration::from_secs(2);
    /// The same at the end of a command. A person or an editor waits for it.
    const COMMAND_FLUSH_LIMIT: Duration = Duration::from_secs(1);

    const PROTOBUF: &str = "application/x-protobuf";

    /// What is recorded, and where it is sent.
    pub(crate) struct Telemetry {
        tracer: Tracer,
        /// `None` if there is no endpoint.
        target: Option<Target>,
    }

    struct Target {
        endpoint: String,
        traces: PostTarget,
        /// `None` if metrics are not sent.
        metrics: Option<PostTarget>,
        resource: Vec<(String, String)>,
        metrics_interval: Duration,
        limits: ExportLimits,
    }

    type ReadMetrics = Box<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

    impl Telemetry {
        /// Checks the settings. Sends nothing.
        pub(crate) fn of(config: &TelemetryConfig, connections: &Connections) -> anyhow::Result<Self> {
            let passes_on = config.pass_on_traceparent;
            let Some(endpoint) = config.otlp_endpoint.as_ref().filter(|_| !config.export.is_empty()) else {
                return Ok(Self { tracer: Tracer::off(passes_on), target: None });
            };
            let headers =
                config.otlp_headers.iter().map(|(name, value)| (name.clone(), Secret::expose(value).to_owned()));
            let headers: Vec<_> = headers.collect();
            let limits = config.limits.clone();
            let timeout = limits.request_timeout.unwrap_or(NO_LIMIT);
            let at = |path: &str| {
                PostTarget::new(&format!("{endpoint}{path}"), &headers, PROTOBUF, timeout, connections)
                    .context("`telemetry.otlp_endpoint` cannot be used")
            };
            let sampling = Sampling { ratio: config.sample_ratio, follows_caller: config.sample_as_caller };
            let tracer = match config.export.contains(&ExportedSignal::Traces) {
                true => {
                    let queue = QueueLimits { queue: limits.span_queue, batch: limits.span_batch };
                    Tracer::recording(sampling, queue, passes_on)
                }
                false => Tracer::off(passes_on),
            };
            let has_metrics = config.export.contains(&ExportedSignal::Metrics);
            let target = Target {
                endpoint: endpoint.to_string(),
                traces: at("/v1/traces")?,
                metrics: has_metrics.then(|| at("/v1/metrics")).transpose()?,
                resource: resource(config),
                metrics_interval: config.metrics_interval,
                limits,
            };
            Ok(Self { tracer, target: Some(target) })
        }

        pub(crate) fn tracer(&self) -> Tracer {
            self.tracer.clone()
        }

        /// A line for start-up, if something is sent.
        pub(crate) fn line(&self) -> Option<String> {
            self.target.as_ref().map(|target| format!("telemetry is sent to {}", target.endpoint))
        }

        /// Starts to send traces and metrics of a server. `metrics` reads the metrics for Prometheus.
        pub(crate) fn start<R>(self, metrics: impl Fn() -> R + Send + Sync + 'static) -> Export
        where
            R: Future<Output = String> + Send + 'static,
        {
            self.export(Some(Box::new(move || Box::pin(metrics()))), FLUSH_LIMIT)
        }

        /// Starts to send traces of a command.
        pub(crate) fn start_traces(self) -> Export {
            self.export(None, COMMAND_FLUSH_LIMIT)
        }

        fn export(self, metrics: Option<ReadMetrics>, flush_limit: Duration) -> Export {
            let Some(target) = self.target else { return Export(None) };
            let (traces, posted_metrics) = (Arc::new(target.traces), target.metrics.map(Arc::new));
            let metrics = metrics.filter(|_| posted_metrics.is_some());
            let settings = ExportSettings {
                resource: target.resource,
                delay: target.limits.span_delay,
                batch_timeout: target.limits.span_timeout,
                metrics_interval: target.metrics_interval,
                send: Box::new(move |signal, body| {
                    let target = match signal {
                        Signal::Traces => Arc::clone(&traces),
                        Signal::Metrics => Arc::clone(posted_metrics.as_ref().unwrap_or(&traces)),
                    };
                    Box::pin(post(target, body))
                }),
                metrics,
            };
            let exporter = Exporter::start(&self.tracer, settings);
            Export(Some(RunningExport { exporter, tracer: self.tracer, flush_limit }))
        }
    }

    async fn post(target: Arc<PostTarget>, body: Bytes) -> Result<Bytes, NotSent> {
        target.post(body).await.map_err(|NotPosted { why, status, retry_after }| {
            // Those that OTLP names, and failures without an answer.
            let may_be_repeated = matches!(status, None | Some(429 | 502 | 503 | 504));
            NotSent { why, may_be_repeated, retry_after }
        })
    }

    /// What describes this process.
    fn resource(config: &TelemetryConfig) -> Vec<(String, String)> {
        let own = [
            ("service.name", config.service_name.clone()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", uuid::Uuid::new_v4().to_string()),
        ];
        let is_free = |(name, _): &(&str, String)| !config.resource.contains_key(*name);
        let own = own.into_iter().filter(is_free).map(|(name, value)| (name.to_owned(), value));
        own.chain(config.resource.iter().map(|(name, value)| (name.clone(), value.clone()))).collect()
    }

    /// What sends while the process runs.
    pub(crate) struct Export(Option<RunningExport>);

    struct RunningExport {
        exporter: Exporter,
        tracer: Tracer,
        /// How long sending may take at the end.
        flush_limit: Duration,
    }

    impl Export {
        /// Sends what is left, within a limit. Says whether no span was lost, now or earlier.
        pub(crate) async fn shut_down(self) -> bool {
            let Some(running) = self.0 else { return true };
            running.exporter.shut_down(running.flush_limit).await && running.tracer.counts().dropped == 0
        }
    }
}

#[cfg(not(feature = "otlp"))]
mod without {
    use super::{Connections, TelemetryConfig, Tracer};

    /// Passes a caller's trace on, and sends nothing.
    pub(crate) struct Telemetry {
        tracer: Tracer,
        is_missed: bool,
    }

    impl Telemetry {
        #[expect(clippy::unnecessary_wraps, reason = "the same as with the feature")]
        pub(crate) fn of(config: &TelemetryConfig, _: &Connections) -> anyhow::Result<Self> {
            Ok(Self { tracer: Tracer::off(config.pass_on_traceparent), is_missed: config.otlp_endpoint.is_some() })
        }

        pub(crate) fn tracer(&self) -> Tracer {
            self.tracer.clone()
        }

        pub(crate) fn line(&self) -> Option<String> {
            let line = "this herma was built without the feature `otlp`: no telemetry is sent";
            self.is_missed.then(|| line.to_owned())
        }

        pub(crate) fn start<R>(self, _: impl Fn() -> R) -> Export {
            Export
        }

        pub(crate) fn start_traces(self) -> Export {
            Export
        }
    }

    /// Nothing.
    pub(crate) struct Export;

    impl Export {
        pub(crate) async fn shut_down(self) -> bool {
            true
        }
    }
}
