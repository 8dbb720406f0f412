//! Answers about a context that no model has to answer: its size, or what it was compacted to.

use herma_model::{Timestamp, Usage};

use super::item::Item;
use super::object::ResponseUsage;
use crate::json::Writer;

/// The answer to `POST /v1/responses/input_tokens`.
pub fn input_tokens_json(tokens: u64) -> Vec<u8> {
    let mut writer = Writer::with_capacity(64);
    writer.open_object();
    writer.field("object", "response.input_tokens");
    writer.field("input_tokens", &tokens);
    writer.close_object();
    writer.into_bytes(b"")
}

/// The answer to `POST /v1/responses/compact`: the items that replace the context.
#[derive(Debug, Clone, Copy)]
pub struct CompactionObject<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it was made.
    pub created_at: Timestamp,
    /// The items that stand for the context from now on.
    pub output: &'a [Item],
    /// Tokens that the summary cost. `None` is shown as zeros.
    pub usage: Option<Usage>,
}

impl CompactionObject<'_> {
    /// The JSON body.
    pub fn to_json(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(1024);
        writer.open_object();
        writer.field("id", self.id);
        writer.field("object", "response.compaction");
        writer.field("created_at", &self.created_at.seconds());
        writer.field("output", self.output);
        writer.field("usage", &ResponseUsage::from(self.usage.unwrap_or_default()));
        writer.close_object();
        writer.into_bytes(b"")
    }
}
