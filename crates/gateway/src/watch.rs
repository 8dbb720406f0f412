//! Watching other processes on the same store: whom they ask to stop, and what they let go.

use std::sync::{Arc, Weak};

use crate::gateway::Gateway;

/// Starts the watch; it ends with the gateway.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let mut changes = gateway.store.changes();
    let gateway = Arc::downgrade(gateway);
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let Some(gateway) = Weak::upgrade(&gateway) else { return };
            match gateway.store.stop_requests().await {
                Ok(asked) => asked.into_iter().for_each(|(turn, kind)| gateway.live.stop(turn, kind.into())),
                Err(error) => tracing::debug!(%error, "the store was not asked who must stop"),
            }
            gateway.live.wake_all();
        }
    });
}
