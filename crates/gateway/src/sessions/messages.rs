//! Pins or removes single messages of a conversation.

use std::sync::Arc;

use herma_model::{Alias, Message, MessageId};
use herma_store::{PinOutcome, Rewrite, RewriteOutcome};
use herma_wire::responses::{message_of_item, without_item};

use super::Sessions;
use crate::error::{Conflict, GatewayError, Missing};
use crate::mint;

/// How often other requests may change a message while a request rewrites it.
const MOST_TRIES: usize = 10;

impl Sessions<'_> {
    /// Pins or unpins a message. Every compaction keeps a pinned message word for word.
    pub async fn pin(&self, alias: &Alias, message: MessageId, pinned: bool) -> Result<(), GatewayError> {
        match self.store.pin(&self.scope, alias, message, pinned).await? {
            PinOutcome::Done => Ok(()),
            PinOutcome::NotFound => Err(GatewayError::NotFound(Missing::Message)),
            PinOutcome::NotWhole => Err(GatewayError::Conflict(Conflict::NotWhole)),
            PinOutcome::TooMany { limit } => Err(GatewayError::Conflict(Conflict::TooManyPins { limit })),
        }
    }

    /// The message that an item is part of, by the item's id in OpenAI's format.
    pub async fn message_of_item(&self, alias: &Alias, item: &str) -> Result<Arc<Message>, GatewayError> {
        let unknown = GatewayError::NotFound(Missing::Item);
        let Some(id) = message_of_item(item) else { return Err(unknown) };
        self.store.message(&self.scope, alias, id).await?.ok_or(unknown)
    }

    /// Removes an item from its message. The rest of the message stays. Durable when it returns.
    pub async fn remove_item(&self, alias: &Alias, item: &str) -> Result<(), GatewayError> {
        let unknown = || GatewayError::NotFound(Missing::Item);
        for _ in 0..MOST_TRIES {
            let seen = self.message_of_item(alias, item).await?;
            let said = without_item(&seen.said, seen.id, item).ok_or_else(unknown)?;
            let (scope, alias, now) = (self.scope.clone(), alias.clone(), mint::now());
            match self.store.rewrite(Rewrite { scope, alias, seen, said, now }).await? {
                RewriteOutcome::Done => return Ok(()),
                RewriteOutcome::NotFound => return Err(unknown()),
                RewriteOutcome::Busy(running) => return Err(GatewayError::busy(running)),
                RewriteOutcome::Shared => return Err(GatewayError::Conflict(Conflict::ItemIsShared)),
                RewriteOutcome::Stale => {}
            }
        }
        Err(GatewayError::changes_too_fast())
    }
}
