//! Summaries of the offline model. A summary is the beginning of each message.
//!
//! So a compacted conversation keeps its facts, and a person can see what compaction does without a real model.

use super::prompt::{Prompt, PromptMessage};
use crate::redact::shorten;

/// The last message asks for a summary if it contains one of these.
const ASKING: &[&str] = &["summarise", "summarize", "a summary", "the summary"];
/// How many messages are kept from the beginning and from the end.
const FIRST_LINES: usize = 6;
const LAST_LINES: usize = 18;
/// The longest line, in characters.
const MAX_LINE: usize = 120;
/// Lengths that lines are cut to, tried in this order until the word limit is met.
const LINES: [usize; 2] = [MAX_LINE + 16, 64];
const SHORTEST_LINE: usize = 40;
/// How a quoted conversation names the speakers, and their roles.
const SPEAKERS: &[(&str, &str)] = &[("User: ", "user"), ("Assistant: ", "assistant"), ("Tool result: ", "tool")];

/// A summary, if the last message asks for one. It covers the conversation that the message quotes, else all
/// earlier messages.
pub(super) fn summary_of(prompt: &Prompt) -> Option<String> {
    let (last, earlier) = prompt.messages.split_last()?;
    let (quoted, request) = match last.text.split_once("<conversation>") {
        Some((_, rest)) => rest.rsplit_once("</conversation>")?,
        None => ("", last.text.as_str()),
    };
    let asked = request.to_lowercase();
    if !ASKING.iter().any(|word| asked.contains(word)) {
        return None;
    }
    let lines: Vec<String> = match quoted {
        "" => earlier.iter().filter_map(line).collect(),
        quoted => quoted.split("\n\n").flat_map(quoted_lines).collect(),
    };
    if lines.is_empty() {
        return None;
    }
    let limit = word_limit(&asked);
    // The beginning of every message is better than all of a few messages.
    let cut = |most: usize| -> Vec<String> { lines.iter().map(|line| shorten(line, most)).collect() };
    let length = LINES.into_iter().find(|most| words(&cut(*most)) <= limit).unwrap_or(SHORTEST_LINE);
    let lines = cut(length);
    let mut most = FIRST_LINES + LAST_LINES;
    let mut shown = shortened(&lines, most);
    while most > 2 && words(&shown) > limit {
        most -= 1;
        shown = shortened(&lines, most);
    }
    Some(format!("Summary of {} messages:\n{}", lines.len(), shown.join("\n")))
}

/// At most `most` lines. If lines are left out, one line after the first quarter says how many.
fn shortened(lines: &[String], most: usize) -> Vec<String> {
    let left_out = lines.len().saturating_sub(most);
    let mut shown = lines.to_vec();
    if left_out > 1 {
        let first = most / 4;
        shown.splice(first..first + left_out, [format!("({left_out} more)")]);
    }
    shown
}

fn words(lines: &[String]) -> usize {
    lines.iter().map(|line| line.split_whitespace().count()).sum()
}

/// The number before "words" in a request, or no limit.
fn word_limit(request: &str) -> usize {
    let mut before = None;
    for word in request.split_whitespace() {
        if word.trim_matches(|c: char| !c.is_alphanumeric()) == "words"
            && let Some(limit) = before
        {
            return limit;
        }
        before = word.parse().ok();
    }
    usize::MAX
}

/// The lines for one paragraph of a quoted conversation. Lines of an earlier summary are kept unchanged.
fn quoted_lines(paragraph: &str) -> Vec<String> {
    let paragraph = paragraph.trim();
    match SPEAKERS.iter().find(|(prefix, _)| paragraph.starts_with(prefix)) {
        Some((_, _)) if paragraph.contains("[Summary of") => Vec::new(),
        Some((prefix, role)) => {
            let message = PromptMessage { role: (*role).to_owned(), text: paragraph[prefix.len()..].to_owned() };
            line(&message).into_iter().collect()
        }
        None => paragraph.lines().filter(|line| line.starts_with("- ")).map(str::to_owned).collect(),
    }
}

fn line(message: &PromptMessage) -> Option<String> {
    let text = message.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_spoken = !text.is_empty() && !matches!(message.role.as_str(), "system" | "developer");
    is_spoken.then(|| format!("- {}: {}", message.role, shorten(&text, MAX_LINE)))
}
