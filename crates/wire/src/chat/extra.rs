//! What is stored beside the payload of a message: shown to clients, never sent to a model server.

use std::ops::Not;
use std::sync::Arc;

use herma_model::Utterance;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client_tools::ClientCall;
use crate::json::Object;

/// Fields that model servers, or clients of the Responses API, write into a message. No chat server wants them back.
const RESPONSE_ONLY: [&str; 5] = ["annotations", "reasoning_content", "reasoning", "logprobs", PHASE];
/// The Responses API's label of an assistant's message: commentary, or the final answer.
pub(crate) const PHASE: &str = "phase";

/// Fields of an answer, by the object of the completion they belong to.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extra {
    /// Of the message.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) message: Map<String, Value>,
    /// Of the choice.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) choice: Map<String, Value>,
    /// Of the completion.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) answer: Map<String, Value>,
    /// The answer had no content, though its payload must have one.
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) no_content: bool,
    /// Calls of the client's tools that are not plain functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_calls: Vec<ClientCall>,
    /// The message is the result of a custom tool.
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) custom_output: bool,
}

impl Extra {
    /// Fields of a message alone.
    pub(super) fn of_message(message: Map<String, Value>) -> Self {
        Self { message, ..Self::default() }
    }

    /// Reads what is stored beside a payload.
    pub(crate) fn of(said: &Utterance) -> Self {
        said.extra.as_deref().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }

    /// The stored form. `None` if there is nothing to store.
    pub(crate) fn to_json(&self) -> Option<Arc<str>> {
        if self.is_empty() {
            return None;
        }
        serde_json::to_string(self).ok().map(Arc::from)
    }

    fn is_empty(&self) -> bool {
        let Self { message, choice, answer, no_content, client_calls, custom_output } = self;
        let has_no_fields = message.is_empty() && choice.is_empty() && answer.is_empty();
        has_no_fields && !no_content && client_calls.is_empty() && !custom_output
    }

    /// The label that a client gave the message.
    pub(crate) fn phase(&self) -> Option<String> {
        self.message.get(PHASE).and_then(Value::as_str).map(str::to_owned)
    }

    /// All fields in one object. If names are equal, the message's field wins, then the choice's.
    pub(crate) fn flattened(self) -> Map<String, Value> {
        let mut all = self.answer;
        all.extend(self.choice);
        all.extend(self.message);
        all
    }
}

/// Takes the fields that model servers do not want back out of a client's message. Empty ones are dropped.
pub(super) fn take_response_only(message: &mut Object<'_>) -> Map<String, Value> {
    let mut taken = Map::new();
    for name in RESPONSE_ONLY {
        if let Some(raw) = message.take(name)
            && !matches!(raw.get(), "[]" | "{}" | "\"\"")
            && let Ok(value) = serde_json::from_str(raw.get())
        {
            taken.insert(name.to_owned(), value);
        }
    }
    taken
}

/// The reasoning among the fields that a model server added to a message or a delta, under either of its names.
pub fn reasoning_text(extra: &Map<String, Value>) -> Option<&str> {
    let text = |name| extra.get(name).and_then(Value::as_str).filter(|text: &&str| !text.is_empty());
    text("reasoning_content").or_else(|| text("reasoning"))
}

/// The log probabilities among the fields that a model server added to a choice. Both APIs have them in the same form.
pub(crate) fn logprobs(choice: &Map<String, Value>) -> &[Value] {
    let content = choice.get("logprobs").and_then(|logprobs| logprobs.get("content")).and_then(Value::as_array);
    content.map(Vec::as_slice).unwrap_or_default()
}
