//! What a conversation is called that nobody gave a title: the beginning of what its person first said, or what a model makes of it.
//!
//! A title is one short line that can be read: no control character, no mark that is not seen, nothing that a front end put before the
//! person's words, and nothing of ours. System and developer messages are never looked at. Where nothing is left, there is no title.
//!
//! - [`mod@line`]: from any text to one line.
//! - [`injected`]: what was not said by the person.
//! - [`asking`]: asking a model for a title, and judging what comes back.

mod asking;
mod injected;
mod line;

pub use asking::{is_far_too_long, judge, request};
pub use line::LONGEST;

use herma_model::{Payload, Role, Utterance};
use serde_json::Value;

/// Most messages of a conversation that are looked at for words.
const MOST_LOOKED_AT: usize = 16;
/// Most bytes of a message that are looked at.
const MOST_BYTES: usize = 256 * 1024;

/// The title that a text makes: the beginning of its first line with words. `None` if there is none. Of a title it makes that title.
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

/// The title that the first words of a person make.
pub fn of_messages<'a>(said: impl IntoIterator<Item = &'a Utterance>) -> Option<String> {
    users(said).find_map(|message| of_text(&text_of(&message.payload)))
}

/// The message to begin a conversation's quotation with: the first of a person that has words, else the first.
pub fn opening<'a>(said: impl IntoIterator<Item = &'a Utterance> + Clone) -> Option<&'a Utterance> {
    let has_words = |message: &&Utterance| of_text(&text_of(&message.payload)).is_some();
    users(said.clone()).find(has_words).or_else(|| users(said).next())
}

fn users<'a>(said: impl IntoIterator<Item = &'a Utterance>) -> impl Iterator<Item = &'a Utterance> {
    said.into_iter().filter(|message| message.role == Role::User).take(MOST_LOOKED_AT)
}

/// The words of a message; pictures, sounds and files have none.
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
