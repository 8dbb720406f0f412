//! Messages of a transcript. Written once and never copied; changed only where a client deletes them or part of them.
//!
//! A message's [`Payload`] is its canonical chat-completions JSON: what the store keeps is what the model
//! server is sent, byte for byte, so that a provider's prompt cache keeps hitting.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::{MessageId, SessionId, TurnId};
use crate::kind::stored_enum;
use crate::time::Timestamp;

stored_enum!(
    /// Who said a message of the transcript. System and developer messages are kept beside it, not in it.
    Role {
        /// A person, or whoever speaks for one.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The result of a tool call.
        Tool = "tool",
    }
);

stored_enum!(
    /// Whether all of a message is there.
    MessageStatus {
        /// Whole.
        Complete = "complete",
        /// What had been shown of an answer whose turn then failed or was cut off.
        Partial = "partial",
    }
);

/// Position in a conversation's full view; a continuation and a branch go on counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// The id of a tool call, as the model server chose it.
pub type CallId = Arc<str>;

/// A chat-completions message object as JSON text, in the form it is sent to a model server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Takes over JSON text that is known to be a message object.
    pub fn from_json(json: impl Into<Arc<str>>) -> Self {
        Self(json.into())
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl Serialize for Payload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::text::serialize_json(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize_json(deserializer).map(Self)
    }
}

/// Identity of what a message says, however a client spells it. Equal digests mean the same message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Digests a sequence of fields; field borders count, so `["ab", "c"]` and `["a", "bc"]` differ.
    pub fn of_fields<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for field in fields {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        let full = hash.finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        Self(short)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, |text| match text.len() {
            32 => u128::from_str_radix(text, 16).map(|digits| Self(digits.to_be_bytes())).map_err(|_| NOT_A_DIGEST),
            _ => Err(NOT_A_DIGEST),
        })
    }
}

const NOT_A_DIGEST: &str = "not 32 hex digits";

/// What was said: a message without the place it has in a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    /// Who said it.
    pub role: Role,
    /// Whether all of it is there.
    pub status: MessageStatus,
    /// What model servers are sent.
    pub payload: Payload,
    /// What clients are shown beyond the payload, as a JSON object: reasoning, log probabilities and the like.
    #[serde(default, with = "crate::text::optional_json", skip_serializing_if = "Option::is_none")]
    pub extra: Option<Arc<str>>,
    /// What it says, normalised.
    pub digest: Digest,
    /// Of an assistant, the calls it makes; of a tool, the one call it answers.
    #[serde(default, skip_serializing_if = "<[CallId]>::is_empty")]
    pub calls: Arc<[CallId]>,
    /// Estimated cost in a context.
    pub tokens: u32,
}

impl Utterance {
    /// Digest of a message that is text and nothing else. Outer white space and the kind of line ends do not count, and an empty text is
    /// none.
    pub fn text_digest(role: Role, text: &str) -> Digest {
        let role = role.as_str().as_bytes();
        match text.trim() {
            "" => Digest::of_fields([role]),
            text => Digest::of_fields([role, b"text", text.replace("\r\n", "\n").as_bytes()]),
        }
    }

    /// What was shown of an answer before it was cut off.
    pub fn partial_text(text: &str) -> Self {
        let payload = serde_json::json!({ "role": Role::Assistant.as_str(), "content": text }).to_string();
        Self {
            role: Role::Assistant,
            status: MessageStatus::Partial,
            extra: None,
            digest: Self::text_digest(Role::Assistant, text),
            calls: Arc::from([]),
            tokens: crate::tokens::estimate(&payload),
            payload: Payload::from_json(payload),
        }
    }
}

/// A message that is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its id, for ever.
    pub id: MessageId,
    /// What was said.
    pub said: Utterance,
}

/// A message of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id, for ever.
    pub id: MessageId,
    /// Where it stands in the full view.
    pub seq: Seq,
    /// The session it was written in.
    pub session: SessionId,
    /// The turn that wrote it.
    pub turn: TurnId,
    /// Which attempt of that turn.
    pub attempt: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// What was said.
    pub said: Utterance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_borders_change_the_digest() {
        let one = Digest::of_fields([b"ab".as_slice(), b"c"]);
        let other = Digest::of_fields([b"a".as_slice(), b"bc"]);
        assert_ne!(one, other);
        assert_eq!(one, Digest::of_fields([b"ab".as_slice(), b"c"]));
    }
}
