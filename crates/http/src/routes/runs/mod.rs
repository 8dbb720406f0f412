//! `/v1/runs`: a turn that nobody has to wait for, as Hermes' clients know it.

mod approval;
mod create;
mod events;
mod stored;

use herma_gateway::{GatewayError, Missing};
use herma_model::RunId;

use crate::dialect::Dialect;
use crate::error::ApiError;

pub(crate) use approval::approve;
pub(crate) use create::create;
pub(crate) use events::events;
pub(crate) use stored::{show, stop};

/// The name of this door in the store.
const ROUTE: &str = "runs";

/// A run's id in a path. What cannot be one leads nowhere.
fn run_id(text: &str) -> Result<RunId, ApiError> {
    text.parse().map_err(|_| unknown())
}

fn unknown() -> ApiError {
    ApiError::of(&GatewayError::NotFound(Missing::Turn), Dialect::Runs)
}
