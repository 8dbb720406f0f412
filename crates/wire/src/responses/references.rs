//! Items that a request names instead of sending them.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::request::read_object;
use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, elements};

/// The type of a reference. It may be absent.
const REFERENCE: &str = "item_reference";
/// Every reference has this key. A body without it has no references.
const ID: &str = "\"id\"";

/// The ids of the items that an input refers to, each once, in order. This costs almost nothing if there are none.
///
/// A wrong item is reported later, when the request is read.
pub fn references(body: &[u8]) -> Result<Vec<String>, BadRequest> {
    references_in(body, "input")
}

/// Like [`references`], for the items in another field.
pub(crate) fn references_in(body: &[u8], field: &str) -> Result<Vec<String>, BadRequest> {
    if !std::str::from_utf8(body).is_ok_and(|text| text.contains(ID)) {
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
    let is_reference = match item.take_text("type")? {
        Some(kind) => kind == REFERENCE,
        None => item.take("role").is_none(),
    };
    Ok(item.take_text("id")?.filter(|_| is_reference).map(String::from))
}
