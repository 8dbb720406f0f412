//! Asks a provider, within a time and a budget.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use herma_model::{Recall, RecallStatus};

use crate::block::{self, Block};
use crate::provider::{MemoryProvider, RecallRequest, Recollection};

/// How much may be recalled, and how long that may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecallLimits {
    /// Most tokens of the block.
    pub budget: u32,
    /// How long the provider may take.
    pub timeout: Duration,
}

/// What is recalled into a turn. If a provider is late or fails, the status says so, and the block has what the others
/// have found. Cancel-safe.
pub async fn recall(
    provider: &dyn MemoryProvider,
    request: &RecallRequest,
    limits: RecallLimits,
    recorded: bool,
) -> Recall {
    let asked = std::iter::once(provider).chain(provider.beside());
    let (mut all, mut trouble) = (Vec::new(), None);
    for found in join_all(asked.map(|one| found_in_time(one, request, limits.timeout))).await {
        match found {
            Ok(found) => all.extend(found),
            Err(status) => trouble = trouble.or(Some(status)),
        }
    }
    let budget = usize::try_from(limits.budget).unwrap_or(usize::MAX);
    let Some(Block { text, used }) = block::block(all, budget) else {
        return Recall::without_block(trouble.unwrap_or(RecallStatus::Nothing), recorded);
    };
    let mut conversations: Vec<_> = used.iter().filter_map(|one| one.conversation).collect();
    conversations.sort_unstable();
    conversations.dedup();
    Recall {
        status: trouble.unwrap_or(RecallStatus::Recalled),
        recorded,
        block: Some(Arc::from(text)),
        conversations,
        memories: used.iter().filter_map(|one| one.memory).collect(),
        derived: used.iter().any(Recollection::is_derived),
        as_of: request.as_of.map_or(0, |seen| seen.changes),
    }
}

async fn found_in_time(
    provider: &dyn MemoryProvider,
    request: &RecallRequest,
    limit: Duration,
) -> Result<Vec<Recollection>, RecallStatus> {
    match tokio::time::timeout(limit, provider.recall(request)).await {
        Err(_) => {
            tracing::warn!(provider = provider.name(), "memory was not recalled in time; the turn goes on without it");
            Err(RecallStatus::Late)
        }
        Ok(Err(error)) => {
            tracing::warn!(provider = provider.name(), %error, "memory was not recalled; the turn goes on without it");
            Err(RecallStatus::Failed)
        }
        Ok(Ok(found)) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use herma_model::{ConversationId, SessionKey, TenantId, Timestamp};
    use herma_store::{Shown, StoreError};
    use uuid::Uuid;

    use super::*;
    use crate::provider::{MemoryError, Speaker};

    /// A provider that is slow, down, or says too much.
    enum Fake {
        Slow,
        Down,
        Huge,
        Empty,
    }

    #[async_trait]
    impl MemoryProvider for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        async fn recall(&self, _: &RecallRequest) -> Result<Vec<Recollection>, MemoryError> {
            let said = |text: String| Recollection {
                speaker: Some(Speaker::User),
                text: Arc::from(text),
                at: Timestamp(0),
                conversation: Some(ConversationId::from_uuid(Uuid::nil())),
                memory: None,
            };
            match self {
                Self::Slow => {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok(vec![said("too late".to_owned())])
                }
                Self::Down => Err(MemoryError::Store(StoreError::Closed)),
                Self::Huge => Ok((0..10_000).map(|nth| said(format!("{nth} {}", "word ".repeat(50)))).collect()),
                Self::Empty => Ok(Vec::new()),
            }
        }
    }

    async fn recalled(provider: Fake) -> Recall {
        recall_with(&provider).await
    }

    async fn recall_with(provider: &dyn MemoryProvider) -> Recall {
        let request = RecallRequest {
            tenant: TenantId(1),
            session_key: SessionKey::parse("ann").unwrap(),
            text: "hello".to_owned(),
            shown: Shown { conversation: ConversationId::from_uuid(Uuid::nil()), hidden_through: None },
            inherited: Vec::new(),
            as_of: None,
        };
        recall(provider, &request, RecallLimits { budget: 800, timeout: Duration::from_millis(500) }, true).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_is_late_or_fails_leaves_the_turn_without_a_block() {
        for (provider, status) in
            [(Fake::Slow, RecallStatus::Late), (Fake::Down, RecallStatus::Failed), (Fake::Empty, RecallStatus::Nothing)]
        {
            assert_eq!(recalled(provider).await, Recall::without_block(status, true));
        }
    }

    /// A provider that is late, beside one that is not.
    struct Both(Fake, Fake);

    #[async_trait]
    impl MemoryProvider for Both {
        fn name(&self) -> &'static str {
            "both"
        }

        fn beside(&self) -> Vec<&dyn MemoryProvider> {
            vec![&self.1]
        }

        async fn recall(&self, request: &RecallRequest) -> Result<Vec<Recollection>, MemoryError> {
            self.0.recall(request).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_find_is_recalled_though_one_is_late_and_the_status_says_so() {
        for (both, status) in [
            (Both(Fake::Slow, Fake::Huge), RecallStatus::Late),
            (Both(Fake::Huge, Fake::Down), RecallStatus::Failed),
            (Both(Fake::Huge, Fake::Empty), RecallStatus::Recalled),
        ] {
            let recall = recall_with(&both).await;
            assert!(recall.status == status && recall.block.is_some(), "{recall:?}");
        }
        assert_eq!(recall_with(&Both(Fake::Empty, Fake::Slow)).await.block, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_says_too_much_is_cut_to_the_budget() {
        let recall = recalled(Fake::Huge).await;
        let block = recall.block.unwrap();
        assert!(block.len() / 4 <= 800 && block.contains("\n- 1970-01-01, the user: 0 word"), "{}", block.len());
        assert_eq!((recall.status, recall.conversations.len()), (RecallStatus::Recalled, 1));
    }
}
