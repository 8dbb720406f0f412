//! Messages typed at a terminal.

use std::borrow::Cow;

use herma_model::{Role, Utterance};

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
