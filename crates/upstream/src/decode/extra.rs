//! Fields that are passed on without being understood.

use serde_json::{Map, Value};

/// Keeps a field of a message or a choice, unless it says nothing.
pub(super) fn keep(extra: &mut Map<String, Value>, name: &str, value: Value) {
    let says_nothing = match &value {
        Value::Null => true,
        Value::Array(list) => name == "annotations" && list.is_empty(),
        _ => false,
    };
    if !says_nothing {
        extra.insert(name.to_owned(), value);
    }
}

/// Whether a field of the answer object is the server's own book-keeping, which Herma makes itself, or padding.
pub(super) fn is_bookkeeping(name: &str) -> bool {
    matches!(name, "id" | "object" | "created" | "obfuscation")
}
