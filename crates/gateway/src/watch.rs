//! Stops the turns of this process that another process asks to stop.

use std::sync::{Arc, Weak};

use herma_store::Notice;

use crate::gateway::Gateway;

/// Starts the watch; it ends with the gateway or its store.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let mut asked = gateway.store.subscribe(Notice::StopRequested);
    let gateway = Arc::downgrade(gateway);
    tokio::spawn(async move {
        while asked.notified().await.is_ok() {
            let Some(gateway) = Weak::upgrade(&gateway) else { return };
            match gateway.store.stop_requests().await {
                Ok(asked) => asked.into_iter().for_each(|(turn, kind)| gateway.live.stop(turn, kind.into())),
                Err(error) => tracing::debug!(%error, "the store was not asked who must stop"),
            }
        }
    });
}
