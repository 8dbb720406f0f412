//! Sends spans and metrics to a collector, in the background.
//!
//! No turn waits for it. Spans wait in a bounded queue. A batch is repeated a few times, within a time limit, if the
//! collector cannot be reached. Then it is dropped and counted. At the end, what is left is sent once, within a limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::otlp::{metrics_request, rejected, spans_request};
use crate::recorder::Recorder;
use crate::span::EndedSpan;
use crate::tracer::Tracer;

/// How often a batch is sent before it is dropped.
const TRIES: u32 = 4;
/// The pause before the second try. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a collector can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

/// Why a request was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// For the log, without a secret.
    pub why: String,
    /// Whether the same request may be taken later.
    pub may_be_repeated: bool,
    /// The pause that the collector asks for.
    pub retry_after: Option<Duration>,
}

type Sending = Pin<Box<dyn Future<Output = Result<Bytes, NotSent>> + Send>>;
type Reading = Pin<Box<dyn Future<Output = String> + Send>>;

/// What is sent, how often, and by what.
pub struct ExportSettings {
    /// The attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// How long a span waits at most before it is sent.
    pub delay: Duration,
    /// How long a batch of spans is tried. `None` is without a limit.
    pub batch_timeout: Option<Duration>,
    /// How often metrics are sent.
    pub metrics_interval: Duration,
    /// Sends a request and returns the body of the answer. It has to end within a time limit of its own.
    pub send: Box<dyn Fn(Signal, Bytes) -> Sending + Send + Sync>,
    /// Reads the metrics, in the text format of Prometheus. `None` if they are not sent.
    pub metrics: Option<Box<dyn Fn() -> Reading + Send + Sync>>,
}

/// The tasks that send.
pub struct Exporter {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Exporter {
    /// Starts to send the spans of a tracer, if it records any, and metrics. Must be called inside a Tokio runtime.
    pub fn start(tracer: &Tracer, settings: ExportSettings) -> Self {
        let stop = watch::Sender::new(false);
        let settings = Arc::new(settings);
        let mut tasks = Vec::new();
        if let Some(recorder) = tracer.recorder().cloned() {
            let spans = Spans { recorder, settings: Arc::clone(&settings), is_failing: false };
            tasks.push(tokio::spawn(spans.run(stop.subscribe())));
        }
        if settings.metrics.is_some() {
            tasks.push(tokio::spawn(send_metrics(settings, stop.subscribe())));
        }
        Self { stop, tasks }
    }

    /// Sends what is left and ends. What does not get through within the limit is lost. Says whether it ended in time.
    pub async fn shut_down(self, limit: Duration) -> bool {
        self.stop.send_replace(true);
        let until = tokio::time::Instant::now() + limit;
        let mut is_in_time = true;
        for mut task in self.tasks {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                task.abort();
                is_in_time = false;
                tracing::warn!("the collector was too slow at the end; the last telemetry is lost");
            }
        }
        is_in_time
    }
}

/// Sends spans.
struct Spans {
    recorder: Arc<Recorder>,
    settings: Arc<ExportSettings>,
    /// Whether the last batch failed. Only the first failure is logged.
    is_failing: bool,
}

impl Spans {
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let is_last = tokio::select! {
                biased;
                () = stopped(&mut stop) => true,
                () = self.recorder.has_spans() => false,
            };
            let is_last = is_last
                || tokio::select! {
                    biased;
                    () = stopped(&mut stop) => true,
                    () = self.recorder.has_batch() => false,
                    () = tokio::time::sleep(self.settings.delay) => false,
                };
            loop {
                let batch = self.recorder.batch();
                if batch.is_empty() {
                    break;
                }
                self.deliver(&batch, &mut stop).await;
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends a batch, and counts what became of it.
    async fn deliver(&mut self, batch: &[EndedSpan], stop: &mut watch::Receiver<bool>) {
        let body = Bytes::from(spans_request(&self.settings.resource, batch));
        let limit = self.settings.batch_timeout;
        let sending = self.send_repeatedly(body, stop);
        let sent = match limit {
            Some(limit) => tokio::time::timeout(limit, sending).await.unwrap_or_else(|_| {
                let why = format!("the collector did not take them within {limit:?}");
                Err(NotSent { why, may_be_repeated: false, retry_after: None })
            }),
            None => sending.await,
        };
        match sent {
            Ok(answer) => self.taken(batch.len(), rejected(&answer)),
            Err(failed) => self.lost(batch.len(), &failed),
        }
    }

    /// Sends a batch until it is taken, the tries are used up, or the process is to end.
    async fn send_repeatedly(&self, body: Bytes, stop: &mut watch::Receiver<bool>) -> Result<Bytes, NotSent> {
        let mut pause = FIRST_PAUSE;
        let mut nth = 0;
        loop {
            nth += 1;
            // Read before the try, so that there is one more after a stop.
            let is_last = nth == TRIES || *stop.borrow();
            let failed = match (self.settings.send)(Signal::Traces, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if is_last || !failed.may_be_repeated {
                return Err(failed);
            }
            let wait = failed.retry_after.unwrap_or(pause).min(LONGEST_PAUSE);
            pause *= 2;
            tokio::select! {
                () = stopped(stop) => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn taken(&mut self, spans: usize, rejected: usize) {
        let rejected = rejected.min(spans);
        self.recorder.count_exported(spans - rejected);
        self.recorder.count_dropped(rejected);
        if rejected > 0 {
            tracing::warn!(rejected, "the collector did not take all spans");
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the collector takes spans again");
        }
    }

    fn lost(&mut self, spans: usize, failed: &NotSent) {
        self.recorder.count_dropped(spans);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(spans, why = %failed.why, "spans could not be sent and are lost");
        }
    }
}

/// Sends all metrics at intervals and at the end. A request that fails is not repeated: the next one has newer numbers.
async fn send_metrics(settings: Arc<ExportSettings>, mut stop: watch::Receiver<bool>) {
    let Some(read) = &settings.metrics else { return };
    let began = now();
    let mut is_failing = false;
    loop {
        let is_last = tokio::select! {
            () = stopped(&mut stop) => true,
            () = tokio::time::sleep(settings.metrics_interval) => false,
        };
        let body = metrics_request(&settings.resource, &read().await, began, now());
        let sent = (settings.send)(Signal::Metrics, Bytes::from(body)).await;
        match sent {
            Ok(_) if std::mem::take(&mut is_failing) => tracing::info!("the collector takes metrics again"),
            Ok(_) => {}
            Err(failed) if !std::mem::replace(&mut is_failing, true) => {
                tracing::warn!(why = %failed.why, "metrics could not be sent");
            }
            Err(_) => {}
        }
        if is_last {
            return;
        }
    }
}

/// Waits until the process is to end. Cancel-safe.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A closed channel means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
