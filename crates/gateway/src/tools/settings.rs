//! What an operator can set about tools that Herma runs.

use std::time::Duration;

use herma_model::tool::BUILT_IN;
use herma_tools::ServerSettings;

use super::built_in::BuiltIn;

/// What an operator can set about tools that Herma runs.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    /// The MCP servers.
    pub servers: Vec<ServerSettings>,
    /// Built-in tools that are offered.
    pub built_in: Vec<BuiltIn>,
    /// Most model calls of one turn.
    pub max_rounds: u32,
    /// Most characters of a result that the model sees.
    pub max_output: usize,
    /// How long a person has to answer whether a call may be made.
    pub approval_timeout: Duration,
    /// What holds for delegated work.
    pub delegate: DelegateSettings,
}

/// What holds for delegated work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegateSettings {
    /// How deep work may be delegated. 1: children cannot delegate.
    pub max_depth: u32,
    /// Most children of one turn.
    pub max_children: u32,
    /// Most model calls of one child.
    pub max_rounds: u32,
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            built_in: Vec::new(),
            max_rounds: 32,
            max_output: 50_000,
            approval_timeout: Duration::from_secs(600),
            delegate: DelegateSettings { max_depth: 1, max_children: 8, max_rounds: 10 },
        }
    }
}

impl ToolSettings {
    /// The labels of all servers. Built-in tools have one, too.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let built_in = (!self.built_in.is_empty()).then_some(BUILT_IN);
        self.servers.iter().map(|server| server.label.as_str()).chain(built_in)
    }

    /// Whether no turn is ever offered anything.
    pub fn offer_nothing(&self) -> bool {
        self.servers.is_empty() && self.built_in.is_empty()
    }
}
