//! A session, as `GET /api/sessions` lists it.

use herma_model::{ConversationFacts, Cost, EndReason, Provenance, SessionFacts, Timestamp, Usage};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::rfc3339;
use super::usage::ResourceUsage;

/// One row: a conversation at its head, or one of its sessions. Every field but `name`, `cwd`, `cost` and
/// `parent_tool_call_id` is always present. An unknown value is null.
#[derive(Debug, Clone)]
pub struct SessionRow<'a> {
    /// The conversation.
    pub conversation: &'a ConversationFacts,
    /// The session the row is about.
    pub session: &'a SessionFacts,
    /// Its title.
    pub title: Option<&'a str>,
    /// Where it was started from.
    pub source: Option<&'a str>,
    /// The client's metadata, a JSON object. `None` means `{}`.
    pub metadata: Option<&'a RawValue>,
    /// The directory that its person works in, if an editor said so.
    pub cwd: Option<&'a str>,
    /// Whether it was archived.
    pub archived: bool,
    /// When it began.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it ended.
    pub end_reason: Option<EndReason>,
    /// Messages in its full view.
    pub message_count: u64,
    /// Turns so far.
    pub turn_count: u64,
    /// Tokens so far.
    pub usage: Usage,
    /// Tokens of the conversation and of everything below it.
    pub usage_tree: Usage,
    /// What all of that cost, if its models have prices.
    pub cost: Option<Cost>,
    /// The tool call that made the conversation, if it is delegated work.
    pub parent_tool_call_id: Option<&'a str>,
}

impl Serialize for SessionRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("id", &self.session.id)?;
        row.serialize_entry("object", "session")?;
        row.serialize_entry("conversation_id", &self.conversation.id)?;
        if let Some(name) = self.conversation.name() {
            row.serialize_entry("name", name)?;
        }
        row.serialize_entry("title", &self.title)?;
        row.serialize_entry("kind", &self.session.kind)?;
        row.serialize_entry("origin_kind", &self.conversation.origin_kind)?;
        row.serialize_entry("session_key", &self.conversation.session_key.as_ref().map(|key| key.as_str()))?;
        row.serialize_entry("source", &self.source)?;
        match self.metadata {
            Some(metadata) => row.serialize_entry("metadata", metadata)?,
            None => row.serialize_entry("metadata", &serde_json::Map::new())?,
        }
        if let Some(cwd) = self.cwd {
            row.serialize_entry("cwd", cwd)?;
        }
        row.serialize_entry("archived", &self.archived)?;
        row.serialize_entry("parent_session_id", &self.session.parent.as_ref().map(|(parent, _)| parent))?;
        row.serialize_entry("created_at", &rfc3339(self.created_at))?;
        row.serialize_entry("updated_at", &rfc3339(self.updated_at))?;
        row.serialize_entry("ended_at", &self.ended_at.map(rfc3339))?;
        row.serialize_entry("end_reason", &self.end_reason)?;
        row.serialize_entry("message_count", &self.message_count)?;
        row.serialize_entry("turn_count", &self.turn_count)?;
        row.serialize_entry("usage", &ResourceUsage::from(self.usage))?;
        row.serialize_entry("usage_tree", &ResourceUsage::from(self.usage_tree))?;
        if let Some(cost) = self.cost {
            row.serialize_entry("cost", &cost.units())?;
        }
        if let Some(call) = self.parent_tool_call_id {
            row.serialize_entry("parent_tool_call_id", call)?;
        }
        row.serialize_entry("provenance", &Provenance::of(self.conversation, self.session))?;
        row.end()
    }
}

/// Stored metadata, for a row. `None` if the text is not JSON.
pub fn metadata(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}
