//! Making, reading, describing and deleting conversations.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use herma_gateway::{NewSession, Place};
use herma_model::{Alias, Principal};
use herma_store::{Change, Children, ConversationRow, CreateOutcome, DeleteOutcome, ListFilter, Pin, Scope};
use herma_wire::conversations::{self, CreateConversation, UpdateConversation};

use super::items::append;
use super::{object, row_response};
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::from_bytes;
use crate::path::Named;
use crate::query::Parameters;
use crate::routes::responses::references;
use crate::routes::sessions::{alias, cursor, unknown};

/// `POST /v1/conversations`.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::of(&parts)?;
    let body = body::read(&app, &parts.headers, body).await?;
    let named = references::look_up(&app, &principal, &conversations::references(&body)?).await?;
    let CreateConversation { items, metadata } = CreateConversation::parse(&body, &named)?;
    if items.messages.is_empty() && items.system.is_empty() {
        let new = NewSession { metadata, ..NewSession::main(headers.key) };
        return match app.gateway.create(&principal, new).await? {
            CreateOutcome::Made(row) => Ok(row_response(&row)),
            outcome => Err(ApiError::not_made(&outcome)),
        };
    }
    let added = append(&app, principal.clone(), headers, Place::New, items, &body).await?;
    let id = alias(&added.facts.id.to_string())?;
    let change = Change { metadata: metadata.filter(|_| !added.was_there), ..Change::default() };
    let made = app.gateway.store().update(&Scope::of(&principal), &id, change, herma_gateway::now()).await?;
    let made = object(&made.ok_or_else(unknown)?).to_json();
    Ok(answer::handed_out(&app, added.tenant, added.turn, None, made))
}

/// `GET /v1/conversations`: most recently changed first.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["limit", "cursor"])?;
    let mut filter = ListFilter { limit: parameters.limit()?, ..ListFilter::default() };
    filter.after = cursor(&parameters, &filter)?;
    let page = app.gateway.store().conversations(&Scope::of(&principal), filter.clone()).await?;
    let objects: Vec<_> = page.rows.iter().map(object).collect();
    let next = page.next.map(|next| filter.write_cursor(next));
    Ok(from_bytes(conversations::conversation_list(&objects, next.as_deref())))
}

/// `GET /v1/conversations/{id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
) -> Result<Response, ApiError> {
    Ok(row_response(&find(&app, &principal, &alias(&name)?).await?))
}

/// `POST /v1/conversations/{id}`.
pub(crate) async fn update(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let name = alias(&name)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let UpdateConversation { metadata } = UpdateConversation::parse(&body)?;
    let change = Change { metadata: Some(metadata), ..Change::default() };
    let changed = app.gateway.store().update(&Scope::of(&principal), &name, change, herma_gateway::now()).await?;
    Ok(row_response(&changed.ok_or_else(unknown)?))
}

/// `DELETE /v1/conversations/{id}`: nothing is left of it, but for what branches inherit.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
) -> Result<Response, ApiError> {
    let (scope, name) = (Scope::of(&principal), alias(&name)?);
    match app.gateway.store().delete(&scope, &name, Children::Keep, herma_gateway::now()).await? {
        DeleteOutcome::Deleted(id) => Ok(from_bytes(conversations::deleted_json(id))),
        DeleteOutcome::Busy(running) => Err(ApiError::busy(running)),
        DeleteOutcome::NotFound => Err(unknown()),
    }
}

/// The conversation of a name.
pub(super) async fn find(app: &Shared, principal: &Principal, name: &Alias) -> Result<ConversationRow, ApiError> {
    app.gateway.store().conversation(&Scope::of(principal), name, Pin::Head).await?.ok_or_else(unknown)
}
