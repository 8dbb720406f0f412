//! Items that a request names instead of sending them.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::request::read_object;
use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, elements};

/// The type of a reference. It may be absent.
const REFERENCE: &str = "item_reference";
/// The type of an answer to an approval request. It names that request.
const APPROVAL: &str = "mcp_approval_response";
/// The field in which it does.
pub(super) const APPROVAL_REQUEST: &str = "approval_request_id";
/// Every reference has one of these keys. A body without them has no references.
const KEYS: [&str; 2] = ["\"id\"", "\"approval_request_id\""];

/// The ids of the items that an input refers to, each once, in order. This costs almost nothing if there are none.
/// Answers to approval requests refer to these requests.
///
/// A wrong item is reported later, when the request is read.
pub fn references(body: &[u8]) -> Result<Vec<String>, BadRequest> {
    references_in(body, "input")
}

/// Like [`references`], for the items in another field.
pub(crate) fn references_in(body: &[u8], field: &str) -> Result<Vec<String>, BadRequest> {
    if !std::str::from_utf8(body).is_ok_and(|text| KEYS.iter().any(|key| text.contains(key))) {
        return Ok(Vec::new());
    }
    let (mut ids, mut seen) = (Vec::new(), HashSet::new());
    let Some(items) = read_object(body)?.take(field).filter(|raw| raw.get().starts_with('[')) else {
        return Ok(ids);
    };
    for item in elements(items).map_err(|flaw| flaw.within(field))? {
        if let Ok(Some(id)) = referred_id(item)
            && seen.insert(id.clone())
        {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn referred_id(item: &RawValue) -> Result<Option<String>, Flaw> {
    let mut item = Object::read(item)?;
    let field = match item.take_text("type")?.as_deref() {
        Some(REFERENCE) => "id",
        Some(APPROVAL) => APPROVAL_REQUEST,
        None if item.take("role").is_none() => "id",
        Some(_) | None => return Ok(None),
    };
    Ok(item.take_text(field)?.map(String::from))
}
