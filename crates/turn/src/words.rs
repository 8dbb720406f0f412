//! The gateway's own words in a context: the note of an unanswered turn and the result of a call that was never made.

use herma_model::{Payload, TurnState};
use serde_json::{Value, json};

/// The assistant message that stands for an unanswered turn: what was shown of it, then what happened, in one message, so that
/// roles keep alternating for models that insist on it.
pub fn note(shown: Option<&str>, state: TurnState) -> Payload {
    let happened = match (shown.is_some(), state) {
        (false, TurnState::Cancelled) => "[No reply was given: the request was cancelled.]",
        (false, TurnState::Interrupted) => "[No reply was given: the request was interrupted.]",
        (false, _) => "[No reply was given: the model server failed.]",
        (true, TurnState::Cancelled) => "[The reply ends here: the request was cancelled.]",
        (true, TurnState::Interrupted) => "[The reply ends here: it was interrupted.]",
        (true, _) => "[The reply ends here: the model server failed.]",
    };
    let content = shown.map_or_else(|| happened.to_owned(), |text| format!("{text}\n\n{happened}"));
    Payload::from_json(json!({ "role": "assistant", "content": content }).to_string())
}

/// The result of a client's tool call that the client never answered.
pub fn not_executed(call: &str) -> Payload {
    Payload::from_json(
        json!({ "role": "tool", "tool_call_id": call, "content": "[This call was not executed.]" }).to_string(),
    )
}

/// The text of a stored message that is text.
pub fn text_of(payload: &Payload) -> Option<String> {
    let message: Value = serde_json::from_str(payload.as_json()).ok()?;
    message.get("content")?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}
