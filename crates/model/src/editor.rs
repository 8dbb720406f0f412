//! What an editor has chosen for a conversation.

use std::sync::Arc;

use crate::kind::stored_enum;

stored_enum!(
    /// Which calls of Herma's own tools an editor's turns may make.
    ToolMode {
        /// A person is asked where a tool needs it.
        Ask = "ask",
        /// No call is asked about. What the operator denies stays denied.
        Auto = "auto",
        /// Only tools that are marked read-only are called.
        ReadOnly = "read_only",
    }
);

/// What an editor has chosen for a conversation. Branches and delegated conversations inherit it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditorSettings {
    /// The directory that the person works in.
    pub cwd: Option<Arc<str>>,
    /// Which tool calls may be made. `None` if none was chosen.
    pub mode: Option<ToolMode>,
    /// The model that answers. `None` for the default one.
    pub model: Option<Arc<str>>,
}
