//! Requests that cannot fit into the model's window.

use herma_store::Snapshot;

use crate::compaction::{Load, exceeded, longer_than};
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::input::Input;
use crate::request::{ConversationRef, TurnRequest};

/// Refuses a request that does not fit even after a compaction. Called before anything is written.
pub(crate) fn check_window(
    gateway: &Gateway,
    request: &TurnRequest,
    before: Option<&Snapshot>,
    input: &Input<'_>,
) -> Result<(), GatewayError> {
    // Messages that are only added need not fit yet. The next turn compacts if it has to.
    if request.input.all_new {
        return Ok(());
    }
    let asked = request.options.model.as_deref();
    let model = gateway.settings.resolve_model(asked);
    let Some(window) = model.window.map(u64::from) else { return Ok(()) };
    let load = Load::of(request, before, input.new);
    if load.total <= window {
        return Ok(());
    }
    let new: u64 = input.new.iter().map(|said| u64::from(said.tokens)).sum();
    let why = match before {
        Some(_) if load.front + new >= window => Some("what is new is too much by itself".to_owned()),
        _ if request.options.truncate => None,
        Some(_) => gateway.cannot_compact(),
        None if request.destination.conversation == ConversationRef::Stateless => {
            Some("nothing of it is kept, so nothing can be summarised".to_owned())
        }
        None => Some("there is nothing to summarise yet".to_owned()),
    };
    match why {
        None => Ok(()),
        Some(why) => Err(GatewayError::Turn(exceeded(&longer_than(load.total, model.name, window), &why))),
    }
}
