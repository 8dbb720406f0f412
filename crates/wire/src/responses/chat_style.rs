//! Chat messages, where the Responses API expects items.

use crate::json::{Object, elements};

/// Parts that only chat completions have.
const CHAT_PARTS: [&str; 2] = ["image_url", "file"];

/// The forms that an input may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputStyle {
    /// Items only.
    Items,
    /// Items, and messages of chat completions.
    ItemsAndChat,
}

/// Whether an element with a role and no type is a message that only chat completions have. That is a tool's message,
/// one with `tool_calls`, or one with chat parts.
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
