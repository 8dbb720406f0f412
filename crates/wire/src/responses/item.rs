//! Items, as they stand in a response's output and in lists.

use serde::Serialize;
use serde_json::Value;

use crate::json::Writer;

/// Whether all of an item is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// More may come.
    InProgress,
    /// Whole.
    Completed,
    /// Its response ended before it did.
    Incomplete,
}

/// A part of an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// A text that a model said.
    OutputText {
        /// The text.
        text: String,
        /// Always empty: no model server's annotations are of this form.
        annotations: [(); 0],
        /// Log probabilities, if the model server gave any.
        logprobs: Vec<Value>,
    },
    /// What a model said instead of an answer.
    Refusal {
        /// The text.
        refusal: String,
    },
    /// What is shown of a model's reasoning.
    SummaryText {
        /// The text.
        text: String,
    },
    /// A text that somebody said to a model.
    InputText {
        /// The text.
        text: String,
    },
    /// An image that a model was shown.
    InputImage {
        /// Its address.
        image_url: String,
        /// How closely to look.
        detail: String,
    },
    /// Any other part, whole.
    #[serde(untagged)]
    Other(Value),
}

impl Part {
    pub(super) fn output_text(text: impl Into<String>) -> Self {
        Self::OutputText { text: text.into(), annotations: [], logprobs: Vec::new() }
    }
}

/// One item.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// A message.
    Message {
        /// Its id.
        id: String,
        /// Whether all of it is there.
        status: ItemStatus,
        /// Who said it.
        role: &'static str,
        /// What it says.
        content: Vec<Part>,
        /// What a client said of an assistant's message: that it is commentary, or the final answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// What is shown of a model's reasoning.
    Reasoning {
        /// Its id.
        id: String,
        /// Whether all of it is there.
        status: ItemStatus,
        /// The text, as one part.
        summary: Vec<Part>,
    },
    /// A call of a client's function.
    FunctionCall {
        /// Its id as an item.
        id: String,
        /// Whether all of it is there.
        status: ItemStatus,
        /// The id that its result must name.
        call_id: String,
        /// The function.
        name: String,
        /// The arguments, JSON text as the model wrote it.
        arguments: String,
    },
    /// The result of a call.
    FunctionCallOutput {
        /// Its id.
        id: String,
        /// Whether all of it is there.
        status: ItemStatus,
        /// The call it answers.
        call_id: String,
        /// A text or parts.
        output: Value,
    },
    /// The place where the context was compacted.
    Compaction {
        /// Its id, that of the ledger's row.
        id: String,
        /// Whether all of it is there.
        status: ItemStatus,
        /// Opaque to clients.
        encrypted_content: String,
    },
}

impl Item {
    /// The item's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Message { id, .. }
            | Self::Reasoning { id, .. }
            | Self::FunctionCall { id, .. }
            | Self::FunctionCallOutput { id, .. }
            | Self::Compaction { id, .. } => id,
        }
    }

    /// The item as JSON.
    pub fn to_json(&self) -> String {
        let mut writer = Writer::with_capacity(256);
        writer.value(self);
        writer.into_text()
    }

    pub(super) fn set_status(&mut self, new: ItemStatus) {
        match self {
            Self::Message { status, .. }
            | Self::Reasoning { status, .. }
            | Self::FunctionCall { status, .. }
            | Self::FunctionCallOutput { status, .. }
            | Self::Compaction { status, .. } => *status = new,
        }
    }
}

/// A page of items, as `input_items` and the items of a conversation are listed.
pub fn item_list(items: &[Item], has_more: bool) -> Vec<u8> {
    let mut writer = Writer::with_capacity(256 * (items.len() + 1));
    writer.open_object();
    writer.field("object", "list");
    writer.field("data", items);
    writer.field("first_id", &items.first().map(Item::id));
    writer.field("last_id", &items.last().map(Item::id));
    writer.field("has_more", &has_more);
    writer.close_object();
    writer.into_bytes(b"")
}
