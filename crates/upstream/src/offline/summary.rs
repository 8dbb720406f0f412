//! Summaries: asked for one, the offline model gives the beginning of everything that was said.
//!
//! So a compacted conversation keeps its facts, and what compaction does can be seen without a real model.

use super::prompt::{Prompt, Said};
use crate::redact::shorten;

/// Words of which one in the last message asks for a summary.
const ASKING: &[&str] = &["summarise", "summarize", "a summary", "the summary"];
/// Messages kept of the beginning and of the end.
const FIRST_LINES: usize = 6;
const LAST_LINES: usize = 18;
/// Longest line, in characters.
const MAX_LINE: usize = 120;
/// What lines are shortened to where few words are wanted, in turn.
const LINES: [usize; 2] = [MAX_LINE + 16, 64];
const SHORTEST_LINE: usize = 40;
/// How speakers are named in a conversation that is given as text.
const SPEAKERS: &[(&str, &str)] = &[("User: ", "user"), ("Assistant: ", "assistant"), ("Tool result: ", "tool")];

/// A summary, if the last message asks for one: of the conversation that it quotes, else of the messages before it.
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
    // Rather the beginning of every message than all of a few.
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

/// At most so many lines, and one that says how many were left out between the first quarter and the rest.
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

/// The number before "words" in a request, if there is one.
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

/// A message of a quoted conversation as a line; the lines of an earlier summary stay what they are.
fn quoted_lines(paragraph: &str) -> Vec<String> {
    let paragraph = paragraph.trim();
    match SPEAKERS.iter().find(|(prefix, _)| paragraph.starts_with(prefix)) {
        Some((_, _)) if paragraph.contains("[Summary of") => Vec::new(),
        Some((prefix, role)) => {
            let said = Said { role: (*role).to_owned(), text: paragraph[prefix.len()..].to_owned() };
            line(&said).into_iter().collect()
        }
        None => paragraph.lines().filter(|line| line.starts_with("- ")).map(str::to_owned).collect(),
    }
}

fn line(said: &Said) -> Option<String> {
    let text = said.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_said = !text.is_empty() && !matches!(said.role.as_str(), "system" | "developer");
    is_said.then(|| format!("- {}: {}", said.role, shorten(&text, MAX_LINE)))
}
