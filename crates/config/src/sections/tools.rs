//! `[tools]`: tools that Herma runs itself, and `[tools.delegate]`: work that is handed to helpers.
//!
//! MCP servers, `[tools.mcp.NAME]`, are in [`super::mcp`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::mcp::McpServer;
use crate::page::{Page, integer};
use crate::reading::given::{GivenValue, ValueError};
use crate::reading::section::Section;
use crate::reading::setting::{POSITIVE, Setting, words};
use crate::values::span::{self, FORMS_ABOVE_ZERO};

words!(
    /// A tool that needs no server.
    BuiltInTool: r#""delegate_task", "session_search", "session_read" or "memory""# {
        /// Runs tasks in conversations of their own.
        DelegateTask = "delegate_task",
        /// Searches earlier conversations.
        SessionSearch = "session_search",
        /// Reads an earlier conversation.
        SessionRead = "session_read",
        /// Works on what is remembered under the session key.
        Memory = "memory",
    }
);

impl Setting for Vec<BuiltInTool> {
    const ALLOWED: &'static str = r#"a list of "delegate_task", "session_search", "session_read" and "memory""#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        given.list()?.into_iter().map(|name| BuiltInTool::read(&GivenValue::Text(name.to_owned()))).collect()
    }
}

/// Tools that Herma runs itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsConfig {
    /// Most model calls in one turn.
    pub max_rounds: u32,
    /// Built-in tools that are offered, each once.
    pub builtin: Vec<BuiltInTool>,
    /// Most characters of one result that the model sees.
    pub max_output: usize,
    /// How long a person has to answer whether a call may be made.
    pub approval_timeout: Duration,
    /// How long one call may take if its server sets no time of its own.
    pub timeout: Duration,
    /// What holds for delegated work.
    pub delegate: DelegateConfig,
    /// MCP servers by label.
    pub mcp: BTreeMap<String, McpServer>,
}

/// What holds for delegated work, `[tools.delegate]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegateConfig {
    /// How deep work may be delegated. 1: children cannot delegate.
    pub max_depth: u32,
    /// Most children of one turn.
    pub max_children: u32,
    /// Most model calls of one child.
    pub max_rounds: u32,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            max_rounds: 32,
            builtin: Vec::new(),
            max_output: 50_000,
            approval_timeout: Duration::from_secs(600),
            timeout: Duration::from_secs(60),
            delegate: DelegateConfig { max_depth: 1, max_children: 8, max_rounds: 10 },
            mcp: BTreeMap::new(),
        }
    }
}

impl ToolsConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        let default = Self::default();
        let max_rounds = section.read_where("max_rounds", POSITIVE, |rounds| *rounds > 0);
        let mut builtin: Vec<BuiltInTool> = Vec::new();
        for tool in section.or("builtin", default.builtin) {
            if !builtin.contains(&tool) {
                builtin.push(tool);
            }
        }
        let max_output = section.read_where("max_output", POSITIVE, |characters| *characters > 0);
        let approval_timeout = above_zero(section, "approval_timeout");
        let timeout = above_zero(section, "timeout").unwrap_or(default.timeout);
        Self {
            max_rounds: max_rounds.unwrap_or(default.max_rounds),
            builtin,
            max_output: max_output.unwrap_or(default.max_output),
            approval_timeout: approval_timeout.unwrap_or(default.approval_timeout),
            timeout,
            delegate: section.within("delegate", |section| DelegateConfig::read(section, default.delegate)),
            mcp: section.within("mcp", |mcp| {
                let servers = mcp.names().into_iter().filter_map(|label| {
                    let server = McpServer::read(&label, mcp, timeout)?;
                    Some((label, server))
                });
                servers.collect()
            }),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["tools"], "Tools that Herma runs itself. MCP servers: [tools.mcp.NAME] with command or url.");
        page.set("max_rounds", self.max_rounds, "Most model calls in one turn.");
        page.set(
            "builtin",
            self.builtin.iter().map(|tool| tool.as_str()).collect::<Vec<_>>(),
            "Tools that need no server: of delegate_task, session_search, session_read, memory.",
        );
        page.set("max_output", integer(self.max_output), "Most characters of one result that the model sees.");
        page.set(
            "approval_timeout",
            span::text(self.approval_timeout),
            "How long a person has to answer whether a call may be made. Then it is denied.",
        );
        page.set("timeout", span::text(self.timeout), "How long one call may take, unless its server says otherwise.");
        self.delegate.write(page);
        for (label, server) in &self.mcp {
            server.write(label, page, self.timeout);
        }
        McpServer::write_example(page, self.timeout);
    }
}

impl DelegateConfig {
    fn read(section: &mut Section, default: Self) -> Self {
        let max_children = section.read_where("max_children", POSITIVE, |children| *children > 0);
        let max_rounds = section.read_where("max_rounds", POSITIVE, |rounds| *rounds > 0);
        Self {
            max_depth: section.or("max_depth", default.max_depth),
            max_children: max_children.unwrap_or(default.max_children),
            max_rounds: max_rounds.unwrap_or(default.max_rounds),
        }
    }

    fn write(&self, page: &mut Page) {
        page.heading(&["tools", "delegate"], "Work that is handed to helpers with delegate_task.");
        page.set("max_depth", self.max_depth, "How deep work may be delegated. 1: helpers cannot delegate.");
        page.set("max_children", self.max_children, "Most helpers of one turn.");
        page.set("max_rounds", self.max_rounds, "Most model calls of one helper.");
    }
}

/// Reads a duration that must not be zero.
pub(super) fn above_zero(section: &mut Section, key: &str) -> Option<Duration> {
    section.read_where(key, FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero())
}
