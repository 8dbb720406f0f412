//! `GET /api/sessions/{alias}/lineage`: where a conversation comes from and what came from it, as a typed graph.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use herma_model::Principal;
use herma_store::{LineageCursor, LineageOutcome, LineageRange, Scope};
use serde::Serialize;

use super::{alias, unknown};
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;
use crate::rows::Graph;

#[derive(Serialize)]
struct GraphPage<'a> {
    #[serde(flatten)]
    graph: Graph<'a>,
    has_more: bool,
    next_cursor: Option<String>,
}

/// A page of the graph.
pub(crate) async fn lineage(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["limit", "cursor"])?;
    let after =
        parameters.parsed("cursor", |text| LineageCursor::parse(text).ok(), "the next_cursor of an earlier page")?;
    let range = LineageRange { after, limit: parameters.limit()? };
    match app.gateway.store().lineage(&Scope::of(&principal), &alias(&name)?, range).await? {
        LineageOutcome::Page(page) => {
            let next_cursor = page.next.map(|next| next.to_string());
            let graph = Graph::of(&page.nodes, &page.edges);
            Ok(Json(GraphPage { graph, has_more: next_cursor.is_some(), next_cursor }).into_response())
        }
        LineageOutcome::NotFound => Err(unknown()),
        LineageOutcome::CursorGone => {
            Err(ApiError::invalid("cursor leads nowhere: what it stood at was deleted; begin again", "cursor"))
        }
    }
}
