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

/// A summary, if the last message asks for one.
pub(super) fn summary_of(prompt: &Prompt) -> Option<String> {
    let (last, earlier) = prompt.messages.split_last()?;
    let asked = last.text.to_lowercase();
    if !ASKING.iter().any(|word| asked.contains(word)) {
        return None;
    }
    let lines: Vec<String> = earlier.iter().filter_map(line).collect();
    if lines.is_empty() {
        return None;
    }
    let left_out = lines.len().saturating_sub(FIRST_LINES + LAST_LINES);
    let mut shown = lines.clone();
    if left_out > 1 {
        shown.splice(FIRST_LINES..FIRST_LINES + left_out, [format!("({left_out} more)")]);
    }
    Some(format!("Summary of {} messages:\n{}", lines.len(), shown.join("\n")))
}

fn line(said: &Said) -> Option<String> {
    let text = said.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_said = !text.is_empty() && !matches!(said.role.as_str(), "system" | "developer");
    is_said.then(|| format!("- {}: {}", said.role, shorten(&text, MAX_LINE)))
}
