//! Single messages that are not part of a request: typed at a terminal, or imported.

use std::borrow::Cow;

use herma_model::{Role, Utterance};

use serde_json::value::RawValue;

use super::identity::Identity;
use super::message::{self, RequestMessage};
use crate::bad_request::{BadRequest, Flaw};

/// A user's message that is only a text.
pub fn simple_user(text: &str) -> Utterance {
    let mut identity = Identity::of(Role::User);
    identity.text(Cow::Borrowed(text));
    let mut writer = message::begin(Role::User.as_str(), text.len() + 64);
    writer.text_field("content", text);
    message::end(&mut writer, Role::User, identity, Vec::new())
}

/// Reads one message of a transcript: a JSON object as it would be in a request. A system message is refused.
pub fn single(json: &str) -> Result<Utterance, BadRequest> {
    let raw: &RawValue =
        serde_json::from_str(json).map_err(|error| Flaw::new(format!("is not valid JSON: {error}")))?;
    match message::read(raw)? {
        RequestMessage::Transcript(said) => Ok(said),
        RequestMessage::System(_) => Err(Flaw::at("role", "must be user, assistant or tool").into()),
    }
}
