//! `GET /api/sessions/{alias}/lineage`: the ancestors and descendants of a conversation, as a typed graph.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use herma_gateway::rows;
use herma_model::Principal;
use herma_store::{LineageCursor, LineageRange};
use herma_wire::resource::LineageGraph;
use serde::Serialize;

use super::alias;
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;

#[derive(Serialize)]
struct GraphPage<'a> {
    #[serde(flatten)]
    graph: LineageGraph<'a>,
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
    let page = app.sessions(&principal).lineage(&alias(&name)?, range).await?;
    let next_cursor = page.next.map(|next| next.to_string());
    let graph = rows::graph(&page.nodes, &page.edges);
    Ok(Json(GraphPage { graph, has_more: next_cursor.is_some(), next_cursor }).into_response())
}
