//! Messages of a transcript. A message is written once and never copied. It changes only if a client deletes it or a
//! part of it.
//!
//! The [`Payload`] of a message is its canonical chat-completions JSON. The model server is sent exactly the stored
//! bytes, so that a provider's prompt cache keeps hitting.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::ids::{MessageId, SessionId, TurnId};
use crate::kind::stored_enum;
use crate::time::Timestamp;

stored_enum!(
    /// Who said a message of the transcript. System and developer messages are stored beside the transcript.
    Role {
        /// A person, or a program that speaks for a person.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The result of a tool call.
        Tool = "tool",
    }
);

stored_enum!(
    /// Whether a message is complete.
    MessageStatus {
        /// All of it is stored.
        Complete = "complete",
        /// The streamed output of an answer whose turn then failed or was cut off.
        Partial = "partial",
    }
);

/// The place of a message in the full view of its conversation. A continuation and a branch go on counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// The id of a tool call, as the model server chose it.
pub type CallId = Arc<str>;

/// A chat-completions message object as JSON text, in the form it is sent to a model server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Wraps JSON text that is known to be a message object.
    pub fn from_json(json: impl Into<Arc<str>>) -> Self {
        Self(json.into())
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The text of the message; `None` if it has none. Images and calls have no text.
    pub fn text(&self) -> Option<String> {
        let message: Value = serde_json::from_str(&self.0).ok()?;
        let text = match message.get("content")? {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
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

/// Identifies what a message says, independent of how a client formats it. Equal digests mean the same message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Digests a sequence of fields. Borders between fields count, so `["ab", "c"]` and `["a", "bc"]` differ.
    pub fn of_fields<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut digest = FieldDigest::default();
        fields.into_iter().for_each(|field| digest.add(field));
        digest.finish()
    }
}

/// A digest that is made field by field, as [`Digest::of_fields`] makes it.
#[derive(Clone, Default)]
pub struct FieldDigest(Sha256);

impl FieldDigest {
    /// Adds a field.
    pub fn add(&mut self, field: &[u8]) {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
    }

    /// The digest of the fields so far.
    pub fn finish(self) -> Digest {
        let full = self.0.finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        Digest(short)
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

/// What some models put around their thoughts.
const THOUGHTS: (&str, &str) = ("<think>", "</think>");

/// An answer without the `<think>` block that it begins with. Many clients take the block out before they send the
/// answer back. An answer that has nothing else stays as it is.
pub fn without_thoughts(trimmed: &str) -> &str {
    let Some(thoughts) = trimmed.strip_prefix(THOUGHTS.0) else { return trimmed };
    match thoughts.split_once(THOUGHTS.1).map(|(_, said)| said.trim_start()) {
        None | Some("") => trimmed,
        Some(said) => said,
    }
}

/// A message without its place in a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Utterance {
    /// Who said it.
    pub role: Role,
    /// Whether it is complete.
    pub status: MessageStatus,
    /// The message as model servers are sent it.
    pub payload: Payload,
    /// What clients are shown besides the payload, as a JSON object: reasoning, log probabilities and similar. What
    /// Herma notes about tool calls is there too; see [`crate::tool`].
    #[serde(default, with = "crate::text::optional_json", skip_serializing_if = "Option::is_none")]
    pub extra: Option<Arc<str>>,
    /// The digest of what it says.
    pub digest: Digest,
    /// The calls that an assistant message makes, or the one call that a tool message answers.
    #[serde(default, skip_serializing_if = "<[CallId]>::is_empty")]
    pub calls: Arc<[CallId]>,
    /// Its estimated tokens in a context.
    pub tokens: u32,
}

impl Utterance {
    /// Digest of a message that has only text. White space around the text and the kind of line ends do not count. An
    /// empty text counts as no text.
    pub fn text_digest(role: Role, text: &str) -> Digest {
        let said = if role == Role::Assistant { without_thoughts(text.trim()) } else { text.trim() };
        let role = role.as_str().as_bytes();
        match said {
            "" => Digest::of_fields([role]),
            text => Digest::of_fields([role, b"text", text.replace("\r\n", "\n").as_bytes()]),
        }
    }

    /// Whether it is an answer that begins with `<think>`.
    pub fn begins_with_thoughts(&self) -> bool {
        let text = self.payload.as_json().strip_prefix(r#"{"role":"assistant","content":""#);
        let begins =
            |text: &str| text.trim_start_matches(|c: char| c == ' ' || "\\nrt".contains(c)).starts_with(THOUGHTS.0);
        text.is_some_and(begins)
    }

    /// The same answer without the `<think>` block that it begins with. `None` if it begins with none.
    pub fn without_thoughts(&self) -> Option<Self> {
        if !self.begins_with_thoughts() {
            return None;
        }
        let mut message: Value = serde_json::from_str(self.payload.as_json()).ok()?;
        let text = message["content"].as_str()?.trim();
        let said = without_thoughts(text);
        if said == text {
            return None;
        }
        message["content"] = Value::String(said.to_owned());
        let payload = message.to_string();
        let tokens = crate::tokens::estimate(&payload);
        Some(Self { tokens, payload: Payload::from_json(payload), ..self.clone() })
    }

    /// The streamed text of an answer that was cut off.
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
    /// Its id. It never changes.
    pub id: MessageId,
    /// The message.
    pub said: Utterance,
}

/// A message of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id. It never changes.
    pub id: MessageId,
    /// Its place in the full view.
    pub seq: Seq,
    /// The session it was written in.
    pub session: SessionId,
    /// The turn that wrote it.
    pub turn: TurnId,
    /// The attempt of that turn.
    pub attempt: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// The message itself.
    pub said: Utterance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_a_message_are_its_text() {
        for (json, text) in [
            (r#"{"role":"assistant","content":"two"}"#, Some("two")),
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"image_url"},{"text":"b"}]}"#,
                Some("a\nb"),
            ),
            (r#"{"role":"assistant","content":null,"tool_calls":[]}"#, None),
            (r#"{"role":"assistant","content":""}"#, None),
        ] {
            assert_eq!(Payload::from_json(json).text().as_deref(), text, "{json}");
        }
    }

    #[test]
    fn field_borders_change_the_digest() {
        let one = Digest::of_fields([b"ab".as_slice(), b"c"]);
        let other = Digest::of_fields([b"a".as_slice(), b"bc"]);
        assert_ne!(one, other);
        assert_eq!(one, Digest::of_fields([b"ab".as_slice(), b"c"]));
    }
}
