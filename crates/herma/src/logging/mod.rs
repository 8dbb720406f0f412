//! The log: lines on stderr, filtered by `telemetry.log` and formatted by `telemetry.format`.
//!
//! A server writes its lines on a separate thread ([`queue`]), so that a full pipe never delays a request.
//! A command in a terminal writes them directly. It logs only warnings and errors, unless another filter is set.

mod json;
mod plain;
mod queue;

use std::io::{self, IsTerminal};

use herma_config::{LogFormat, TelemetryConfig};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use self::json::Json;
use self::plain::PlainFields;
use crate::failure::Misuse;

pub(crate) use queue::Flush;

/// The filter of commands if none is set.
const COMMANDS: &str = "warn";
/// The same for `herma chat`, which prints itself what failed. Lines of the log would stand in its answers and prompts.
const CHAT: &str = "warn,herma_upstream=error,herma_gateway::warning=error,herma_telemetry=error";
/// The same for `herma tools`, which prints itself why a server failed.
const TOOLS: &str = "warn,herma_tools=error";

/// Starts the log of a server. When the guard is dropped, the waiting lines are written.
pub(crate) fn of_server(telemetry: &TelemetryConfig) -> anyhow::Result<Flush> {
    let (lines, flush) = queue::start()?;
    start(&telemetry.log, telemetry.format, lines)?;
    Ok(flush)
}

/// Starts the log of a command. By default it shows only warnings and errors.
pub(crate) fn of_command(telemetry: &TelemetryConfig) -> anyhow::Result<()> {
    of_command_with(telemetry, COMMANDS)
}

/// Starts the log of `herma chat`.
pub(crate) fn of_chat(telemetry: &TelemetryConfig) -> anyhow::Result<()> {
    of_command_with(telemetry, CHAT)
}

/// Starts the log of `herma tools`.
pub(crate) fn of_tools(telemetry: &TelemetryConfig) -> anyhow::Result<()> {
    of_command_with(telemetry, TOOLS)
}

fn of_command_with(telemetry: &TelemetryConfig, default: &str) -> anyhow::Result<()> {
    let is_default = telemetry.log == TelemetryConfig::default().log;
    start(if is_default { default } else { &telemetry.log }, telemetry.format, io::stderr)
}

fn start<W>(directives: &str, format: LogFormat, writer: W) -> anyhow::Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = without_library(filter(directives)?, directives);
    let lines = match format {
        LogFormat::Text => {
            let colours =
                io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let lines = fmt::layer().with_writer(writer).with_ansi(colours);
            if colours { lines.boxed() } else { lines.fmt_fields(PlainFields).boxed() }
        }
        LogFormat::Json => fmt::layer().with_writer(writer).with_ansi(false).event_format(Json).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).try_init()?;
    Ok(())
}

/// Up to the level `info`, the MCP library logs nothing unless the directives name it. Herma says itself what failed,
/// in a sentence.
fn without_library(filter: Targets, directives: &str) -> Targets {
    match filter.default_level() {
        Some(level) if level <= LevelFilter::INFO && !directives.contains("rmcp") => {
            filter.with_target("rmcp", LevelFilter::OFF)
        }
        _ => filter,
    }
}

pub(crate) fn filter(directives: &str) -> Result<Targets, Misuse> {
    directives.parse().map_err(|error| {
        Misuse(format!(
            "`telemetry.log` is {directives:?}, but it must be a level (error, warn, info, debug, trace, off) or \
             directives such as \"herma=debug,warn\": {error}"
        ))
    })
}
