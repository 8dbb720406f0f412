//! What is said about a context that nobody answers: its size, and what it was compacted to.

use herma_model::{Timestamp, Usage};

use super::item::Item;
use super::object::UsageJson;
use crate::json::Writer;

/// The body of `POST /v1/responses/input_tokens`.
pub fn input_tokens_json(tokens: u64) -> Vec<u8> {
    let mut writer = Writer::with_capacity(64);
    writer.open_object();
    writer.field("object", "response.input_tokens");
    writer.field("input_tokens", &tokens);
    writer.close_object();
    writer.into_bytes(b"")
}

/// The body of `POST /v1/responses/compact`: the items to go on with.
#[derive(Debug, Clone, Copy)]
pub struct CompactionObject<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it was made.
    pub created_at: Timestamp,
    /// What stands for the context from now on.
    pub output: &'a [Item],
    /// Tokens that the summary cost; none if nobody counted them.
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
        writer.field("usage", &UsageJson::from(self.usage.unwrap_or_default()));
        writer.close_object();
        writer.into_bytes(b"")
    }
}
