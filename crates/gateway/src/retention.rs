//! Forgets stored responses that are older than the operator's limit. Their conversations stay as they are.

use std::sync::{Arc, Weak};
use std::time::Duration;

use herma_store::StoreError;

use crate::gateway::Gateway;
use crate::mint;

/// The pause between two runs is a tenth of the limit, but between these two. A response may live that much longer.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// Starts a task that forgets old responses at intervals. It ends with the gateway.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let Some(kept) = gateway.settings.responses_kept else { return };
    let gateway = Arc::downgrade(gateway);
    tokio::spawn(async move {
        while let Some(gateway) = Weak::upgrade(&gateway) {
            match forget(&gateway, kept).await {
                Ok(0) => {}
                Ok(responses) => tracing::info!(responses, "old responses were forgotten"),
                Err(error) => tracing::warn!(%error, "old responses were not forgotten; this is tried again"),
            }
            drop(gateway);
            tokio::time::sleep(pause(kept)).await;
        }
    });
}

async fn forget(gateway: &Gateway, kept: Duration) -> Result<usize, StoreError> {
    let before = mint::now().minus(kept);
    let mut forgotten = 0;
    while !gateway.is_draining() {
        let step = gateway.store.expire_responses(before).await?;
        forgotten += step.responses;
        if step.is_all {
            break;
        }
    }
    Ok(forgotten)
}

fn pause(kept: Duration) -> Duration {
    (kept / 10).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_a_tenth_of_the_limit_and_at_most_ten_minutes() {
        for (kept, expected) in [(1, 1), (60, 6), (30 * 24 * 60 * 60, 600)] {
            assert_eq!(pause(Duration::from_secs(kept)), Duration::from_secs(expected), "{kept}");
        }
    }
}
