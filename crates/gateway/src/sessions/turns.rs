//! Earlier turns: found by their id, forgotten as responses, and their items by id.

use herma_model::limits::MAX_REFERENCES;
use herma_model::{MessageId, Step, TurnId};
use herma_store::TurnRecord;
use herma_wire::responses::{KeptItems, items_of, message_of_item};

use super::Sessions;
use crate::error::{GatewayError, InvalidRequest, Missing};

impl Sessions<'_> {
    /// A turn of this route, in its present state. Turns of other routes are not found. Cancel-safe.
    pub async fn turn(&self, turn: TurnId, route: &str) -> Result<TurnRecord, GatewayError> {
        let found = self.store.turn(&self.scope, turn).await?;
        let found = found.filter(|record| &*record.api == route).ok_or(GatewayError::NotFound(Missing::Turn))?;
        Ok(found.as_it_stands())
    }

    /// The same, if it is kept as a response. Cancel-safe.
    pub async fn response(&self, turn: TurnId, route: &str) -> Result<TurnRecord, GatewayError> {
        let found = self.turn(turn, route).await?;
        if found.kept { Ok(found) } else { Err(GatewayError::NotFound(Missing::Turn)) }
    }

    /// Deletes a response: its turn can no longer be fetched. The messages stay in their conversation.
    pub async fn forget_response(&self, turn: TurnId, route: &str) -> Result<(), GatewayError> {
        self.response(turn, route).await?;
        let forgotten = self.store.forget_response(&self.scope, turn).await?;
        if forgotten { Ok(()) } else { Err(GatewayError::NotFound(Missing::Turn)) }
    }

    /// The items of these ids that the caller may see, for requests that name items instead of sending them.
    /// Cancel-safe.
    pub async fn kept_items(&self, ids: &[String]) -> Result<KeptItems, GatewayError> {
        if ids.len() > MAX_REFERENCES {
            return Err(GatewayError::Invalid(InvalidRequest::TooManyReferences));
        }
        let mut kept = KeptItems::new();
        for id in ids {
            let Some(message) = message_of_item(id).filter(|_| !kept.contains_key(id)) else { continue };
            self.keep_items_of(message, &mut kept).await?;
        }
        Ok(kept)
    }

    /// Adds all items of a message, because other ids of the request are probably among them.
    async fn keep_items_of(&self, message: MessageId, kept: &mut KeptItems) -> Result<(), GatewayError> {
        let Some(turn) = self.store.turn(&self.scope, message.turn()).await? else { return Ok(()) };
        let steps = turn.steps.iter().filter_map(Step::stored_message);
        let found = turn.input.iter().chain(steps).filter(|said| said.id == message);
        kept.extend(found.flat_map(|said| items_of(said)).map(|item| (item.id().to_owned(), item)));
        Ok(())
    }
}
