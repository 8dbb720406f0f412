//! `GET /api/search`: searches messages and titles.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::{Query, State};
use herma_gateway::rows;
use herma_model::{Digest, Principal, Role, SessionKey, SessionKind, Timestamp};
use herma_store::search::{Score, Stage, Wanted};
use herma_store::{Grouping, Search, SearchCursor, SearchFilter};
use herma_wire::list::Page;
use herma_wire::resource::{Marks, moment};
use serde_json::Value;

use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::query::Parameters;

/// The parameters that identify a search. A cursor is valid only with the same values of these.
const SEARCH_PARAMETERS: [&str; 10] =
    ["q", "kind", "origin_kind", "user_facing", "source", "session_key", "role", "since", "until", "group"];
const PAGE_PARAMETERS: [&str; 3] = ["marks", "limit", "cursor"];
const KINDS: &str = "main, auxiliary, background, branch or continuation";
const MOMENT: &str = "a time like 2026-03-04T00:00:00Z or a day like 2026-03-04";

/// A page of hits, best first.
pub(crate) async fn search(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    query: Query<HashMap<String, String>>,
) -> Result<Json<Page<Value>>, ApiError> {
    let parameters = Parameters::of(query, &[&SEARCH_PARAMETERS[..], &PAGE_PARAMETERS].concat())?;
    let wanted = Wanted::parse(parameters.get("q").unwrap_or_default())
        .map_err(|error| ApiError::invalid(error.to_string(), "q"))?;
    let tag = tag(&parameters);
    let cursor = |text: &str| read_cursor(text, tag);
    let search = Search {
        wanted,
        filter: filter(&parameters)?,
        grouping: parameters.parsed("group", grouping, "'conversation' or 'none'")?.unwrap_or_default(),
        after: parameters.parsed("cursor", cursor, "the next_cursor of an earlier page of the same search")?,
        limit: parameters.limit()?,
        now: herma_gateway::now(),
    };
    let marks = parameters.parsed("marks", Marks::parse, "'html' or 'none'")?.unwrap_or_default();
    let page = app.sessions(&principal).search(search).await?;
    let rows = page.hits.iter().map(|hit| serde_json::to_value(rows::hit(hit, marks)).unwrap_or_default()).collect();
    Ok(Json(Page::new(rows, page.next.map(|next| write_cursor(&next, tag)))))
}

fn filter(parameters: &Parameters) -> Result<SearchFilter, ApiError> {
    let truth = |text: &str| text.parse().ok();
    Ok(SearchFilter {
        kind: parameters.parsed("kind", SessionKind::parse, KINDS)?,
        origin_kind: parameters.parsed("origin_kind", SessionKind::parse, KINDS)?,
        user_facing: parameters.parsed("user_facing", truth, "'true' or 'false'")?,
        source: parameters.get("source").map(str::to_owned),
        session_key: parameters.parsed("session_key", |key| SessionKey::parse(key).ok(), "a session key")?,
        role: parameters.parsed("role", Role::parse, "user, assistant or tool")?,
        since: parameters.parsed("since", moment, MOMENT)?,
        until: parameters.parsed("until", moment, MOMENT)?,
    })
}

fn grouping(name: &str) -> Option<Grouping> {
    match name {
        "conversation" => Some(Grouping::Conversation),
        "none" => Some(Grouping::None),
        _ => None,
    }
}

/// A number that identifies a search in its cursors.
fn tag(parameters: &Parameters) -> i64 {
    let Digest(digest) =
        Digest::of_fields(SEARCH_PARAMETERS.map(|name| parameters.get(name).unwrap_or_default().as_bytes()));
    i64::from(u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

const STAGES: [Stage; 3] = [Stage::Titles, Stage::Words, Stage::Parts];
/// In a cursor, stands for `bottom: None`.
const NOT_BEGUN: i64 = i64::MAX;

fn write_cursor(cursor: &SearchCursor, tag: i64) -> String {
    let stage = STAGES.iter().position(|stage| *stage == cursor.stage).unwrap_or_default() as i64;
    let (Score(score), key) = cursor.last;
    let bottom = cursor.bottom.unwrap_or(NOT_BEGUN);
    let numbers = [tag, cursor.now.0, cursor.newest, stage, cursor.top, bottom, score, key];
    numbers.map(|number| format!("{number:x}")).join(".")
}

fn read_cursor(text: &str, expected: i64) -> Option<SearchCursor> {
    let numbers: Option<Vec<i64>> =
        text.split('.').map(|part| i64::from_str_radix(part, 16).ok().filter(|number| *number >= 0)).collect();
    let [tag, now, newest, stage, top, bottom, score, key] = numbers?.try_into().ok()?;
    (tag == expected).then_some(SearchCursor {
        now: Timestamp(now),
        newest,
        stage: *STAGES.get(usize::try_from(stage).ok()?)?,
        top,
        bottom: (bottom != NOT_BEGUN).then_some(bottom),
        last: (Score(score), key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_for_its_own_search_alone() {
        for bottom in [None, Some(3)] {
            let last = (Score(i64::MAX), 17);
            let (now, stage) = (Timestamp(1_790_000_000_123), Stage::Parts);
            let cursor = SearchCursor { now, newest: 99, stage, top: 50, bottom, last };
            assert_eq!(read_cursor(&write_cursor(&cursor, 7), 7), Some(cursor));
            assert_eq!(read_cursor(&write_cursor(&cursor, 7), 8), None);
        }
        for broken in ["", "nonsense", "7.1.1.3.1.1.1.1", "7.1.1.1.1.1.1", "7.-1.1.1.1.1.1.1", "7.1.1.1.1.1.1.1.1"] {
            assert_eq!(read_cursor(broken, 7), None, "{broken}");
        }
    }
}
