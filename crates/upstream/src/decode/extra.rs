//! Fields that Herma does not understand and passes on.

use serde_json::{Map, Value};

/// Keeps a field of a message or a choice, unless it is null or an empty list of annotations.
pub(super) fn keep(extra: &mut Map<String, Value>, name: &str, value: Value) {
    let is_empty = match &value {
        Value::Null => true,
        Value::Array(list) => name == "annotations" && list.is_empty(),
        _ => false,
    };
    if !is_empty {
        extra.insert(name.to_owned(), value);
    }
}

/// Whether a field of the answer object is dropped: Herma writes its own, or it is padding.
pub(super) fn is_bookkeeping(name: &str) -> bool {
    matches!(name, "id" | "object" | "created" | "obfuscation")
}
