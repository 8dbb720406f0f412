//! `session_search` and `session_read`: earlier conversations, for the model.
//!
//! Both see what the turn's session key may see. What a compaction left out is found and read too.

use std::sync::Arc;

use herma_model::{Alias, Role};
use herma_store::search::{Grouping, Search, SearchFilter, SnippetPiece, Wanted, text_of};
use herma_store::{Entry, MessageRange, Order, Pin, StoreError};
use herma_tools::CallEnd;
use herma_wire::resource::rfc3339;
use serde_json::{Value, json};

use super::CallContext;
use crate::gateway::Gateway;
use crate::mint;

/// Matches of a search that does not say how many it wants.
const MATCHES: u64 = 10;
/// Messages of a reading that does not say how many it wants.
const MESSAGES: u64 = 20;

/// Searches messages and titles.
pub(super) async fn search(gateway: &Arc<Gateway>, context: &CallContext, arguments: &Value) -> CallEnd {
    let Some(query) = arguments["query"].as_str() else { return missing("query") };
    let wanted = match Wanted::parse(query) {
        Ok(wanted) => wanted,
        Err(error) => return CallEnd::NotMade(error.to_string()),
    };
    let search = Search {
        wanted,
        filter: SearchFilter::default(),
        grouping: Grouping::Conversation,
        after: None,
        limit: limit(arguments, MATCHES, 50),
        now: mint::now(),
    };
    let page = match gateway.store.search(&context.scope(), search).await {
        Ok(page) => page,
        Err(error) => return failed(&error),
    };
    let matches = page.hits.iter().map(|hit| {
        json!({
            "conversation_id": hit.conversation,
            "title": hit.title,
            "kind": hit.kind,
            "role": hit.message.map_or("title", |message| message.role.as_str()),
            "created_at": rfc3339(hit.created_at),
            "snippet": snippet(&hit.snippet),
        })
    });
    result(&json!({ "matches": matches.collect::<Vec<_>>() }))
}

/// Reads messages of a conversation, oldest of the page first.
pub(super) async fn read(gateway: &Arc<Gateway>, context: &CallContext, arguments: &Value) -> CallEnd {
    let Some(id) = arguments["id"].as_str() else { return missing("id") };
    let Ok(alias) = Alias::parse(id) else { return unknown(id) };
    let before = arguments["before"].as_i64().map(herma_model::Seq);
    let range =
        MessageRange { order: Order::NewestFirst { before }, limit: limit(arguments, MESSAGES, 100), pin: Pin::Head };
    let page = match gateway.store.messages(&context.scope(), &alias, range).await {
        Ok(Some(page)) => page,
        Ok(None) => return unknown(id),
        Err(error) => return failed(&error),
    };
    let first = page.entries.last().map(|entry| entry.seq().0).filter(|_| page.has_more);
    let messages: Vec<Value> = page.entries.iter().rev().map(message).collect();
    result(&json!({ "messages": messages, "before": first }))
}

fn message(entry: &Entry) -> Value {
    let (role, said, at) = match entry {
        Entry::Said(message) => (message.said.role.as_str(), &message.said, message.created_at),
        Entry::Summary(summary) => ("summary", &summary.said, summary.created_at),
    };
    let text = text_of(said.payload.as_json());
    let calls = (said.role == Role::Assistant && !said.calls.is_empty()).then(|| said.own_calls());
    let calls = calls.map(|calls| calls.iter().map(|call| call.tool.to_string()).collect::<Vec<_>>());
    json!({ "role": role, "text": text, "created_at": rfc3339(at), "called_tools": calls })
}

fn snippet(pieces: &[SnippetPiece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

fn limit(arguments: &Value, default: u64, most: u64) -> usize {
    let limit = arguments["limit"].as_u64().unwrap_or(default).clamp(1, most);
    usize::try_from(limit).unwrap_or(1)
}

pub(super) fn result(value: &Value) -> CallEnd {
    CallEnd::Result { text: value.to_string(), is_error: false }
}

pub(super) fn missing(field: &str) -> CallEnd {
    CallEnd::NotMade(format!("`{field}` is required"))
}

fn unknown(id: &str) -> CallEnd {
    CallEnd::Result { text: format!("There is no conversation '{id}'."), is_error: true }
}

fn failed(error: &StoreError) -> CallEnd {
    tracing::warn!(%error, "a built-in tool could not read the store");
    CallEnd::NotMade("the store cannot be read now".to_owned())
}
