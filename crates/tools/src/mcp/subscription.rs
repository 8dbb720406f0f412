//! Hears of changed tools where they have to be subscribed to: from revision 2026-07-28 on.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::SubscriptionFilter;
use rmcp::service::Peer;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// How long a lost subscription rests before it is opened again.
const PAUSE: Duration = Duration::from_secs(5);

/// An open subscription. Dropping it ends it.
pub(super) struct Subscription(JoinHandle<()>);

impl Subscription {
    /// Subscribes if the server's revision needs it and the server offers it.
    pub(super) fn open(peer: Peer<RoleClient>, changes: Arc<Notify>) -> Option<Self> {
        let server = peer.peer_info()?;
        let announces = server.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        if server.protocol_version.has_initialize() || !announces {
            return None;
        }
        Some(Self(tokio::spawn(async move {
            while !peer.is_transport_closed() {
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                match peer.listen(filter).await {
                    Ok(mut subscription) => {
                        while let Ok(Some(_)) = subscription.next().await {
                            changes.notify_one();
                        }
                    }
                    Err(error) => tracing::debug!("changes of tools are not heard of: {error}"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        })))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.abort();
    }
}
