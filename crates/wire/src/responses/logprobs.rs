//! Log probabilities in the form of this API: that of chat completions, but with every list there.

use serde_json::{Map, Value};

use crate::chat;

/// The log probabilities among the fields that a model server added to a choice.
pub(super) fn of_choice(choice: &Map<String, Value>) -> Vec<Value> {
    chat::logprobs(choice).iter().cloned().map(token).collect()
}

/// A token. What a chat server says with a null, or leaves out, is a list without elements.
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
