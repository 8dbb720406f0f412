//! Facts in long-term memory as JSON, and the bodies of requests that add and change them.

use herma_model::limits::MAX_MEMORY;
use herma_model::{Memory, MemoryId};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::compact_request::{read, refuse_unknown_fields};
use super::rfc3339;
use crate::bad_request::{BadRequest, Flaw};
use crate::json::Object;

/// A fact as a row.
pub struct MemoryRow<'a>(pub &'a Memory);

impl Serialize for MemoryRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(memory) = self;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("id", &memory.id)?;
        row.serialize_entry("object", "memory")?;
        row.serialize_entry("text", &*memory.text)?;
        row.serialize_entry("session_key", &memory.session_key)?;
        row.serialize_entry("source", memory.source.as_str())?;
        if let Some(conversation) = memory.conversation {
            row.serialize_entry("conversation_id", &conversation)?;
        }
        row.serialize_entry("created_at", &rfc3339(memory.created_at))?;
        row.end()
    }
}

/// The answer to the deletion of one fact, or of all facts of a key.
#[derive(Debug, Serialize)]
#[serde(tag = "object")]
pub enum ForgottenMemory {
    /// One fact.
    #[serde(rename = "memory.deleted")]
    One {
        /// Its id.
        id: MemoryId,
        /// Always true.
        deleted: bool,
    },
    /// All facts of a session key.
    #[serde(rename = "memories.deleted")]
    All {
        /// How many there were.
        deleted: u64,
    },
}

/// The body of `POST /api/memories`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateMemory {
    /// What is to be remembered.
    pub text: String,
    /// The session key. Not validated here.
    pub session_key: Option<String>,
}

impl CreateMemory {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let asked = read(body, |mut body| {
            let text = required_text(&mut body)?;
            let session_key = body.take_text("session_key")?.filter(|key| !key.is_empty()).map(String::from);
            refuse_unknown_fields(&body, "text and session_key")?;
            Ok(Some(Self { text, session_key }))
        })?;
        Ok(asked.ok_or_else(without_text)?)
    }
}

/// The body of `PATCH /api/memories/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeMemory {
    /// What is to be remembered instead.
    pub text: String,
}

impl ChangeMemory {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let asked = read(body, |mut body| {
            let text = required_text(&mut body)?;
            refuse_unknown_fields(&body, "text")?;
            Ok(Some(Self { text }))
        })?;
        Ok(asked.ok_or_else(without_text)?)
    }
}

fn without_text() -> Flaw {
    Flaw::at("text", "is required")
}

fn required_text(body: &mut Object<'_>) -> Result<String, Flaw> {
    let text = body.take_text("text")?.ok_or_else(without_text)?;
    memory_text(&text).map_err(|why| Flaw::at("text", why))
}

/// Checks the text of a fact and trims it. The error continues a sentence after the field's name: "must not be empty".
pub fn memory_text(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err("must not be empty".to_owned()),
        1..=MAX_MEMORY => Ok(text.to_owned()),
        _ => Err(format!("must not be longer than {MAX_MEMORY} characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_fields_are_refused_by_name() {
        let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(MAX_MEMORY + 1));
        for (body, param) in [
            ("", "text"),
            ("{}", "text"),
            (r#"{"text":" "}"#, "text"),
            (r#"{"text":1}"#, "text"),
            (long.as_str(), "text"),
            (r#"{"text":"a","session_key":1}"#, "session_key"),
            (r#"{"text":"a","key":"k"}"#, "key"),
        ] {
            let flaw = CreateMemory::parse(body.as_bytes()).expect_err(body);
            assert_eq!(flaw.param.as_deref(), Some(param), "{body}");
        }
        let asked = CreateMemory::parse(br#"{"text":" tea ","session_key":"ann"}"#).unwrap();
        assert_eq!((asked.text.as_str(), asked.session_key.as_deref()), ("tea", Some("ann")));
        assert!(ChangeMemory::parse(br#"{"text":"a","session_key":"ann"}"#).is_err(), "a fact keeps its key");
    }
}
