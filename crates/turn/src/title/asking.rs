//! The request to a model for a title, and whether its answer is one.
//!
//! The first exchange is quoted in one message that ends with the gateway's instruction, as for a summary. The answer
//! is used only if it looks like a title. It is not used if the model talks, refuses, or repeats the instruction.

use herma_model::{Answer, Payload};
use serde_json::{Value, json};

use super::{injected, line, of_text, text_of};
use crate::summary::{complete_text, content_text, shortened};
use crate::words;

/// How many bytes of the question and of the answer are quoted.
const MOST_QUOTED: usize = 2_000;
/// A line with more characters is not a title. It is not cut.
const LONGEST_LINE: usize = 100;
/// An answer with more bytes is not read on, even if it begins with thoughts.
const FAR_TOO_LONG: usize = 16 * 1024;
/// Words that models put before a title.
const INTRODUCTIONS: [&str; 4] = ["title:", "conversation title:", "titel:", "titre:"];
/// Marks of emphasis around a title or its introduction.
const EMPHASIS: [char; 2] = ['*', '_'];
/// How refusals begin, in lower case.
const REFUSALS: [&str; 9] =
    ["i'm sorry", "i’m sorry", "i am sorry", "sorry,", "i can't", "i can’t", "i cannot", "i'm unable", "as an ai"];

/// The request for a title of a conversation that begins with this question and this answer.
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

/// The user's own text in a message. If the message has no text at all, the kinds of its parts.
fn quotation(payload: &Payload) -> String {
    let text = text_of(payload);
    let text = line::visible(&text);
    let said = injected::without(&text).trim();
    if !said.is_empty() {
        return said.to_owned();
    }
    let message: Value = serde_json::from_str(payload.as_json()).unwrap_or_default();
    if text.trim().is_empty() { content_text(&message["content"]) } else { String::new() }
}

/// Whether the text so far is so long that the rest need not be read.
pub fn is_far_too_long(text: &str) -> bool {
    text.len() > FAR_TOO_LONG
}

/// The title in a model's answer. `None` if the answer is not a title.
pub fn judge(answer: &Answer) -> Option<String> {
    let text = line::visible(complete_text(answer).ok()?);
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
    (!is_refused && !repeats_instruction(&lower)).then_some(title)
}

fn without_introduction(title: &str) -> Option<String> {
    let begun = title.trim_start_matches(EMPHASIS);
    let introduction = |words: &&&str| begun.get(..words.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(words));
    match INTRODUCTIONS.iter().find(introduction) {
        Some(words) => of_text(begun[words.len()..].trim_start_matches(EMPHASIS)),
        None => Some(title.to_owned()),
    }
}

/// Whether a title is a part of the gateway's own instructions.
fn repeats_instruction(title: &str) -> bool {
    let title = words_only(title);
    [words::TITLER, words::ASK_FOR_TITLE].into_iter().any(|instruction| words_only(instruction).contains(&title))
}

/// The words of a text in lower case, with one space before, between and after them.
fn words_only(text: &str) -> String {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(" ".to_owned(), |text, word| text + &word.to_lowercase() + " ")
}
