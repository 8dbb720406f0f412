//! Answers the question what was said, so that a person sees that the conversation is kept.

use super::prompt::Prompt;
use crate::redact::shorten;

/// Parts of messages that ask what was said, without the words of [`LEFT_OUT`]. Case does not count.
const QUESTIONS: [&str; 23] = [
    "what did i say",
    "what did i tell",
    "what did i ask",
    "what did i write",
    "what have i said",
    "what have i told",
    "what have i asked",
    "what have i written",
    "what i said",
    "what i told",
    "what i asked",
    "what i wrote",
    "what was said",
    "what was the thing i",
    "what were the things i",
    "what is the thing i",
    "repeat the thing i",
    "what was my message",
    "what were my messages",
    "what was my question",
    "what were my questions",
    "what did we talk about",
    "what do you remember",
];
/// Words that such a question may have anywhere.
const LEFT_OUT: [&str; 11] =
    ["just", "first", "last", "previous", "very", "only", "already", "ever", "actually", "that", "exactly"];
/// How many messages are quoted at most, and how many characters of each.
const QUOTED: usize = 8;
const CHARACTERS: usize = 120;

/// Which of the earlier messages a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    First,
    Last,
    All,
}

/// The earlier messages of the person that the newest message asks for, in order. `None` if it asks for none.
pub(super) fn what_was_said(prompt: &Prompt) -> Option<String> {
    let wanted = wanted(prompt.last_user_text())?;
    let said: Vec<&str> =
        prompt.messages.iter().filter(|message| message.role == "user").map(|m| m.text.trim()).collect();
    let count = said.len();
    let earlier: Vec<&str> = said[..count - 1].iter().copied().filter(|text| !text.is_empty()).collect();
    let asked_for = match wanted {
        Wanted::First => &earlier[..earlier.len().min(1)],
        Wanted::Last => &earlier[earlier.len().saturating_sub(1)..],
        Wanted::All => &earlier[earlier.len().saturating_sub(QUOTED)..],
    };
    let quotes: Vec<String> = asked_for
        .iter()
        .map(|text| format!("\"{}\"", shorten(&text.split_whitespace().collect::<Vec<_>>().join(" "), CHARACTERS)))
        .collect();
    let said = if quotes.is_empty() { "nothing before this".to_owned() } else { quotes.join(", then ") };
    Some(format!("You said: {said} (message {count} of this conversation; I am Herma's offline model.)"))
}

fn wanted(asked: &str) -> Option<Wanted> {
    let asked = asked.to_lowercase().replace('’', "'");
    let words: Vec<&str> =
        asked.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
    let kept: Vec<&str> = words.iter().copied().filter(|word| !LEFT_OUT.contains(word)).collect();
    let kept = format!(" {} ", kept.join(" "));
    if !QUESTIONS.iter().any(|question| kept.contains(&format!(" {question} "))) {
        return None;
    }
    let has = |word: &str| words.contains(&word);
    Some(match (has("first"), has("just") || has("last") || has("previous")) {
        (true, _) => Wanted::First,
        (false, true) => Wanted::Last,
        (false, false) => Wanted::All,
    })
}
