//! The title of a conversation that no client gave a title: an excerpt of the first user message, or a title from a
//! model.
//!
//! A title is one short, readable line. It has no control or invisible characters, no text that a front end put into
//! the message, and no text of the gateway. System and developer messages are never used. If nothing is left, there is
//! no title.
//!
//! - [`mod@line`]: from any text to one line.
//! - [`injected`]: text in a user message that the user did not write.
//! - [`asking`]: the request to a model for a title, and whether its answer is one.

mod asking;
mod injected;
mod line;

pub use asking::{is_far_too_long, judge, request};
pub use line::LONGEST;

use herma_model::{Payload, Role, Utterance};
use serde_json::Value;

/// How many user messages are searched for text.
const MOST_MESSAGES: usize = 16;
/// How many bytes of a message are read.
const MOST_BYTES: usize = 256 * 1024;

/// The title from a text: the beginning of its first line that has words. `None` if no line has. A title as input comes
/// back unchanged.
pub fn of_text(text: &str) -> Option<String> {
    let mut title = line::first(injected::without(&line::visible(beginning(text, MOST_BYTES))))?;
    loop {
        let again = line::first(injected::without(&title))?;
        if again == title {
            return Some(title);
        }
        title = again;
    }
}

/// The title from the first user message that has words.
pub fn of_messages<'a>(said: impl IntoIterator<Item = &'a Utterance>) -> Option<String> {
    users(said).find_map(|message| of_text(&text_of(&message.payload)))
}

/// The user message to quote in a request for a title: the first that has words, or else the first.
pub fn opening<'a>(said: impl IntoIterator<Item = &'a Utterance> + Clone) -> Option<&'a Utterance> {
    let has_words = |message: &&Utterance| of_text(&text_of(&message.payload)).is_some();
    users(said.clone()).find(has_words).or_else(|| users(said).next())
}

fn users<'a>(said: impl IntoIterator<Item = &'a Utterance>) -> impl Iterator<Item = &'a Utterance> {
    said.into_iter().filter(|message| message.role == Role::User).take(MOST_MESSAGES)
}

/// The text of a message. Pictures, sounds and files have none.
fn text_of(payload: &Payload) -> String {
    let message: Value = serde_json::from_str(payload.as_json()).unwrap_or_default();
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests;
