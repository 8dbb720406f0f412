//! A message of the transcript, as `GET /api/sessions/{alias}/messages` shows it.

use herma_model::{Message, TurnState};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::rfc3339;
use crate::chat::Extra;
use crate::json::Object;

/// Fields of the row that no payload may set.
const OWN: [&str; 10] =
    ["id", "object", "seq", "role", "status", "session_id", "turn_id", "turn_status", "created_at", "extra"];

/// One message: its own facts, the fields of its payload, and under `extra` what a model server added.
#[derive(Debug, Clone, Copy)]
pub struct MessageRow<'a> {
    message: &'a Message,
    /// How the message's turn ended, if it has no answer.
    unanswered: Option<TurnState>,
}

impl MessageRow<'_> {
    /// The same row, of a turn that ended without an answer.
    #[must_use]
    pub const fn unanswered(self, state: Option<TurnState>) -> Self {
        Self { unanswered: state, ..self }
    }
}

impl<'a> From<&'a Message> for MessageRow<'a> {
    fn from(message: &'a Message) -> Self {
        Self { message, unanswered: None }
    }
}

impl Serialize for MessageRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { message, unanswered } = self;
        let said = &message.said;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("id", &message.id)?;
        row.serialize_entry("object", "message")?;
        row.serialize_entry("seq", &message.seq.0)?;
        row.serialize_entry("role", &said.role)?;
        if let Ok(mut payload) = Object::from_text(said.payload.as_json()) {
            row.serialize_entry("content", &payload.take("content"))?;
            for (name, value) in payload.rest().filter(|(name, _)| !OWN.contains(name)) {
                row.serialize_entry(name, value)?;
            }
        }
        let extra = Extra::of(said).flattened();
        if !extra.is_empty() {
            row.serialize_entry("extra", &extra)?;
        }
        row.serialize_entry("status", &said.status)?;
        row.serialize_entry("session_id", &message.session)?;
        row.serialize_entry("turn_id", &message.turn)?;
        if let Some(state) = unanswered {
            row.serialize_entry("turn_status", state)?;
        }
        row.serialize_entry("created_at", &rfc3339(message.created_at))?;
        row.end()
    }
}
