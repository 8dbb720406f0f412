//! `/api/sessions`: conversations as rows, what was said in them, and what became of it.

mod chat;
pub(crate) mod compactions;
mod lineage;
mod list;
mod manage;
mod messages;
mod pin;
mod show;

use axum::response::{IntoResponse, Response};
use herma_model::Alias;
use herma_store::{ConversationRow, Pin};
use herma_wire::resource::SessionRow;
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::json::Json;
use crate::query::Parameters;

pub(crate) use chat::{chat, chat_stream};
pub(crate) use lineage::lineage;
pub(crate) use list::{cursor, list, of_key};
pub(crate) use manage::{
    branch, change, create, create_under_key, delete, end, refuse_without_auth, reopen, session_key,
};
pub(crate) use messages::messages;
pub(crate) use pin::{pin, unpin};
pub(crate) use show::show;

/// A name in a path. What cannot be a name leads nowhere.
pub(crate) fn alias(name: &str) -> Result<Alias, ApiError> {
    Alias::parse(name).map_err(|_| unknown())
}

/// Which session of the conversation a name in a path stands for.
fn pin_of(parameters: &Parameters) -> Result<Pin, ApiError> {
    Ok(parameters.parsed("pin", |pin| (pin == "exact").then_some(Pin::Exact), "'exact'")?.unwrap_or_default())
}

pub(crate) fn unknown() -> ApiError {
    ApiError::not_found("no conversation is known by this id")
}

/// Writes rows as JSON, each with what it borrows.
fn with_row<T>(row: &ConversationRow, write: impl FnOnce(SessionRow<'_>) -> T) -> T {
    let metadata: Option<&RawValue> = row.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
    write(SessionRow {
        conversation: &row.facts,
        session: &row.session,
        title: row.title.as_deref(),
        source: Some(&row.source),
        metadata,
        archived: row.archived,
        created_at: row.created_at,
        updated_at: row.updated_at,
        ended_at: row.ended.map(|(at, _)| at),
        end_reason: row.ended.map(|(_, reason)| reason),
        message_count: row.message_count,
        turn_count: row.turn_count,
        usage: row.usage,
    })
}

fn row_response(row: &ConversationRow) -> Response {
    with_row(row, |row| Json(row).into_response())
}

fn row_value(row: &ConversationRow) -> serde_json::Value {
    with_row(row, |row| serde_json::to_value(row).unwrap_or_default())
}
