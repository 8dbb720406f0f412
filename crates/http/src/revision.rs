//! A conversation's revision, in `ETag` and `If-Match`.

use axum::response::Response;
use herma_gateway::Sessions;
use herma_model::{ConversationId, Principal};
use herma_store::{ConversationRow, ExpectedRevision, Revision};
use http::header::{ETAG, IF_MATCH};
use http::{HeaderMap, HeaderValue};

use crate::app::Shared;
use crate::error::ApiError;

/// Sets the `ETag` to the revision of a conversation.
pub(crate) fn insert_etag(headers: &mut HeaderMap, conversation: ConversationId, revision: Revision) {
    if let Ok(value) = HeaderValue::try_from(format!("\"{}\"", revision.tag(conversation))) {
        headers.insert(ETAG, value);
    }
}

/// Adds the `ETag` to an answer about a conversation.
pub(crate) fn with_revision(mut response: Response, row: &ConversationRow) -> Response {
    insert_etag(response.headers_mut(), row.facts.id, row.revision);
    response
}

/// The conversations of a caller. Writes fail if the revision is not the one in `If-Match`.
pub(crate) fn sessions<'a>(
    app: &'a Shared,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Sessions<'a>, ApiError> {
    Ok(app.sessions(principal).expecting(expected(headers)?))
}

/// The revision that a request expects. Several `If-Match` lines count as one list. A weak tag never matches.
pub(crate) fn expected(headers: &HeaderMap) -> Result<Option<ExpectedRevision>, ApiError> {
    let mut tags = Vec::new();
    let mut is_any = false;
    let mut is_given = false;
    for line in headers.get_all(IF_MATCH) {
        let line = line.to_str().map_err(|_| bad())?.trim();
        is_any |= line == "*";
        is_given |= !line.is_empty();
        if line != "*" {
            read_list(line, &mut tags).ok_or_else(bad)?;
        }
    }
    Ok(match (is_given, is_any) {
        (false, _) => None,
        (true, true) => Some(ExpectedRevision::Any),
        (true, false) => Some(ExpectedRevision::OneOf(tags.into())),
    })
}

/// Adds the strong tags of a list. `None` if `line` is not a list of tags.
fn read_list(line: &str, tags: &mut Vec<String>) -> Option<()> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Some(());
        }
        let is_weak = rest.starts_with("W/");
        let (tag, after) = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?.split_once('"')?;
        let after = after.trim_start_matches([' ', '\t']);
        if tag.contains(' ') || !(after.is_empty() || after.starts_with(',')) {
            return None;
        }
        if !is_weak {
            tags.push(tag.to_owned());
        }
        rest = after;
    }
}

fn bad() -> ApiError {
    ApiError::invalid_header("If-Match", "If-Match must be '*' or a list of ETags, such as \"1a2b3c4d.5.0\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&'static str]) -> Result<Option<ExpectedRevision>, ApiError> {
        expected(&lines.iter().map(|line| (IF_MATCH, HeaderValue::from_static(line))).collect())
    }

    #[test]
    fn several_tags_and_lines_are_one_list() {
        let one_of = |tags: &[&str]| Some(ExpectedRevision::OneOf(tags.iter().map(ToString::to_string).collect()));
        for (lines, wanted) in [
            (&[][..], None),
            (&[""][..], None),
            (&["*"][..], Some(ExpectedRevision::Any)),
            (&["\"a\""][..], one_of(&["a"])),
            (&["\"a\",\"b\" , \"c\""][..], one_of(&["a", "b", "c"])),
            (&["\"a\"", "", "\"b\""][..], one_of(&["a", "b"])),
            (&["\"a\"", "*"][..], Some(ExpectedRevision::Any)),
        ] {
            assert_eq!(read(lines).ok(), Some(wanted), "{lines:?}");
        }
    }

    #[test]
    fn a_weak_tag_matches_nothing() {
        assert_eq!(read(&["W/\"a\""]).ok(), Some(Some(ExpectedRevision::OneOf([].into()))));
    }

    #[test]
    fn what_is_no_tag_is_refused() {
        for line in ["a", "\"a", "a\"", "\"a\" \"b\"", "w/\"a\"", "\"a b\"", "*, \"a\""] {
            let error = read(&[line]).expect_err(line);
            assert_eq!((error.label(), error.body().param.as_deref()), ("invalid_header", Some("If-Match")), "{line}");
        }
    }
}
