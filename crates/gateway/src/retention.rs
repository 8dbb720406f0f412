//! Forgetting what the operator does not want kept for ever: stored responses, by their age. Their conversations stay as they are.

use std::sync::{Arc, Weak};
use std::time::Duration;

use herma_model::Timestamp;
use herma_store::StoreError;

use crate::gateway::Gateway;
use crate::mint;

/// A response outlives its time by a tenth of it, between these two.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// Starts to forget, now and from time to time; it ends with the gateway.
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
    let before = Timestamp(mint::now().0.saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX)));
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
    fn short_times_are_looked_at_often_and_long_ones_often_enough() {
        for (kept, expected) in [(1, 1), (60, 6), (30 * 24 * 60 * 60, 600)] {
            assert_eq!(pause(Duration::from_secs(kept)), Duration::from_secs(expected), "{kept}");
        }
    }
}
