//! One message as Markdown.

use herma_model::copy::CopiedMessage;
use herma_model::{MessageStatus, Payload, Role, TurnState};
use serde_json::Value;

use super::text::{code, escaped, fenced, quoted, second};

/// A message with its role, its time and the outcome of its turn. `turn` is the state of the turn and its last attempt.
pub(super) fn to_markdown(message: &CopiedMessage, turn: Option<(TurnState, u32)>) -> String {
    let parsed = ParsedPayload::read(&message.said.payload);
    let mut parts = vec![heading(message, turn, &parsed)];
    match message.said.role {
        Role::Tool => parts.push(fenced("", &parsed.text())),
        Role::User | Role::Assistant => {
            parts.extend(parsed.parts().iter().filter(|part| !part.is_empty()).map(|part| quoted(part)));
        }
    }
    parts.extend(parsed.calls());
    parts.join("\n\n")
}

fn heading(message: &CopiedMessage, turn: Option<(TurnState, u32)>, parsed: &ParsedPayload) -> String {
    let mut heading = format!("## {} · {} · {}", message.place.0, parsed.role, second(message.created_at));
    if let Some(answered) = parsed.payload["tool_call_id"].as_str() {
        heading.push_str(&format!(" · answers {}", code(answered)));
    }
    if let Some(note) = note(message, turn) {
        heading.push_str(&format!(" · {note}"));
    }
    if message.rewound {
        heading.push_str(" · rewound");
    }
    heading
}

/// A note if the message was cut off or got no answer.
fn note(message: &CopiedMessage, turn: Option<(TurnState, u32)>) -> Option<String> {
    let (state, attempt) = turn?;
    let ended = match state {
        TurnState::Failed => "the turn failed",
        TurnState::Cancelled => "the turn was cancelled",
        TurnState::Interrupted => "the turn was interrupted",
        TurnState::Queued | TurnState::Running | TurnState::Completed => "it was tried again",
    };
    match (message.said.status, message.said.role) {
        (MessageStatus::Partial, _) if message.attempt < attempt => Some("cut off: it was tried again".to_owned()),
        (MessageStatus::Partial, _) => Some(format!("cut off: {ended}")),
        (MessageStatus::Complete, Role::User) if state.is_unanswered() => Some(format!("without an answer: {ended}")),
        (MessageStatus::Complete, _) => None,
    }
}

/// A payload, parsed for display.
pub(super) struct ParsedPayload {
    pub(super) role: String,
    payload: Value,
}

impl ParsedPayload {
    pub(super) fn read(payload: &Payload) -> Self {
        let payload: Value = serde_json::from_str(payload.as_json()).unwrap_or_default();
        Self { role: payload["role"].as_str().unwrap_or("unknown").to_owned(), payload }
    }

    /// All parts as one text.
    pub(super) fn text(&self) -> String {
        self.parts().join("\n\n")
    }

    /// The texts of the parts. A part that is no text is replaced by a note.
    fn parts(&self) -> Vec<String> {
        let parts = match &self.payload["content"] {
            Value::String(text) => vec![text.clone()],
            Value::Array(parts) => parts.iter().map(part).collect(),
            _ => Vec::new(),
        };
        let refusal = self.payload["refusal"].as_str().map(refused);
        parts.into_iter().chain(refusal).collect()
    }

    /// The tool calls, each with its arguments as the model wrote them.
    fn calls(&self) -> impl Iterator<Item = String> {
        self.payload["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let function = &call["function"];
            let id = call["id"].as_str().unwrap_or_default();
            match (function["name"].as_str(), function["arguments"].as_str()) {
                (Some(name), Some(arguments)) => {
                    format!("Calls {} as {}:\n\n{}", code(name), code(id), fenced("json", arguments))
                }
                _ => format!("Calls {}:\n\n{}", code(id), fenced("json", &call.to_string())),
            }
        })
    }
}

fn part(part: &Value) -> String {
    match part["type"].as_str() {
        Some("text") => part["text"].as_str().unwrap_or_default().to_owned(),
        Some("refusal") => refused(part["refusal"].as_str().unwrap_or_default()),
        Some("image_url") => image(part["image_url"]["url"].as_str().unwrap_or_default()),
        Some("file") => match part["file"]["filename"].as_str() {
            Some(name) => format!("*(file {})*", escaped(name)),
            None => "*(file)*".to_owned(),
        },
        Some(other) => format!("*({})*", escaped(other)),
        None => String::new(),
    }
}

fn refused(text: &str) -> String {
    format!("*Refused:* {text}")
}

/// Keeps a link. An embedded image is replaced by a note.
fn image(url: &str) -> String {
    match url.strip_prefix("data:") {
        Some(data) => {
            let (kind, content) = data.split_once(',').unwrap_or((data, ""));
            let kind = kind.split(';').next().filter(|kind| !kind.is_empty()).unwrap_or("image");
            format!("*({}, {} bytes as text, left out)*", escaped(kind), content.len())
        }
        None => format!("*(image)* <{}>", url.replace(['<', '>', ' ', '\n'], "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_no_text_become_notes() {
        let payload = r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
            {"type":"image_url","image_url":{"url":"https://example.com/a b.png"}},{"type":"file","file":{"filename":"*.pdf"}},{"type":"input_audio"}]}"#;
        let parsed = ParsedPayload::read(&Payload::from_json(payload));
        assert_eq!(
            parsed.text(),
            "see\n\n*(image/png, 4 bytes as text, left out)*\n\n*(image)* <https://example.com/ab.png>\n\n*(file \\*.pdf)*\n\n*(input\\_audio)*"
        );
    }

    #[test]
    fn a_call_is_shown_as_it_was_written() {
        let payload = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
            "function":{"name":"look","arguments":"{\"at\": \"```\"}"}},{"id":"call_2","type":"custom"}]}"#;
        let calls: Vec<String> = ParsedPayload::read(&Payload::from_json(payload)).calls().collect();
        assert_eq!(calls[0], "Calls `look` as `call_1`:\n\n````json\n{\"at\": \"```\"}\n````");
        assert!(calls[1].starts_with("Calls `call_2`:\n\n```json\n{"), "{}", calls[1]);
    }
}
