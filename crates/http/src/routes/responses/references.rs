//! Items that a request names instead of sending them.

use herma_model::limits::MAX_REFERENCES;
use herma_model::{MessageId, Principal};
use herma_store::Scope;
use herma_wire::responses::{KeptItems, items_of, message_of_item};

use crate::app::Shared;
use crate::error::ApiError;

/// The named items that exist for the caller.
pub(crate) async fn look_up(app: &Shared, principal: &Principal, ids: &[String]) -> Result<KeptItems, ApiError> {
    if ids.len() > MAX_REFERENCES {
        let message =
            format!("the request names more than {MAX_REFERENCES} items, which is the limit; name their conversation");
        return Err(ApiError::invalid(message, "input"));
    }
    let scope = Scope::of(principal);
    let mut kept = KeptItems::new();
    for id in ids {
        let Some(message) = message_of_item(id).filter(|_| !kept.contains_key(id)) else { continue };
        keep(app, &scope, message, &mut kept).await?;
    }
    Ok(kept)
}

/// Keeps all items of a message: what else is named is likely to be among them.
async fn keep(app: &Shared, scope: &Scope, message: MessageId, kept: &mut KeptItems) -> Result<(), ApiError> {
    let Some(turn) = app.gateway.store().turn(scope, message.turn()).await? else { return Ok(()) };
    let found = turn.input.iter().chain(turn.said()).filter(|said| said.id == message);
    kept.extend(found.flat_map(|said| items_of(said)).map(|item| (item.id().to_owned(), item)));
    Ok(())
}
