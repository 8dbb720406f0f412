//! How a failed command ends: one sentence on stderr, and an exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use herma_config::ConfigError;

use crate::output;

/// The exit code for a wrong request, as opposed to a failure.
const MISUSE: u8 = 2;

/// The request itself is wrong and cannot succeed on any machine state.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Prints the error on stderr. Nothing is printed if the reader of stdout closed the pipe.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::FAILURE;
    }
    if let Some(error) = error.downcast_ref::<ConfigError>() {
        // The message already includes its source.
        error.mistakes().iter().for_each(|mistake| output::note(&format!("error: {mistake}")));
        return ExitCode::from(MISUSE);
    }
    output::note(&format!("error: {error:#}"));
    if error.is::<Misuse>() { ExitCode::from(MISUSE) } else { ExitCode::FAILURE }
}
