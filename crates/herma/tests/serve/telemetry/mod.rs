//! Traces and metrics by OTLP: a collector on loopback reads what arrives, with OpenTelemetry's own types.

mod collector;
mod commands;
mod export;
mod names;
mod passing_on;
mod spans;
mod waiting;

use herma_testkit::{Herma, Launch, ScriptedUpstream};
use tempfile::TempDir;

use collector::Collector;

/// A caller's place in a trace that is recorded.
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT_SPAN: &str = "b7ad6b7169203331";

/// A gateway that sends its telemetry to a collector.
struct Observed {
    herma: Herma,
    upstream: ScriptedUpstream,
    collector: Collector,
    _data: TempDir,
}

impl Observed {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let (upstream, collector) = (ScriptedUpstream::start().await, Collector::start().await);
        let data = TempDir::new().expect("a temporary directory");
        let launch = Launch::serve(env!("CARGO_BIN_EXE_herma"))
            .data(data.path())
            .upstream(&upstream.base_url())
            .env("HERMA_TELEMETRY__OTLP_ENDPOINT", collector.url());
        let launch = settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        Self { herma: launch.start().await, upstream, collector, _data: data }
    }

    /// Ends the gateway, which sends what is left.
    async fn stop(&mut self) {
        self.herma.terminate();
        assert!(self.herma.wait().await.success(), "{}", self.herma.stderr());
    }
}
