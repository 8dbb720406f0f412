//! `GET /api/sessions/{alias}/messages`: all messages, or the context that the model would get.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use herma_model::{Alias, Principal, Seq};
use herma_store::{Entry, MessagePage, MessageRange, Order, Pin};
use herma_wire::list::Page;
use herma_wire::resource::MessageRow;
use serde_json::value::RawValue;

use super::{alias, pin_of};
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;

#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Full,
    Model,
}

fn view(name: &str) -> Option<View> {
    match name {
        "full" => Some(View::Full),
        "model" => Some(View::Model),
        _ => None,
    }
}

/// Which part of a view the client wants.
struct ViewRange {
    after: Option<i64>,
    limit: usize,
    pin: Pin,
}

/// A page of messages, oldest first.
pub(crate) async fn messages(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["view", "pin", "limit", "cursor"])?;
    let view_range =
        ViewRange { after: parameters.numeric_cursor()?, limit: parameters.limit()?, pin: pin_of(&parameters)? };
    let alias = alias(&name)?;
    match parameters.parsed("view", view, "'full' or 'model'")?.unwrap_or(View::Full) {
        View::Full => full(&app, &principal, &alias, view_range).await,
        View::Model => model(&app, &principal, &alias, view_range).await,
    }
}

async fn full(app: &Shared, principal: &Principal, alias: &Alias, view_range: ViewRange) -> Result<Response, ApiError> {
    let range = MessageRange {
        order: Order::OldestFirst { after: view_range.after.map(Seq) },
        limit: view_range.limit,
        pin: view_range.pin,
    };
    let page = app.sessions(principal).messages(alias, range).await?;
    let next = page.entries.last().filter(|_| page.has_more).map(|last| last.seq().0.to_string());
    let rows: Vec<MessageRow<'_>> = page.entries.iter().map(|entry| row(&page, entry)).collect();
    Ok(Json(Page::new(rows, next)).into_response())
}

fn row<'a>(page: &MessagePage, entry: &'a Entry) -> MessageRow<'a> {
    let row = match entry {
        Entry::Said(message) => {
            let state = page.turn_states.get(&message.seq).copied();
            MessageRow::from(&**message).turn_status(state).pinned(page.pinned.contains(&message.seq))
        }
        Entry::Summary(summary) => MessageRow::from(&**summary),
    };
    row.rewound(page.rewound.contains(&entry.seq()))
}

async fn model(
    app: &Shared,
    principal: &Principal,
    alias: &Alias,
    view_range: ViewRange,
) -> Result<Response, ApiError> {
    let context = app.sessions(principal).model_view(alias, view_range.pin).await?;
    let from = usize::try_from(view_range.after.unwrap_or(0)).unwrap_or(usize::MAX).min(context.len());
    let to = (from + view_range.limit).min(context.len());
    let rows: Vec<&RawValue> =
        context[from..to].iter().filter_map(|payload| serde_json::from_str(payload.as_json()).ok()).collect();
    Ok(Json(Page::new(rows, (to < context.len()).then(|| to.to_string()))).into_response())
}
