//! The items of a conversation: what was said in it, compactions aside.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use herma_gateway::{Appended, OnDisconnect, Place, RequestIdentity, TurnRequest};
use herma_model::alias::Namespace;
use herma_model::{Alias, CreatorKind, Message, Principal, Seq, SessionKind};
use herma_store::{Entry, MessageRange, Order, Pin, Rewrite, RewriteOutcome, Scope};
use herma_wire::conversations::{self, CreateItems};
use herma_wire::responses::{Input, Item, item_list, items_of, message_of_item, without_item};

use super::resource::find;
use super::{ROUTE, row_response};
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::from_bytes;
use crate::path::{Named, NamedWithin};
use crate::routes::responses::{ItemPage, references};
use crate::routes::sessions::{alias, unknown};

/// How often a message may change under a request before it is given up; each time somebody else made progress.
const MOST_TRIES: usize = 10;

/// `POST /v1/conversations/{id}/items`.
pub(crate) async fn add(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::of(&parts)?;
    let body = body::read(&app, &parts.headers, body).await?;
    let named = references::look_up(&app, &principal, &conversations::references(&body)?).await?;
    let CreateItems { items } = CreateItems::parse(&body, &named)?;
    let place = Place::Named { alias: alias(&name)?, namespace: Namespace::Session, must_exist: true };
    let added = append(&app, principal, headers, place, items, &body).await?;
    let items: Vec<Item> = added.messages.iter().flat_map(|message| items_of(message)).collect();
    Ok(answer::handed_out(&app, added.tenant, added.turn, None, item_list(&items, false)))
}

/// Adds items to a conversation, as a turn that nobody answers.
pub(super) async fn append(
    app: &Shared,
    principal: Principal,
    headers: SessionHeaders,
    place: Place,
    items: Input,
    body: &[u8],
) -> Result<Appended, ApiError> {
    let Input { system, messages, indices } = items;
    let request = TurnRequest {
        principal,
        place,
        session_key: headers.key,
        system,
        instructions: None,
        messages,
        indices,
        all_new: true,
        model: None,
        params: Arc::default(),
        compact_at: None,
        truncate: false,
        streaming: false,
        policy: headers.policy,
        on_disconnect: OnDisconnect::Finish,
        kind: SessionKind::Main,
        parent: None,
        creator: CreatorKind::Api,
        source: "api",
        identity: RequestIdentity {
            route: ROUTE,
            body: answer::digest(body),
            user: None,
            sdk_attempt: headers.sdk_attempt,
            idempotency_key: headers.idempotency_key,
            client: headers.client,
        },
        response: None,
    };
    app.gateway.append(request).await.map_err(|error| ApiError::from(error).of_items())
}

/// `GET /v1/conversations/{id}/items`: newest first unless asked otherwise.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let page = ItemPage::of(query)?;
    let name = alias(&name)?;
    let mut reader = Reader { app: &app, scope: Scope::of(&principal), name: &name, page: &page, from: None };
    let mut items = match &page.after {
        None => Vec::new(),
        Some(after) => {
            let message = reader.message(after).await?.ok_or_else(|| page.unknown_after())?;
            reader.from = Some(message.seq);
            let items = page.ordered(items_of(&message));
            let at = items.iter().position(|item| item.id() == after).ok_or_else(|| page.unknown_after())?;
            items.into_iter().skip(at + 1).collect()
        }
    };
    let mut has_more = true;
    while items.len() <= page.limit && has_more {
        has_more = reader.read(&mut items).await?;
    }
    let has_more = items.len() > page.limit;
    items.truncate(page.limit);
    Ok(from_bytes(item_list(&items, has_more)))
}

/// Reads a conversation's messages, a page at a time.
struct Reader<'a> {
    app: &'a Shared,
    scope: Scope,
    name: &'a Alias,
    page: &'a ItemPage,
    /// The last place that was read.
    from: Option<Seq>,
}

impl Reader<'_> {
    /// The message that an item is part of.
    async fn message(&self, item: &str) -> Result<Option<Arc<Message>>, ApiError> {
        let Some(id) = message_of_item(item) else { return Ok(None) };
        Ok(self.app.gateway.store().message(&self.scope, self.name, id).await?)
    }

    /// Adds the items of the next messages; false when there are no more.
    async fn read(&mut self, items: &mut Vec<Item>) -> Result<bool, ApiError> {
        let order = match self.page.ascending {
            true => Order::OldestFirst { after: self.from },
            false => Order::NewestFirst { before: self.from },
        };
        let range = MessageRange { order, limit: self.page.limit, pin: Pin::Head };
        let found = self.app.gateway.store().messages(&self.scope, self.name, range).await?.ok_or_else(unknown)?;
        for entry in &found.entries {
            self.from = Some(entry.seq());
            if let Entry::Said(message) = entry {
                items.extend(self.page.ordered(items_of(message)));
            }
        }
        Ok(found.has_more)
    }
}

/// `GET /v1/conversations/{id}/items/{item_id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    NamedWithin(name, item): NamedWithin,
) -> Result<Response, ApiError> {
    let message = find_message(&app, &Scope::of(&principal), &alias(&name)?, &item).await?;
    let item = items_of(&message).into_iter().find(|candidate| candidate.id() == item).ok_or_else(unknown_item)?;
    Ok(from_bytes(item.to_json().into_bytes()))
}

/// `DELETE /v1/conversations/{id}/items/{item_id}`: what is left of its message stays.
pub(crate) async fn remove(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    NamedWithin(name, item): NamedWithin,
) -> Result<Response, ApiError> {
    let (scope, name) = (Scope::of(&principal), alias(&name)?);
    for _ in 0..MOST_TRIES {
        let seen = find_message(&app, &scope, &name, &item).await?;
        let said = without_item(&seen.said, seen.id, &item).ok_or_else(unknown_item)?;
        let rewrite = Rewrite { scope: scope.clone(), alias: name.clone(), seen, said, now: herma_gateway::now() };
        match app.gateway.store().rewrite(rewrite).await? {
            RewriteOutcome::Done => return Ok(row_response(&find(&app, &principal, &name).await?)),
            RewriteOutcome::NotFound => return Err(unknown_item()),
            RewriteOutcome::Busy(running) => return Err(ApiError::busy(running)),
            RewriteOutcome::Shared => return Err(ApiError::item_is_shared()),
            RewriteOutcome::Stale => {}
        }
    }
    Err(ApiError::changes_too_fast())
}

async fn find_message(app: &Shared, scope: &Scope, name: &Alias, item: &str) -> Result<Arc<Message>, ApiError> {
    let id = message_of_item(item).ok_or_else(unknown_item)?;
    app.gateway.store().message(scope, name, id).await?.ok_or_else(unknown_item)
}

fn unknown_item() -> ApiError {
    ApiError::not_found("no item of this conversation is known by this id; GET …/items lists them")
}
