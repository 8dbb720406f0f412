//! `GET /api/sessions`: one row a conversation, most recently changed first.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use herma_model::{Principal, SessionKey, SessionKind, Timestamp};
use herma_store::{Cursor, ListFilter, Scope};
use herma_wire::list::Page;
use serde_json::Value;

use super::row_value;
use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::query::Parameters;

const PARAMETERS: [&str; 6] = ["kind", "origin_kind", "session_key", "source", "limit", "cursor"];
const KINDS: &str = "main, auxiliary, background, branch or continuation";

/// A page of conversations.
pub(crate) async fn list(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    query: Query<HashMap<String, String>>,
) -> Result<Json<Page<Value>>, ApiError> {
    let parameters = Parameters::of(query, &PARAMETERS)?;
    let filter = ListFilter {
        kind: parameters.parsed("kind", SessionKind::parse, KINDS)?,
        origin_kind: parameters.parsed("origin_kind", SessionKind::parse, KINDS)?,
        session_key: parameters.parsed("session_key", |key| SessionKey::parse(key).ok(), "a session key")?,
        source: parameters.get("source").map(str::to_owned),
        after: parameters.parsed("cursor", read_cursor, "the next_cursor of an earlier page")?,
        limit: parameters.limit()?,
    };
    let page = app.gateway.store().conversations(&Scope::of(&principal), filter).await?;
    Ok(Json(Page::new(page.rows.iter().map(row_value).collect(), page.next.map(write_cursor))))
}

pub(crate) fn write_cursor(cursor: Cursor) -> String {
    format!("{:x}.{:x}", cursor.updated_at.0, cursor.row)
}

pub(crate) fn read_cursor(text: &str) -> Option<Cursor> {
    let (time, row) = text.split_once('.')?;
    let updated_at = Timestamp(i64::from_str_radix(time, 16).ok()?);
    Some(Cursor { updated_at, row: i64::from_str_radix(row, 16).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        let cursor = Cursor { updated_at: Timestamp(1_790_000_000_123), row: 42 };
        assert_eq!(read_cursor(&write_cursor(cursor)), Some(cursor));
        assert_eq!(read_cursor("nonsense"), None);
    }
}
