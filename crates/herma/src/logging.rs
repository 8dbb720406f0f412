//! The log: lines on stderr, filtered as `telemetry.log` says.

use std::io::{self, IsTerminal};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::Misuse;

/// Starts logging for the rest of the process.
pub(crate) fn start(directives: &str) -> anyhow::Result<()> {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(colours);
    tracing_subscriber::registry().with(lines.with_filter(filter(directives)?)).try_init()?;
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
