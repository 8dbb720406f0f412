//! Titles of the offline model. A title is the first words of the quoted conversation.

use super::prompt::Prompt;

/// The phrase that asks for a title.
const ASKING: &str = "write a title";
/// How a user message begins in a quoted conversation.
const PERSON: &str = "User: ";
/// The most words of a title.
const MOST_WORDS: usize = 6;

/// A title, if the last message quotes a conversation and asks for a title.
pub(super) fn title_of(prompt: &Prompt) -> Option<String> {
    let last = prompt.messages.last()?;
    let (quoted, request) = last.text.split_once("<conversation>")?.1.rsplit_once("</conversation>")?;
    if !request.to_lowercase().contains(ASKING) {
        return None;
    }
    let said = quoted.split("\n\n").find_map(|paragraph| paragraph.trim().strip_prefix(PERSON))?;
    let words: Vec<&str> = said.split_whitespace().take(MOST_WORDS).collect();
    let title = words.join(" ");
    let title = title.trim_matches(|sign: char| !sign.is_alphanumeric());
    (!title.is_empty()).then(|| format!("About: {title}"))
}
