//! Messages in the words of chat completions, where items are expected.

use crate::json::{Object, elements};

/// Parts that only chat completions have.
const CHAT_PARTS: [&str; 2] = ["image_url", "file"];

/// The words in which an input may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// Those of the Responses API.
    Items,
    /// Those of chat completions too.
    ItemsAndChat,
}

/// Whether an element with a role and no type is a message that only chat completions have words for: a tool's, one with
/// `tool_calls`, or one with parts of theirs.
pub(super) fn is_chat(role: &str, message: &Object<'_>) -> bool {
    let field = |name| message.rest().find(|(field, _)| *field == name).map(|(_, raw)| raw);
    let has_chat_parts = || {
        let parts = field("content").and_then(|raw| elements(raw).ok()).unwrap_or_default();
        parts.into_iter().any(|part| {
            let kind = Object::read(part).and_then(|mut part| part.take_name("type"));
            kind.is_ok_and(|kind| CHAT_PARTS.contains(&&*kind))
        })
    };
    role == "tool" || field("tool_calls").is_some() || has_chat_parts()
}
