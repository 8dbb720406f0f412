//! Signals from the system and the keyboard.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches interrupts and termination requests from its creation on. Must be created inside a runtime.
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

    /// The next Ctrl-C or termination request. Cancel-safe.
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

    /// The next Ctrl-C. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Caught {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Caught::Interrupt
    }
}

/// A caught signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caught {
    /// Ctrl-C.
    Interrupt,
    /// The system asks the process to end.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix tells"))]
    Terminate,
}
