//! A message as one line for people.

use herma_model::{CallStatus, Message, Role, Summary, Utterance};
use herma_wire::chat::shown_text;

use crate::{output, tool_lines};

/// The most characters of the text.
const CHARACTERS: usize = 200;
/// What stands for the text of a message that has none.
const NO_TEXT: &str = "(no text)";

/// Who wrote a message, and how it begins. A message that calls tools shows the calls too.
pub(crate) fn of(message: &Message) -> String {
    written(message, begin)
}

/// Who wrote a message, and all of its text, in the lines that it has.
pub(crate) fn whole(message: &Message) -> String {
    written(message, all)
}

/// Whether the excerpt of a message has less than its text.
pub(crate) fn is_cut(said: &Utterance) -> bool {
    begin(said).ends_with('…') && !all(said).ends_with('…')
}

fn written(message: &Message, begin: impl Fn(&Utterance) -> String) -> String {
    let said = &message.said;
    match said.role {
        Role::User => format!("you: {}", begin(said)),
        Role::Assistant => {
            let calls = tool_lines::all_calls(said);
            let text = if calls.is_empty() { Some(begin(said)) } else { shown_text(said).map(|_| begin(said)) };
            let calls = calls.into_iter().map(|call| format!("→ {call}"));
            format!("model: {}", text.into_iter().chain(calls).collect::<Vec<_>>().join(" "))
        }
        Role::Tool => {
            let text = begin(said);
            match said.call_end() {
                Some(end) if end.status == CallStatus::Done => format!("tool: ← {text}"),
                Some(end) => format!("tool: ← {}", tool_lines::result(said, &end)),
                None => format!("tool: {text}"),
            }
        }
    }
}

/// How a summary begins.
pub(crate) fn of_summary(summary: &Summary) -> String {
    format!("summary: {}", begin(&summary.said))
}

/// All of a summary.
pub(crate) fn whole_summary(summary: &Summary) -> String {
    format!("summary: {}", all(&summary.said))
}

fn all(said: &Utterance) -> String {
    output::printable(shown_text(said).as_deref().unwrap_or(NO_TEXT)).trim_end().to_owned()
}

fn begin(said: &Utterance) -> String {
    line(&shown_text(said).unwrap_or_else(|| NO_TEXT.to_owned()), CHARACTERS)
}

/// A text as one line of at most `most` characters, safe for a terminal.
pub(crate) fn line(text: &str, most: usize) -> String {
    let text = output::printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(most).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{short}{more}")
}
