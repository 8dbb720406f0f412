//! The items of a conversation: its messages, without compactions.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use herma_gateway::{ConversationRef, GatewayError, Missing, Sessions, TurnInput, TurnRequest};
use herma_model::alias::Namespace;
use herma_model::limits::MAX_PAGE;
use herma_model::{Alias, Message, Principal, Seq};
use herma_store::{Entry, MessageRange, Order, Pin};
use herma_wire::conversations::{self, CreateItems};
use herma_wire::responses::{Input, Item, item_list, items_of, items_with_results};
use http::HeaderMap;

use super::{ROUTE, row_response};
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::json::from_bytes;
use crate::path::{Named, NamedWithin};
use crate::revision;
use crate::routes::responses::{ItemPage, named_items};
use crate::routes::sessions::alias;

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
    let named = named_items(&app, &principal, &conversations::references(&body)?, Dialect::Items).await?;
    let CreateItems { items } = CreateItems::parse(&body, &named)?;
    let conversation = ConversationRef::Named { alias: alias(&name)?, namespace: Namespace::Session, must_exist: true };
    let request = append_request(principal, headers, conversation, items, &body);
    let added = app.gateway.append(request).await.map_err(Dialect::Items.error_mapper())?;
    let items: Vec<Item> = added.messages.iter().flat_map(|message| items_of(message)).collect();
    let mut response = answer::tracked_json(&app, added.tenant, added.turn, None, item_list(&items, false));
    if let Some(revision) = added.revision {
        revision::insert_etag(response.headers_mut(), added.facts.id, revision);
    }
    Ok(response)
}

/// The turn that adds items to a conversation. It does not call the model.
pub(super) fn append_request(
    principal: Principal,
    headers: SessionHeaders,
    conversation: ConversationRef,
    items: Input,
    body: &[u8],
) -> TurnRequest {
    // Questions are answered by a request for a response. Here their answers are history.
    let Input { system, messages, indices, approvals: _ } = items;
    let mut request = answer::turn_request(principal, headers, conversation, ROUTE, body);
    request.input = TurnInput { system, messages, indices, all_new: true, ..TurnInput::default() };
    request
}

/// `GET /v1/conversations/{id}/items`: newest first by default.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let page = ItemPage::of(query)?;
    let name = alias(&name)?;
    let mut reader = ItemReader { sessions: app.sessions(&principal), name: &name, page: &page, from: None };
    let mut items = match &page.after {
        None => Vec::new(),
        Some(after) => {
            let message = match reader.sessions.message_of_item(&name, after).await {
                Err(GatewayError::NotFound(_)) => return Err(page.unknown_after()),
                found => found?,
            };
            reader.from = Some(message.seq);
            let items = page.ordered(reader.items(&message, &[]).await?);
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
struct ItemReader<'a> {
    sessions: Sessions<'a>,
    name: &'a Alias,
    page: &'a ItemPage,
    /// The place of the last message that was read.
    from: Option<Seq>,
}

impl ItemReader<'_> {
    /// Adds the items of the next page of messages. Returns whether there are more.
    async fn read(&mut self, items: &mut Vec<Item>) -> Result<bool, ApiError> {
        let order = match self.page.ascending {
            true => Order::OldestFirst { after: self.from },
            false => Order::NewestFirst { before: self.from },
        };
        let range = MessageRange { order, limit: self.page.limit, pin: Pin::Head };
        let found = self.sessions.messages(self.name, range).await?;
        for entry in &found.entries {
            self.from = Some(entry.seq());
            // Clients send these items to the model again, so rewound messages are left out.
            if let Entry::Said(message) = entry
                && !found.rewound.contains(&message.seq)
            {
                items.extend(self.page.ordered(self.items(message, &found.entries).await?));
            }
        }
        Ok(found.has_more)
    }

    /// The items of a message. `read` has entries that may be the results of its calls.
    async fn items(&self, message: &Message, read: &[Entry]) -> Result<Vec<Item>, ApiError> {
        let results = read.iter().filter_map(|entry| result_of(message, entry));
        let results: Vec<&Message> = results.collect();
        if results.len() == message.said.own_calls().len() {
            return Ok(items_with_results(message, results));
        }
        items_of_stored(&self.sessions, self.name, message).await
    }
}

/// The entry as the result of a call of a message, if it is one.
fn result_of<'a>(message: &Message, entry: &'a Entry) -> Option<&'a Message> {
    let Entry::Said(result) = entry else { return None };
    let is_result = result.turn == message.turn
        && result.seq > message.seq
        && result.said.call_end().is_some_and(|end| end.call.is_none())
        && result.said.calls.iter().all(|call| message.said.calls.contains(call));
    is_result.then_some(result)
}

/// The items of a message, with the results of its calls, which follow it.
async fn items_of_stored(sessions: &Sessions<'_>, name: &Alias, message: &Message) -> Result<Vec<Item>, ApiError> {
    let calls = message.said.own_calls().len();
    if calls == 0 {
        return Ok(items_of(message));
    }
    let order = Order::OldestFirst { after: Some(message.seq) };
    let found = sessions.messages(name, MessageRange { order, limit: calls.min(MAX_PAGE), pin: Pin::Head }).await?;
    Ok(items_with_results(message, found.entries.iter().filter_map(|entry| result_of(message, entry))))
}

/// `GET /v1/conversations/{id}/items/{item_id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    NamedWithin(name, item): NamedWithin,
) -> Result<Response, ApiError> {
    let (sessions, name) = (app.sessions(&principal), alias(&name)?);
    let message = sessions.message_of_item(&name, &item).await?;
    let found = items_of_stored(&sessions, &name, &message).await?.into_iter().find(|candidate| candidate.id() == item);
    let item = found.ok_or(GatewayError::NotFound(Missing::Item))?;
    Ok(from_bytes(item.to_json().into_bytes()))
}

/// `DELETE /v1/conversations/{id}/items/{item_id}`: the other items of its message stay.
pub(crate) async fn remove(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    NamedWithin(name, item): NamedWithin,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let name = alias(&name)?;
    revision::sessions(&app, &principal, &headers)?.remove_item(&name, &item).await?;
    Ok(row_response(&app.sessions(&principal).find(&name, Pin::Head).await?))
}
