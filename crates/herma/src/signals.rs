//! What the system and the keyboard tell a running process.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupts and requests to end, caught from the moment this exists. Must be made inside a runtime.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Ctrl-C or a request to end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.interrupt.recv() => Caught::Interrupt,
            _ = self.terminate.recv() => Caught::Terminate,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Ctrl-C. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Caught {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Caught::Interrupt
    }
}

/// What was caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// Ctrl-C.
    Interrupt,
    /// The system wants the process to end.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix tells"))]
    Terminate,
}
