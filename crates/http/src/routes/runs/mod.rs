//! `/v1/runs`: a turn that runs without its client, as in Hermes' API.

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

/// The route name that is stored with each turn.
const ROUTE: &str = "runs";

/// A run's id in a path. Text that is no run id is answered with 404.
fn run_id(text: &str) -> Result<RunId, ApiError> {
    text.parse().map_err(|_| unknown())
}

fn unknown() -> ApiError {
    ApiError::of(&GatewayError::NotFound(Missing::Turn), Dialect::Runs)
}
