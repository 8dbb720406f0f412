//! How a command that failed ends: one sentence on stderr, and an exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use herma_config::ConfigError;

use crate::output;

/// The exit code of what was asked for wrongly, as opposed to what went wrong.
const MISUSE: u8 = 2;

/// Something was asked for that cannot be, whatever the state of the machine.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Says why on stderr. Whoever closed our stdout has seen enough and is told nothing.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::FAILURE;
    }
    if let Some(error) = error.downcast_ref::<ConfigError>() {
        // Its sentence holds its source already.
        output::note(&format!("error: {error}"));
        return ExitCode::from(MISUSE);
    }
    output::note(&format!("error: {error:#}"));
    if error.is::<Misuse>() { ExitCode::from(MISUSE) } else { ExitCode::FAILURE }
}
