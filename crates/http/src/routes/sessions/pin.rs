//! `PUT` and `DELETE /api/sessions/{alias}/messages/{message_id}/pin`: every compaction keeps pinned messages word for
//! word.

use axum::Extension;
use axum::extract::State;
use herma_gateway::{GatewayError, Missing, Sessions};
use herma_model::{MessageId, Principal};
use http::HeaderMap;
use serde::Serialize;

use super::alias;
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::NamedWithin;
use crate::revision;

/// Whether a message is pinned.
#[derive(Serialize)]
pub(crate) struct PinRow {
    id: MessageId,
    object: &'static str,
    pinned: bool,
}

/// Pins a message. A message that is pinned already stays pinned.
pub(crate) async fn pin(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    names: NamedWithin,
    headers: HeaderMap,
) -> Result<Json<PinRow>, ApiError> {
    set(&revision::sessions(&app, &principal, &headers)?, &names, true).await
}

/// Unpins a message. A message that is not pinned stays so.
pub(crate) async fn unpin(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    names: NamedWithin,
    headers: HeaderMap,
) -> Result<Json<PinRow>, ApiError> {
    set(&revision::sessions(&app, &principal, &headers)?, &names, false).await
}

async fn set(
    sessions: &Sessions<'_>,
    NamedWithin(name, id): &NamedWithin,
    pinned: bool,
) -> Result<Json<PinRow>, ApiError> {
    let id = id.parse().map_err(|_| GatewayError::NotFound(Missing::Message))?;
    sessions.pin(&alias(name)?, id, pinned).await?;
    Ok(Json(PinRow { id, object: "message.pin", pinned }))
}
