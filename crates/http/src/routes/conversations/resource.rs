//! Creates, shows, lists, changes and deletes conversations.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use herma_gateway::{ConversationRef, NewSession, rows};
use herma_model::Principal;
use herma_store::{Change, Children, Facts, ListFilter, Pin};
use herma_wire::conversations::{self, CreateConversation, UpdateConversation};
use http::HeaderMap;

use super::items::append_request;
use super::row_response;
use crate::answer;
use crate::app::{ORIGIN, Shared};
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::from_bytes;
use crate::path::Named;
use crate::query::Parameters;
use crate::revision;
use crate::routes::responses::named_items;
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
    let named = named_items(&app, &principal, &conversations::references(&body)?, Dialect::Items).await?;
    let CreateConversation { items, metadata } = CreateConversation::parse(&body, &named)?;
    if items.messages.is_empty() && items.system.is_empty() {
        let new = NewSession { metadata, ..NewSession::main(ORIGIN, headers.key) };
        let sessions = app.sessions(&principal).expecting(headers.if_match);
        return Ok(row_response(&sessions.create(new).await?));
    }
    let request = append_request(principal, headers, ConversationRef::New, items, &body);
    let made = app.gateway.create_with(request, metadata).await;
    let (added, row) = made.map_err(Dialect::Items.error_mapper())?;
    let response = answer::tracked_json(&app, added.tenant, added.turn, None, rows::conversation(&row).to_json());
    Ok(revision::with_revision(response, &row))
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
    let page = app.sessions(&principal).list(filter.clone()).await?;
    let objects: Vec<_> = page.rows.iter().map(rows::conversation).collect();
    let next = page.next.map(|next| filter.write_cursor(next));
    Ok(from_bytes(conversations::conversation_list(&objects, next.as_deref())))
}

/// `GET /v1/conversations/{id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
) -> Result<Response, ApiError> {
    Ok(row_response(&app.sessions(&principal).find(&alias(&name)?, Pin::Head).await?))
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
    let sessions = revision::sessions(&app, &principal, &parts.headers)?;
    Ok(row_response(&sessions.change(&name, change).await?))
}

/// `DELETE /v1/conversations/{id}`: deletes everything except what branches inherit.
pub(crate) async fn delete(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let sessions = revision::sessions(&app, &principal, &headers)?;
    let receipt = sessions.delete(&alias(&name)?, Children::Keep, Facts::Erase).await?;
    let deleted = receipt.conversation.ok_or_else(unknown)?;
    Ok(from_bytes(conversations::deleted_json(deleted)))
}
