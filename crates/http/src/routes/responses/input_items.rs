//! `GET /v1/responses/{id}/input_items`: what a response was an answer to.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use herma_model::Principal;
use herma_wire::responses::{Item, item_list, items_of};

use super::response_id;
use super::stored::{json_response, record};
use crate::app::Shared;
use crate::error::ApiError;
use crate::path::Named;
use crate::query::Parameters;

const DEFAULT_LIMIT: usize = 20;
const MOST: usize = 100;

/// A page of the items, newest first unless asked otherwise.
pub(crate) async fn input_items(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["after", "limit", "order", "include", "include[]"])?;
    let in_range = |value: &str| value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
    let limit = parameters.parsed("limit", in_range, "a number from 1 to 100")?.unwrap_or(DEFAULT_LIMIT);
    let is_ascending = |value: &str| match value {
        "asc" => Some(true),
        "desc" => Some(false),
        _ => None,
    };
    let ascending = parameters.parsed("order", is_ascending, "'asc' or 'desc'")?.unwrap_or(false);
    let (record, _) = record(&app, &principal, response_id(&id)?).await?;
    let mut items: Vec<Item> = record.input.iter().flat_map(|message| items_of(message)).collect();
    if !ascending {
        items.reverse();
    }
    let from = match parameters.get("after") {
        None => 0,
        Some(after) => {
            let at = items.iter().position(|item| item.id() == after);
            at.ok_or_else(|| ApiError::invalid("after must be the id of an item of this list", "after"))? + 1
        }
    };
    let to = (from + limit).min(items.len());
    Ok(json_response(item_list(&items[from..to], to < items.len())))
}
