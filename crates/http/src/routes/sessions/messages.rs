//! `GET /api/sessions/{alias}/messages`: all that was said, or what the model would be shown.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use herma_model::alias::Namespace;
use herma_model::{Alias, Principal, Seq};
use herma_store::MessageRange;
use herma_turn::{Transcript, build};
use herma_wire::list::Page;
use herma_wire::resource::MessageRow;
use serde_json::value::RawValue;

use super::{alias, scope, unknown};
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

/// A page of messages, oldest first.
pub(crate) async fn messages(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["view", "limit", "cursor"])?;
    let limit = parameters.limit()?;
    let after: Option<i64> = parameters.parsed(
        "cursor",
        |text| text.parse().ok().filter(|at| *at >= 0),
        "the next_cursor of an earlier page",
    )?;
    let alias = alias(&name)?;
    match parameters.parsed("view", view, "'full' or 'model'")?.unwrap_or(View::Full) {
        View::Full => full(&app, &principal, &alias, after, limit).await,
        View::Model => model(&app, &principal, &alias, after, limit).await,
    }
}

async fn full(
    app: &Shared,
    principal: &Principal,
    alias: &Alias,
    after: Option<i64>,
    limit: usize,
) -> Result<Response, ApiError> {
    let range = MessageRange { after: after.map(Seq), limit };
    let page = app.gateway.store().messages(&scope(principal), alias, range).await?.ok_or_else(unknown)?;
    let next = page.messages.last().filter(|_| page.has_more).map(|last| last.seq.0.to_string());
    let rows: Vec<MessageRow<'_>> = page
        .messages
        .iter()
        .map(|message| {
            MessageRow::from(&**message).unanswered(page.unanswered.get(&message.turn).map(|ending| ending.state))
        })
        .collect();
    Ok(Json(Page::new(rows, next)).into_response())
}

async fn model(
    app: &Shared,
    principal: &Principal,
    alias: &Alias,
    after: Option<i64>,
    limit: usize,
) -> Result<Response, ApiError> {
    let snapshot = app.gateway.store().open(&scope(principal), alias, Namespace::Session).await?.ok_or_else(unknown)?;
    let transcript = Transcript { messages: &snapshot.messages, unanswered: &snapshot.unanswered };
    let context = build(&snapshot.system, transcript, None);
    let from = usize::try_from(after.unwrap_or(0)).unwrap_or(usize::MAX).min(context.len());
    let to = (from + limit).min(context.len());
    let rows: Vec<&RawValue> =
        context[from..to].iter().filter_map(|payload| serde_json::from_str(payload.as_json()).ok()).collect();
    Ok(Json(Page::new(rows, (to < context.len()).then(|| to.to_string()))).into_response())
}
