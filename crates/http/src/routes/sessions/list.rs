//! `GET /api/sessions` and `GET /api/session-keys/{key}`: rows, most recently changed first by default.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use herma_gateway::rows;
use herma_model::limits::MAX_OFFSET;
use herma_model::{Alias, ConversationId, Principal, SessionKey, SessionKind};
use herma_store::{Archived, Cursor, ListFilter, ListOrder, ListView};
use herma_wire::list::Page;
use herma_wire::resource::moment;

use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;
use crate::query::Parameters;

const PARAMETERS: [&str; 19] = [
    "view",
    "order",
    "kind",
    "origin_kind",
    "user_facing",
    "source",
    "cwd",
    "session_key",
    "parent",
    "root",
    "title",
    "since",
    "until",
    "archived",
    "answered",
    "limit",
    "cursor",
    "offset",
    "include_children",
];
const KINDS: &str = "main, auxiliary, background, branch or continuation";
const MOMENT: &str = "a day (2026-05-01) or a moment (2026-05-01T12:00:00Z)";

/// A page of conversations, or of all sessions.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &PARAMETERS)?;
    let filter = filter(&parameters)?;
    page(&app, &principal, &parameters, filter, None).await
}

/// A page of the conversations of a session key.
pub(crate) async fn of_key(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(key): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &PARAMETERS)?;
    if parameters.get("session_key").is_some() {
        return Err(ApiError::invalid("session_key is in the path already", "session_key"));
    }
    let key = SessionKey::parse(&key).map_err(|_| ApiError::not_found("this cannot be a session key"))?;
    let current = app.sessions(&principal).current(&key).await?;
    let filter = ListFilter { session_key: Some(key), ..filter(&parameters)? };
    page(&app, &principal, &parameters, filter, current).await
}

async fn page(
    app: &Shared,
    principal: &Principal,
    parameters: &Parameters,
    mut filter: ListFilter,
    current: Option<ConversationId>,
) -> Result<Response, ApiError> {
    filter.after = cursor(parameters, &filter)?;
    let page = app.sessions(principal).list(filter.clone()).await?;
    let next = page.next.map(|next| filter.write_cursor(next));
    let listed = Page::new(page.rows.iter().map(rows::session).collect(), next).with_current(current);
    let listed = match filter.skip {
        Some(offset) => listed.counted(filter.limit, offset),
        None => listed,
    };
    Ok(Json(listed).into_response())
}

fn filter(parameters: &Parameters) -> Result<ListFilter, ApiError> {
    let name = |name: &str| Alias::parse(name).ok();
    let yes_or_no = |value: &str| value.parse().ok();
    Ok(ListFilter {
        view: view(parameters)?,
        order: parameters.parsed("order", order, ORDERS)?.unwrap_or_default(),
        kind: parameters.parsed("kind", SessionKind::parse, KINDS)?,
        origin_kind: parameters.parsed("origin_kind", SessionKind::parse, KINDS)?,
        user_facing: parameters.parsed("user_facing", yes_or_no, "'true' or 'false'")?,
        source: parameters.get("source").map(str::to_owned),
        cwd: parameters.get("cwd").map(str::to_owned),
        session_key: parameters.parsed("session_key", |key| SessionKey::parse(key).ok(), "a session key")?,
        parent: parameters.parsed("parent", name, "a name of a session")?,
        root: parameters.parsed("root", name, "a name of a session")?,
        title: parameters.get("title").map(str::to_owned),
        since: parameters.parsed("since", moment, MOMENT)?,
        until: parameters.parsed("until", moment, MOMENT)?,
        archived: parameters.parsed("archived", archived, "'true', 'false' or 'any'")?.unwrap_or_default(),
        answered: parameters.parsed("answered", answered, "'true', 'false' or 'any'")?.flatten(),
        id_part: None,
        after: None,
        skip: offset(parameters)?,
        limit: parameters.limit()?,
    })
}

const ORDERS: &str = "'-updated_at', 'updated_at', '-created_at' or 'created_at'";

fn order(word: &str) -> Option<ListOrder> {
    match word {
        "-updated_at" => Some(ListOrder::UpdatedDescending),
        "updated_at" => Some(ListOrder::UpdatedAscending),
        "-created_at" => Some(ListOrder::CreatedDescending),
        "created_at" => Some(ListOrder::CreatedAscending),
        _ => None,
    }
}

/// What the rows are, by our parameter `view` or by Hermes' `include_children`.
fn view(parameters: &Parameters) -> Result<ListView, ApiError> {
    let said = |word: &str| match word {
        "conversations" => Some(ListView::Conversations),
        "sessions" => Some(ListView::Sessions),
        _ => None,
    };
    let children = |word: &str| match word {
        "false" | "0" => Some(ListView::Conversations),
        "true" | "1" => Some(ListView::Sessions),
        _ => None,
    };
    let view = parameters.parsed("view", said, "'conversations' or 'sessions'")?;
    let included = parameters.parsed("include_children", children, "'true' or 'false'")?;
    if view.is_some() && included.is_some() {
        let message = "include_children=true is view=sessions, and false is view=conversations; say one of them";
        return Err(ApiError::invalid(message, "include_children"));
    }
    Ok(view.or(included).unwrap_or_default())
}

/// Hermes' `offset`: how many rows to skip.
fn offset(parameters: &Parameters) -> Result<Option<usize>, ApiError> {
    let in_range = |value: &str| value.parse().ok().filter(|offset| *offset <= MAX_OFFSET);
    let allowed = format!("a number from 0 to {MAX_OFFSET}; to go further, follow next_cursor");
    let offset = parameters.parsed("offset", in_range, &allowed)?;
    if offset.is_some() && parameters.get("cursor").is_some() {
        return Err(ApiError::invalid("a page begins at an offset or at a cursor, not at both", "offset"));
    }
    Ok(offset)
}

fn archived(word: &str) -> Option<Archived> {
    match word {
        "false" => Some(Archived::Hidden),
        "true" => Some(Archived::Only),
        "any" => Some(Archived::Any),
        _ => None,
    }
}

fn answered(word: &str) -> Option<Option<bool>> {
    match word {
        "true" => Some(Some(true)),
        "false" => Some(Some(false)),
        "any" => Some(None),
        _ => None,
    }
}

/// The cursor at which a page of a list begins.
pub(crate) fn cursor(parameters: &Parameters, list: &ListFilter) -> Result<Option<Cursor>, ApiError> {
    let read = |text: &str| list.read_cursor(text).map_err(|why| ApiError::invalid(format!("cursor {why}"), "cursor"));
    parameters.get("cursor").map(read).transpose()
}
