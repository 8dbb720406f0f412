//! Deletes conversations, alone or all of a session key, and shows the receipts.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use herma_gateway::{GatewayError, Missing, rows};
use herma_model::{ErasureId, Principal, SessionKey};
use herma_store::{Children, Facts, Removed};
use herma_wire::resource::ErasureObject;
use http::HeaderMap;

use super::alias;
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;
use crate::revision;

type Receipt = Json<ErasureObject<Removed>>;

/// `DELETE /api/sessions/{alias}`: deletes one conversation, or also all its descendants.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    headers: HeaderMap,
    query: Query<HashMap<String, String>>,
) -> Result<Receipt, ApiError> {
    let parameters = Parameters::of(query, &["children", "memories"])?;
    let children = parameters.parsed("children", children, "'keep' or 'delete'")?.unwrap_or_default();
    let memories = parameters.parsed("memories", facts, "'keep' or 'delete'")?.unwrap_or_default();
    let sessions = revision::sessions(&app, &principal, &headers)?;
    Ok(Json(rows::erasure(&sessions.delete(&alias(&name)?, children, memories).await?)))
}

fn children(word: &str) -> Option<Children> {
    match word {
        "keep" => Some(Children::Keep),
        "delete" => Some(Children::Delete),
        _ => None,
    }
}

fn facts(word: &str) -> Option<Facts> {
    match word {
        "keep" => Some(Facts::Keep),
        "delete" => Some(Facts::Erase),
        _ => None,
    }
}

/// `DELETE /api/session-keys/{key}`: deletes all conversations and the memory of a session key.
pub(crate) async fn erase_key(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(key): Named,
) -> Result<Receipt, ApiError> {
    let unknown = |_| GatewayError::NotFound(Missing::SessionKey);
    let key = SessionKey::parse(&key).map_err(unknown)?;
    Ok(Json(rows::erasure(&app.sessions(&principal).erase_key(&key).await?)))
}

/// `GET /api/erasures/{id}`: the receipt of an erasure, with what is pending now.
pub(crate) async fn erasure(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Receipt, ApiError> {
    let unknown = |_| GatewayError::NotFound(Missing::Erasure);
    let id: ErasureId = id.parse().map_err(unknown)?;
    Ok(Json(rows::erasure(&app.sessions(&principal).erasure(id).await?)))
}
