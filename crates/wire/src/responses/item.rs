//! Items, as a response's output and lists have them.

use herma_model::CallId;
use serde::Serialize;
use serde_json::Value;

use crate::json::Writer;

/// Whether an item is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// More may come.
    InProgress,
    /// It is complete.
    Completed,
    /// Its response ended before the item was complete.
    Incomplete,
    /// A call of one of Herma's own tools did not succeed.
    Failed,
}

/// A part of an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// A text from a model.
    OutputText {
        /// The text.
        text: String,
        /// Always empty: no model server's annotations have this form.
        annotations: [(); 0],
        /// Log probabilities, if the model server gave any.
        logprobs: Vec<Value>,
    },
    /// What a model said instead of an answer.
    Refusal {
        /// The text.
        refusal: String,
    },
    /// The visible part of a model's reasoning.
    SummaryText {
        /// The text.
        text: String,
    },
    /// A text that was sent to a model.
    InputText {
        /// The text.
        text: String,
    },
    /// An image that was sent to a model.
    InputImage {
        /// Its URL.
        image_url: String,
        /// How closely the model should look.
        detail: String,
    },
    /// Any other part, as it is.
    #[serde(untagged)]
    Other(Value),
}

impl Part {
    pub(super) fn output_text(text: impl Into<String>) -> Self {
        Self::OutputText { text: text.into(), annotations: [], logprobs: Vec::new() }
    }
}

/// Why a call of one of Herma's own tools has no answer, in the forms that OpenAI's SDKs know. Every form has a
/// `message`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum McpError {
    /// The tool answered that it failed.
    McpToolExecutionError {
        /// Its answer, as one text.
        content: [McpErrorText; 1],
        /// The same text.
        message: String,
    },
    /// The call was not allowed, could not be made, or its answer did not come.
    McpProtocolError {
        /// Always JSON-RPC's code for an error of the server.
        code: i32,
        /// What happened.
        message: String,
    },
}

/// A text of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename = "text")]
pub struct McpErrorText {
    /// The text.
    pub text: String,
}

/// One item.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// A message.
    Message {
        /// Its id.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The role of its author.
        role: &'static str,
        /// Its parts.
        content: Vec<Part>,
        /// The client's label of an assistant's message: commentary, or the final answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// The visible part of a model's reasoning.
    Reasoning {
        /// Its id.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The text, as one part.
        summary: Vec<Part>,
    },
    /// A call of a client's function.
    FunctionCall {
        /// Its id as an item.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The id that its result must name.
        call_id: String,
        /// The function.
        name: String,
        /// The namespace that the function is in.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The arguments, JSON text as the model wrote it.
        arguments: String,
    },
    /// A call of a client's custom tool.
    CustomToolCall {
        /// Its id as an item.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The id that its result must name.
        call_id: String,
        /// The tool.
        name: String,
        /// The namespace that the tool is in.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        /// The text for the tool.
        input: String,
    },
    /// The result of a call of a custom tool.
    CustomToolCallOutput {
        /// Its id.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The call it answers.
        call_id: String,
        /// A text or parts.
        output: Value,
    },
    /// The result of a call.
    FunctionCallOutput {
        /// Its id.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The call it answers.
        call_id: String,
        /// A text or parts.
        output: Value,
    },
    /// A call of one of Herma's own tools.
    McpCall {
        /// Its id.
        id: String,
        /// How far it is, or how it ended.
        status: ItemStatus,
        /// The label of the server that has the tool.
        server_label: String,
        /// The tool, by its server's own name.
        name: String,
        /// The arguments, JSON text as the model wrote it.
        arguments: String,
        /// What the tool answered.
        output: Option<String>,
        /// Why there is no answer.
        error: Option<McpError>,
    },
    /// The question whether a call of one of Herma's own tools may be made.
    McpApprovalRequest {
        /// Its id. The answer names it.
        id: String,
        /// Whether it is complete.
        status: ItemStatus,
        /// The label of the server that has the tool.
        server_label: String,
        /// The tool, by its server's own name.
        name: String,
        /// The arguments, JSON text as the model wrote it.
        arguments: String,
        /// The call that it asks about. Clients do not see it.
        #[serde(skip)]
        call: CallId,
    },
    /// The answer to such a question.
    McpApprovalResponse {
        /// Its id.
        id: String,
        /// The question.
        approval_request_id: String,
        /// Whether the call may be made.
        approve: bool,
    },
    /// The point at which the context was compacted.
    Compaction {
        /// The id of the ledger's row.
        id: String,
        /// Whether it is complete.
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
            | Self::CustomToolCall { id, .. }
            | Self::CustomToolCallOutput { id, .. }
            | Self::McpCall { id, .. }
            | Self::McpApprovalRequest { id, .. }
            | Self::McpApprovalResponse { id, .. }
            | Self::Compaction { id, .. } => id,
        }
    }

    /// Whether it is a call that the client has to carry out.
    pub(super) const fn is_clients_call(&self) -> bool {
        matches!(self, Self::FunctionCall { .. } | Self::CustomToolCall { .. })
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
            | Self::CustomToolCall { status, .. }
            | Self::CustomToolCallOutput { status, .. }
            | Self::McpCall { status, .. }
            | Self::McpApprovalRequest { status, .. }
            | Self::Compaction { status, .. } => *status = new,
            Self::McpApprovalResponse { .. } => {}
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
