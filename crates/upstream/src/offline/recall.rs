//! Answers the question what was said, so that a person sees that the conversation is kept.

use super::prompt::Prompt;
use crate::redact::shorten;

/// Parts of messages that ask what was said. Case does not count.
const QUESTIONS: [&str; 9] = [
    "what did i say",
    "what did i tell",
    "what did i ask",
    "what did i write",
    "what have i said",
    "what i said",
    "what was said",
    "what did we talk about",
    "what do you remember",
];
/// How many messages are quoted at most, and how many characters of each.
const QUOTED: usize = 8;
const CHARACTERS: usize = 120;

/// The earlier messages of the person, in order, if the newest message asks for them. Otherwise `None`.
pub(super) fn what_was_said(prompt: &Prompt) -> Option<String> {
    let asked = prompt.last_user_text().to_lowercase().replace('’', "'");
    if !QUESTIONS.iter().any(|question| asked.contains(question)) {
        return None;
    }
    let said: Vec<&str> =
        prompt.messages.iter().filter(|message| message.role == "user").map(|m| m.text.trim()).collect();
    let count = said.len();
    let earlier: Vec<&str> = said[..count - 1].iter().copied().filter(|text| !text.is_empty()).collect();
    let quotes: Vec<String> = earlier[earlier.len().saturating_sub(QUOTED)..]
        .iter()
        .map(|text| format!("\"{}\"", shorten(&text.split_whitespace().collect::<Vec<_>>().join(" "), CHARACTERS)))
        .collect();
    let said = if quotes.is_empty() { "nothing before this".to_owned() } else { quotes.join(", then ") };
    Some(format!("You said: {said} (message {count} of this conversation; I am Herma's offline model.)"))
}
