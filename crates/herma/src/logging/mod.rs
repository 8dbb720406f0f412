//! The log: lines on stderr, chosen by `telemetry.log` and written as `telemetry.format` says.
//!
//! A server writes its lines on a thread of its own ([`queue`]), so that a full pipe never holds up a request.
//! A command in a terminal writes them directly and logs warnings only, unless another filter is set.

mod json;
mod queue;

use std::io::{self, IsTerminal};

use herma_config::{LogFormat, TelemetryConfig};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use self::json::Json;
use crate::failure::Misuse;

pub(crate) use queue::Flush;

/// What commands log if nothing else is set.
const COMMANDS: &str = "warn";

/// Starts the log of a server. Lines that still wait are written when the guard is dropped.
pub(crate) fn of_server(telemetry: &TelemetryConfig) -> anyhow::Result<Flush> {
    let (lines, flush) = queue::start()?;
    start(&telemetry.log, telemetry.format, lines)?;
    Ok(flush)
}

/// Starts the log of a command, whose user should not be disturbed by what goes well.
pub(crate) fn of_command(telemetry: &TelemetryConfig) -> anyhow::Result<()> {
    let is_default = telemetry.log == TelemetryConfig::default().log;
    start(if is_default { COMMANDS } else { &telemetry.log }, telemetry.format, io::stderr)
}

fn start<W>(directives: &str, format: LogFormat, writer: W) -> anyhow::Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = filter(directives)?;
    let lines = match format {
        LogFormat::Text => {
            let colours =
                io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            fmt::layer().with_writer(writer).with_ansi(colours).boxed()
        }
        LogFormat::Json => fmt::layer().with_writer(writer).with_ansi(false).event_format(Json).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).try_init()?;
    Ok(())
}

/// Reads the filter.
pub(crate) fn filter(directives: &str) -> Result<Targets, Misuse> {
    directives.parse().map_err(|error| {
        Misuse(format!(
            "`telemetry.log` is {directives:?}, but it must be a level (error, warn, info, debug, trace, off) or \
             directives such as \"herma=debug,warn\": {error}"
        ))
    })
}
