//! `GET /v1/responses/{id}/input_items`: the input of a response.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use herma_model::Principal;
use herma_wire::responses::{Item, item_list, items_of};

use super::response_id;
use super::stored::record;
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::from_bytes;
use crate::path::Named;
use crate::query::Parameters;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// Which items of a list the client wants.
pub(crate) struct ItemPage {
    /// Only items after this one.
    pub(crate) after: Option<String>,
    /// At most this many items.
    pub(crate) limit: usize,
    /// Whether the oldest item comes first.
    pub(crate) ascending: bool,
}

impl ItemPage {
    /// Reads the query parameters that all lists of items share.
    pub(crate) fn of(query: Query<HashMap<String, String>>) -> Result<Self, ApiError> {
        let parameters = Parameters::of(query, &["after", "limit", "order", "include", "include[]"])?;
        let in_range = |value: &str| value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let is_ascending = |value: &str| match value {
            "asc" => Some(true),
            "desc" => Some(false),
            _ => None,
        };
        Ok(Self {
            after: parameters.get("after").map(str::to_owned),
            limit: parameters.parsed("limit", in_range, "a number from 1 to 100")?.unwrap_or(DEFAULT_LIMIT),
            ascending: parameters.parsed("order", is_ascending, "'asc' or 'desc'")?.unwrap_or(false),
        })
    }

    /// Puts items, given oldest first, into the order of the page.
    pub(crate) fn ordered(&self, mut items: Vec<Item>) -> Vec<Item> {
        if !self.ascending {
            items.reverse();
        }
        items
    }

    pub(crate) fn unknown_after(&self) -> ApiError {
        ApiError::invalid("after must be the id of an item of this list", "after")
    }
}

/// A page of the items, newest first by default.
pub(crate) async fn input_items(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let page = ItemPage::of(query)?;
    let (record, _) = record(&app, &principal, response_id(&id)?).await?;
    let items = page.ordered(record.input.iter().flat_map(|message| items_of(message)).collect());
    let from = match &page.after {
        None => 0,
        Some(after) => items.iter().position(|item| item.id() == after).ok_or_else(|| page.unknown_after())? + 1,
    };
    let to = (from + page.limit).min(items.len());
    Ok(from_bytes(item_list(&items[from..to], to < items.len())))
}
