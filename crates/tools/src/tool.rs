//! A tool as the model is offered it, and how a call of it can end.

use std::sync::Arc;

use crate::settings::Approval;

/// A tool as the model is offered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The name that the model sees: `LABEL__tool`.
    pub name: Arc<str>,
    /// The label of its server.
    pub server: Arc<str>,
    /// The server's own name for it.
    pub tool: Arc<str>,
    /// What it does, in the server's words. May be empty.
    pub description: Arc<str>,
    /// What it takes: a JSON schema, as the text of a JSON object.
    pub input_schema: Arc<str>,
    /// Whether the server says that it changes nothing.
    pub read_only: bool,
    /// Whether a call has to be asked for.
    pub approval: Approval,
}

/// What is listed of a server: one of its tools, or that it has none to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRow {
    /// The server's label.
    pub server: Arc<str>,
    /// A tool; `None` in the only row of a server that shows no tools.
    pub tool: Option<Arc<Tool>>,
    /// The server's status.
    pub status: Status,
}

/// Where a server is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It answers.
    Ready,
    /// It has been started and has not answered yet.
    Starting,
    /// It could not be started: why, and what to do. It is tried again later.
    Failed(String),
    /// It has not been started, or it ended. The next turn that may use it starts it.
    Idle,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// What the tool answered.
    Result {
        /// The answer as text.
        text: String,
        /// Whether the answer says that the call failed.
        is_error: bool,
    },
    /// The call was certainly not carried out: why.
    NotMade(String),
    /// The call was sent and no usable answer came, so that it may have been carried out: why.
    Uncertain(String),
}
