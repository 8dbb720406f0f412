//! Asking a model for a title, and judging what comes back.
//!
//! The first exchange is quoted in one message that ends with our own instruction, as for a summary. What comes back is a title only if it
//! looks like one: a model that talks, refuses, or repeats what it was told has given none.

use herma_model::{Answer, Payload};
use serde_json::{Value, json};

use super::{injected, line, of_text, text_of};
use crate::summary::{content_text, shortened, text_said};
use crate::words;

/// Most bytes that are quoted of each of the two.
const MOST_QUOTED: usize = 2_000;
/// A longer line, in characters, is no title that could be cut, but something else.
const LONGEST_LINE: usize = 100;
/// More text than this, in bytes, cannot become a title any more, whatever a model thinks aloud before it.
const FAR_TOO_LONG: usize = 16 * 1024;
/// How a title is introduced that was asked for alone.
const INTRODUCTIONS: [&str; 4] = ["title:", "conversation title:", "titel:", "titre:"];
/// Signs that it may be set off with.
const EMPHASIS: [char; 2] = ['*', '_'];
/// How those begin who will not, or who answer in place of giving a title.
const REFUSALS: [&str; 9] =
    ["i'm sorry", "i’m sorry", "i am sorry", "sorry,", "i can't", "i can’t", "i cannot", "i'm unable", "as an ai"];

/// The request for a title of a conversation that begins with these two.
pub fn request(asked: Option<&Payload>, answered: &str) -> Vec<Payload> {
    let asked = asked.map(|payload| format!("User: {}\n\n", shortened(&quotation(payload), MOST_QUOTED)));
    let answered = match line::visible(answered) {
        text if text.trim().is_empty() => String::new(),
        text => format!("Assistant: {}\n\n", shortened(&text, MOST_QUOTED)),
    };
    let (asked, instruction) = (asked.unwrap_or_default(), words::ASK_FOR_TITLE);
    let content = format!("<conversation>\n{asked}{answered}</conversation>\n\n{instruction}");
    vec![
        Payload::from_json(json!({ "role": "system", "content": words::TITLER }).to_string()),
        Payload::from_json(json!({ "role": "user", "content": content }).to_string()),
    ]
}

/// What a person said in a message, or what it has in place of words.
fn quotation(payload: &Payload) -> String {
    let text = line::visible(&text_of(payload));
    let said = injected::without(&text).trim();
    if !said.is_empty() {
        return said.to_owned();
    }
    let message: Value = serde_json::from_str(payload.as_json()).unwrap_or_default();
    if text.trim().is_empty() { content_text(&message["content"]) } else { String::new() }
}

/// Whether what has come so far is so long that there is no use in reading on.
pub fn is_far_too_long(text: &str) -> bool {
    text.len() > FAR_TOO_LONG
}

/// The title that a model gave, if it gave one.
pub fn judge(answer: &Answer) -> Option<String> {
    let text = line::visible(text_said(answer).ok()?);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = match lines[..] {
        [said] => said,
        [introduction, said] if introduction.ends_with(':') => said,
        _ => return None,
    };
    if said.chars().count() > LONGEST_LINE || said.contains("<conversation") || said.contains("</") {
        return None;
    }
    let title = without_introduction(&of_text(said)?)?;
    let lower = title.to_lowercase();
    let is_refused = REFUSALS.iter().any(|refusal| lower.starts_with(refusal));
    (!is_refused && !is_ours(&lower)).then_some(title)
}

fn without_introduction(title: &str) -> Option<String> {
    let begun = title.trim_start_matches(EMPHASIS);
    let introduction = |words: &&&str| begun.get(..words.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(words));
    match INTRODUCTIONS.iter().find(introduction) {
        Some(words) => of_text(begun[words.len()..].trim_start_matches(EMPHASIS)),
        None => Some(title.to_owned()),
    }
}

/// Whether a title is part of what we said ourselves.
fn is_ours(title: &str) -> bool {
    let title = bare(title);
    [words::TITLER, words::ASK_FOR_TITLE].into_iter().any(|ours| bare(ours).contains(&title))
}

/// The words of a text, with nothing but one space around each.
fn bare(text: &str) -> String {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(" ".to_owned(), |text, word| text + &word.to_lowercase() + " ")
}
