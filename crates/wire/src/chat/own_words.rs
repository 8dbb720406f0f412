//! The few messages that Herma itself puts into a conversation, and those typed at its own terminal.

use std::borrow::Cow;

use herma_model::{Payload, Role, Utterance};

use super::identity::Identity;
use super::message;

/// A user's message that is nothing but a text.
pub fn simple_user(text: &str) -> Utterance {
    let mut identity = Identity::of(Role::User);
    identity.text(Cow::Borrowed(text));
    let mut writer = message::begin(Role::User.as_str(), text.len() + 64);
    writer.field("content", text);
    message::end(writer, Role::User, identity, Vec::new())
}

/// What the model is given as the result of a call that the client never answered.
pub fn not_executed(call_id: &str) -> Payload {
    let mut writer = message::begin(Role::Tool.as_str(), 160);
    writer.field("content", "Not executed: the conversation went on without a result for this call.");
    writer.field("tool_call_id", call_id);
    writer.close_object();
    Payload::from_json(writer.into_text())
}

/// What the model is given in place of an answer that broke off: what was shown of it, then what happened, in brackets.
pub fn note(shown: Option<&str>, what: &str) -> Payload {
    let text = match shown.map(str::trim_end).filter(|shown| !shown.is_empty()) {
        Some(shown) => format!("{shown}\n\n[{what}]"),
        None => format!("[{what}]"),
    };
    let mut writer = message::begin(Role::Assistant.as_str(), text.len() + 64);
    writer.field("content", &text);
    writer.close_object();
    Payload::from_json(writer.into_text())
}
