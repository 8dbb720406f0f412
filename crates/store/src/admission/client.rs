//! Whether the client of a request is still connected.

use std::fmt;
use std::sync::Arc;

/// The connection of a request. Its state may be unknown.
#[derive(Clone, Default)]
pub struct ClientConnection(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl ClientConnection {
    /// A connection that this function watches; it returns true if the client has closed the connection. It must not
    /// block, because the store calls it while it holds the write lock.
    pub fn watched(is_closed: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_closed)))
    }

    /// True if the client has closed it. False if its state is unknown.
    pub fn is_closed(&self) -> bool {
        self.0.as_ref().is_some_and(|is_closed| is_closed())
    }
}

impl fmt::Debug for ClientConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "watched" } else { "unknown" };
        write!(formatter, "ClientConnection({known})")
    }
}
