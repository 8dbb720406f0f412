//! A conversation, as `/v1/conversations` shows it.

use herma_model::{ConversationFacts, ConversationId, Provenance, Timestamp};

use crate::json::Writer;

/// Bytes reserved for one conversation.
const CAPACITY: usize = 512;

/// One conversation: OpenAI's fields, and after them Herma's own.
#[derive(Debug, Clone, Copy)]
pub struct ConversationObject<'a> {
    /// The conversation.
    pub conversation: &'a ConversationFacts,
    /// When it began.
    pub created_at: Timestamp,
    /// The client's metadata, a JSON object. `None` means `{}`.
    pub metadata: Option<&'a str>,
    /// Its title.
    pub title: Option<&'a str>,
}

impl ConversationObject<'_> {
    /// The JSON body.
    pub fn to_json(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(CAPACITY);
        self.write(&mut writer);
        writer.into_bytes(b"")
    }

    fn write(&self, writer: &mut Writer) {
        let head = &self.conversation.head;
        writer.open_object();
        writer.field("id", &self.conversation.id);
        writer.field("object", "conversation");
        writer.field("created_at", &self.created_at.seconds());
        writer.raw_field("metadata", self.metadata.unwrap_or("{}"));
        writer.field("title", &self.title);
        writer.field("session_id", &head.id);
        writer.field("provenance", &Provenance::of(self.conversation, head));
        writer.close_object();
    }
}

/// A page of conversations, in the same form as a list of items. `next_cursor` says where the next page begins.
pub fn conversation_list(conversations: &[ConversationObject<'_>], next_cursor: Option<&str>) -> Vec<u8> {
    let id = |object: Option<&ConversationObject<'_>>| object.map(|object| object.conversation.id);
    let mut writer = Writer::with_capacity(CAPACITY * (conversations.len() + 1));
    writer.open_object();
    writer.field("object", "list");
    writer.key("data");
    writer.open_array();
    conversations.iter().for_each(|object| object.write(&mut writer));
    writer.close_array();
    writer.field("first_id", &id(conversations.first()));
    writer.field("last_id", &id(conversations.last()));
    writer.field("has_more", &next_cursor.is_some());
    writer.field("next_cursor", &next_cursor);
    writer.close_object();
    writer.into_bytes(b"")
}

/// The answer to the deletion of a conversation.
pub fn deleted_json(id: ConversationId) -> Vec<u8> {
    let mut writer = Writer::with_capacity(128);
    writer.open_object();
    writer.field("id", &id);
    writer.field("object", "conversation.deleted");
    writer.field("deleted", &true);
    writer.close_object();
    writer.into_bytes(b"")
}
