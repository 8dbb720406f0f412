//! What is known before a request is read.

use super::input::KeptItems;

/// What happens to a client's tools that the model server cannot have, such as a web search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostedTools {
    /// They are left out, and the response does not repeat them.
    #[default]
    LeaveOut,
    /// The request is refused.
    Refuse,
    /// The model server gets them as they are.
    PassOn,
}

/// What a request is read with.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Stored items that the request refers to. [`super::references()`] says which these are.
    pub items: KeptItems,
    /// What happens to hosted tools.
    pub hosted: HostedTools,
    /// The labels of the servers whose tools Herma runs.
    pub servers: Vec<String>,
}

impl Known {
    /// Whether Herma runs the tools of the server with this label.
    pub(super) fn runs(&self, label: &str) -> bool {
        self.servers.iter().any(|server| server == label)
    }
}

impl From<KeptItems> for Known {
    fn from(items: KeptItems) -> Self {
        Self { items, ..Self::default() }
    }
}
