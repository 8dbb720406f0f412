//! Log probabilities in this API's form: that of chat completions, but every list is present.

use serde_json::{Map, Value};

use crate::chat;

/// The log probabilities among the fields that a model server added to a choice.
pub(super) fn of_choice(choice: &Map<String, Value>) -> Vec<Value> {
    chat::logprobs(choice).iter().cloned().map(token).collect()
}

/// Converts a token. A list that a chat server leaves out or sends as null becomes an empty list.
fn token(mut token: Value) -> Value {
    if let Value::Object(fields) = &mut token {
        fill(fields, "bytes");
        fill(fields, "top_logprobs");
        for other in fields.get_mut("top_logprobs").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::Object(fields) = other {
                fill(fields, "bytes");
            }
        }
    }
    token
}

fn fill(fields: &mut Map<String, Value>, name: &str) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), Value::Array(Vec::new()));
    }
}
