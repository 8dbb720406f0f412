//! `/v1/responses`: a turn as OpenAI's Responses API shows it.

mod connection;
mod context;
mod create;
mod frames;
mod input_items;
mod memory;
mod socket;
mod stored;

use herma_gateway::{GatewayError, Missing};
use herma_model::{Principal, ResponseId};
use herma_wire::responses::KeptItems;

use crate::app::Shared;
use crate::dialect::Dialect;
use crate::error::ApiError;

pub(crate) use context::{compact, input_tokens};
pub(crate) use create::{create, fill};
pub(crate) use input_items::{ItemPage, input_items};
pub(crate) use socket::connect;
pub(crate) use stored::{cancel, forget, show};

/// The route name that is stored with each turn.
const ROUTE: &str = "responses";

/// A response's id in a path. Text that is no response id is answered with 404.
fn response_id(text: &str) -> Result<ResponseId, ApiError> {
    text.parse().map_err(|_| unknown())
}

fn unknown() -> ApiError {
    ApiError::of(&GatewayError::NotFound(Missing::Turn), Dialect::Responses)
}

/// The stored items that a request references by id. Ids that the caller cannot see are left out.
pub(crate) async fn named_items(
    app: &Shared,
    principal: &Principal,
    ids: &[String],
    dialect: Dialect,
) -> Result<KeptItems, ApiError> {
    app.sessions(principal).kept_items(ids).await.map_err(dialect.error_mapper())
}
