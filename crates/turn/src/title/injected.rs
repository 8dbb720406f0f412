//! Text in a user message that the user did not write: blocks that front ends and agents add, and code.

/// Blocks that agents and editors add. They count anywhere in a message, even without an end tag.
const INJECTED: [&str; 16] = [
    "environment_context",
    "environment_details",
    "user_instructions",
    "skills_instructions",
    "permissions_instructions",
    "custom_instructions",
    "system-reminder",
    "system_reminder",
    "system_prompt",
    "ide_opened_file",
    "ide_selection",
    "attached_files",
    "local-command-caveat",
    "local-command-stdout",
    "memory-context",
    "turn_aborted",
];
/// Blocks that contain the user's own text.
const WRAPPING: [&str; 8] =
    ["user_query", "user_message", "user_request", "user_input", "question", "query", "task", "feedback"];
/// How messages begin that a front end wrote completely.
const PROMPTS: [&str; 2] = ["### Task:", "# AGENTS.md instructions"];

/// The user's own part of a text. Takes time linear in the length of the text.
pub(super) fn without(text: &str) -> &str {
    // ASCII letters keep their length, so an index into `lower` is an index into `text`.
    let lower = text.to_ascii_lowercase();
    let mut begin = after_space(&lower, 0);
    if PROMPTS.iter().any(|prompt| text[begin..].starts_with(prompt)) {
        return "";
    }
    let mut wrapping = Vec::new();
    while let Some(length) = leading_block(&lower[begin..], &mut wrapping) {
        begin = after_space(&lower, begin + length);
    }
    let rest = &lower[begin..];
    let inside = INJECTED.iter().filter_map(|name| opening_of(rest, name));
    let wrapped = wrapping.iter().filter_map(|name: &&str| rest.find(&format!("</{name}>")));
    let end = inside.chain(wrapped).min().unwrap_or(rest.len());
    &text[begin..begin + end]
}

fn after_space(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start().len()
}

/// The length of the block that a text begins with: a comment, code, an element, or the start tag of an element that
/// contains the user's text. The name of the latter is added to `wrapping`. `None` if the text begins with none.
fn leading_block(text: &str, wrapping: &mut Vec<&'static str>) -> Option<usize> {
    for (open, close) in [("<!--", "-->"), ("```", "```"), ("~~~", "~~~")] {
        if let Some(rest) = text.strip_prefix(open) {
            return Some(rest.find(close).map_or(text.len(), |at| open.len() + at + close.len()));
        }
    }
    let name = name_of(text)?;
    let begin = text.find('>')? + 1;
    if let Some(name) = WRAPPING.into_iter().find(|known| *known == name) {
        if !wrapping.contains(&name) {
            wrapping.push(name);
        }
        return Some(begin);
    }
    let close = format!("</{name}>");
    text[begin..].find(&close).map(|at| begin + at + close.len())
}

/// The name of the tag that a text begins with.
fn name_of(text: &str) -> Option<&str> {
    let tag = text.strip_prefix('<')?;
    let length = tag.find(|sign: char| !sign.is_ascii_alphanumeric() && !matches!(sign, '_' | '-'))?;
    let (name, rest) = tag.split_at(length);
    let is_tag = name.starts_with(|sign: char| sign.is_ascii_alphabetic()) && rest.starts_with(['>', ' ', '\n']);
    is_tag.then_some(name)
}

/// Where a tag of this name begins.
fn opening_of(text: &str, name: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| {
        text[at + 1..].strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['>', ' ', '\n']))
    })
}
