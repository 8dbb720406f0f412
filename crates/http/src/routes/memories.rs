//! `/api/memories`: facts in long-term memory.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse, Response};
use herma_gateway::{GatewayError, Missing};
use herma_model::{MemoryId, MemorySource, Principal, SessionKey};
use herma_wire::list::Page;
use herma_wire::resource::{ChangeMemory, CreateMemory, ForgottenMemory, MemoryRow};
use http::StatusCode;

use super::sessions::{refuse_without_auth, session_key};
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;

/// `GET /api/memories`: a page of facts, newest first.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["session_key", "limit", "cursor"])?;
    let (key, after) = (key_of(&parameters)?, parameters.numeric_cursor()?);
    let page = app.gateway.memories(&principal).list(key, after, parameters.limit()?).await?;
    let next = page.next.map(|next| next.to_string());
    Ok(Json(Page::new(page.memories.iter().map(MemoryRow).collect(), next)).into_response())
}

/// `POST /api/memories`: adds a fact about a session key.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::read(&parts.headers)?;
    let body = body::read(&app, &parts.headers, body).await?;
    let asked = CreateMemory::parse(&body)?;
    refuse_without_auth(&app, &[("session_key", &asked.session_key)])?;
    let key = session_key(headers.key, asked.session_key.as_deref())?;
    let key = key.ok_or_else(|| ApiError::invalid("session_key is required", "session_key"))?;
    let added = app.gateway.memories(&principal).add(key, &asked.text, MemorySource::Api, None).await?;
    Ok((StatusCode::CREATED, Json(MemoryRow(&added))).into_response())
}

/// `GET /api/memories/{id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let memory = app.gateway.memories(&principal).show(memory_id(&id)?).await?;
    Ok(Json(MemoryRow(&memory)).into_response())
}

/// `PATCH /api/memories/{id}`: corrects a fact.
pub(crate) async fn change(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let ChangeMemory { text } = ChangeMemory::parse(&body)?;
    let changed = app.gateway.memories(&principal).change(memory_id(&id)?, &text).await?;
    Ok(Json(MemoryRow(&changed)).into_response())
}

/// `DELETE /api/memories/{id}`: forgets a fact.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let id = memory_id(&id)?;
    app.gateway.memories(&principal).forget(id).await?;
    Ok(Json(ForgottenMemory::One { id, deleted: true }).into_response())
}

/// `DELETE /api/memories?session_key=`: forgets all facts about a session key.
pub(crate) async fn delete_all(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["session_key"])?;
    let key = key_of(&parameters)?;
    let key = key.ok_or_else(|| ApiError::invalid("session_key is required", "session_key"))?;
    let deleted = app.gateway.memories(&principal).forget_all(&key).await?;
    Ok(Json(ForgottenMemory::All { deleted }).into_response())
}

fn key_of(parameters: &Parameters) -> Result<Option<SessionKey>, ApiError> {
    parameters.parsed("session_key", |key| SessionKey::parse(key).ok(), "a session key")
}

/// An id in a path. Text that cannot be an id is answered with 404.
fn memory_id(id: &str) -> Result<MemoryId, ApiError> {
    id.parse().map_err(|_| GatewayError::NotFound(Missing::Memory).into())
}
