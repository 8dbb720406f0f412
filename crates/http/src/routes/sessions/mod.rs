//! `/api/sessions`: conversations as rows, their messages, compactions and lineage.

mod chat;
pub(crate) mod compactions;
mod erase;
mod lineage;
mod list;
mod manage;
mod messages;
mod pin;
mod rewind;
mod show;

use axum::response::{IntoResponse, Response};
use herma_gateway::{GatewayError, Missing, rows};
use herma_model::Alias;
use herma_store::{ConversationRow, Pin};

use crate::error::ApiError;
use crate::json::Json;
use crate::query::Parameters;
use crate::request_log::Notes;
use crate::revision::with_revision;

pub(crate) use chat::{chat, chat_stream};
pub(crate) use erase::{delete, erase_key, erasure};
pub(crate) use lineage::lineage;
pub(crate) use list::{cursor, list, of_key};
pub(crate) use manage::{branch, change, create, create_under_key, end, refuse_without_auth, reopen, session_key};
pub(crate) use messages::messages;
pub(crate) use pin::{pin, unpin};
pub(crate) use rewind::{restore, rewind};
pub(crate) use show::show;

/// A name in a path. Text that cannot be a name is answered with 404.
pub(crate) fn alias(name: &str) -> Result<Alias, ApiError> {
    Alias::parse(name).map_err(|_| unknown())
}

/// Whether a name in a path stands for the head of its conversation or for exactly that session.
fn pin_of(parameters: &Parameters) -> Result<Pin, ApiError> {
    Ok(parameters.parsed("pin", |pin| (pin == "exact").then_some(Pin::Exact), "'exact'")?.unwrap_or_default())
}

pub(crate) fn unknown() -> ApiError {
    GatewayError::NotFound(Missing::Conversation).into()
}

fn row_response(row: &ConversationRow) -> Response {
    Notes::current().conversation(row.facts.id);
    with_revision(Json(rows::session(row)).into_response(), row)
}
