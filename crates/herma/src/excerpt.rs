//! A message as one line for people.

use herma_model::{Message, Role, Summary, Utterance};
use herma_wire::chat::shown_text;

use crate::output;

/// The most characters of the text.
const CHARACTERS: usize = 200;

/// Who wrote a message, and how it begins.
pub(crate) fn of(message: &Message) -> String {
    let speaker = match message.said.role {
        Role::User => "you",
        Role::Assistant => "model",
        Role::Tool => "tool",
    };
    format!("{speaker}: {}", begin(&message.said))
}

/// How a summary begins.
pub(crate) fn of_summary(summary: &Summary) -> String {
    format!("summary: {}", begin(&summary.said))
}

fn begin(said: &Utterance) -> String {
    line(&shown_text(said).unwrap_or_else(|| "(no text)".to_owned()), CHARACTERS)
}

/// A text as one line of at most `most` characters, safe for a terminal.
pub(crate) fn line(text: &str, most: usize) -> String {
    let text = output::printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(most).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short}{more}")
}
