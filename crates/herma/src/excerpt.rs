//! A message in one line, for people.

use herma_model::{Message, Role};
use herma_wire::chat::shown_text;

use crate::output;

/// Most characters of its text.
const CHARACTERS: usize = 200;

/// Who said it, and how it begins.
pub(crate) fn of(message: &Message) -> String {
    let speaker = match message.said.role {
        Role::User => "you",
        Role::Assistant => "model",
        Role::Tool => "tool",
    };
    let text = shown_text(&message.said).unwrap_or_else(|| "(no text)".to_owned());
    let text = output::printable(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(CHARACTERS).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{speaker}: {short}{more}")
}
