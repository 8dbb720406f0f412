//! `/v1/responses`: a turn as OpenAI's Responses API shows it.

mod connection;
mod context;
mod create;
mod frames;
mod input_items;
mod memory;
pub(crate) mod references;
mod socket;
mod stored;

use herma_model::ResponseId;

use crate::error::ApiError;

pub(crate) use context::{compact, input_tokens};
pub(crate) use create::{create, turn_request};
pub(crate) use input_items::{ItemPage, input_items};
pub(crate) use socket::connect;
pub(crate) use stored::{cancel, forget, show};

/// The name of this door in the store.
const ROUTE: &str = "responses";

/// A response's id in a path. What cannot be one leads nowhere.
fn response_id(text: &str) -> Result<ResponseId, ApiError> {
    text.parse().map_err(|_| unknown())
}

fn unknown() -> ApiError {
    ApiError::not_found("no response is known by this id: it was deleted, or never stored")
}
