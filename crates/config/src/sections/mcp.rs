//! `[tools.mcp.NAME]`: an MCP server, how it is reached, which of its tools are offered, and who may use it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::tools::above_zero;
use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::{Setting, words};
use crate::values::http_url::HttpUrl;
use crate::values::secret::Secret;
use crate::values::span;

/// The label of built-in tools. A server of this name would be taken for them.
const BUILT_IN: &str = "herma";
/// The `allowed` text for lists of names or patterns.
const NAMES: &str = "a list of texts that are not empty";

words!(
    /// Whether a tool may be called without asking.
    ToolApproval: r#""auto", "ask" or "deny""# {
        /// It is called.
        Auto = "auto",
        /// A person is asked first.
        Ask = "ask",
        /// It is neither offered nor called.
        Deny = "deny",
    }
);

/// One MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// How it is reached.
    pub transport: McpTransport,
    /// Names or patterns of the tools that are offered. Empty: all.
    pub allow: Vec<String>,
    /// Names or patterns of tools that are not offered. Wins over `allow`.
    pub deny: Vec<String>,
    /// The approval of tools that `approvals` does not name.
    pub approval: Option<ToolApproval>,
    /// The approval of single tools, by the server's name for them.
    pub approvals: BTreeMap<String, ToolApproval>,
    /// Names of the tenants whose turns may use it. Empty: all.
    pub tenants: Vec<String>,
    /// Patterns of the session keys whose turns may use it. Empty: all turns.
    pub session_keys: Vec<String>,
    /// How long one call may take.
    pub timeout: Duration,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that Herma starts and speaks to on its standard input and output.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables added to its environment.
        env: BTreeMap<String, Secret>,
    },
    /// A server that is already running.
    Url {
        /// Its address.
        url: HttpUrl,
        /// Headers sent with every request.
        headers: BTreeMap<String, Secret>,
    },
}

impl McpServer {
    /// Reads the server of this label. `timeout` holds if the server sets none. `None` if its table says neither how to
    /// start it nor where it is; that is noted in `servers`.
    pub(super) fn read(label: &str, servers: &mut Section, timeout: Duration) -> Option<Self> {
        if label.trim().is_empty() || label.chars().any(char::is_control) {
            let problem = format!("a server in [tools.mcp] is named {label:?}; give it a name that can be printed");
            servers.wrong_name(problem);
        }
        if label == BUILT_IN {
            let problem = format!("[tools.mcp.{label}] has the label of the built-in tools; give it another name");
            servers.wrong_name(problem);
        }
        servers.within(label, |section| {
            let allow = names(section, "allow");
            let deny = names(section, "deny");
            let approval = section.read("approval");
            let approvals = section.within("approvals", table);
            let tenants = names(section, "tenants");
            let session_keys = names(section, "session_keys");
            let timeout = above_zero(section, "timeout").unwrap_or(timeout);
            // Read last: without a transport there is no server, but the mistakes above must be noted.
            let transport = McpTransport::read(label, section)?;
            Some(Self { transport, allow, deny, approval, approvals, tenants, session_keys, timeout })
        })
    }

    /// A server without settings of its own.
    fn new(transport: McpTransport, timeout: Duration) -> Self {
        let [allow, deny, tenants, session_keys] = [const { Vec::new() }; 4];
        Self { transport, allow, deny, approval: None, approvals: BTreeMap::new(), tenants, session_keys, timeout }
    }

    /// Writes the server. `timeout` holds if it sets none.
    pub(super) fn write(&self, label: &str, page: &mut Page, timeout: Duration) {
        page.heading(&["tools", "mcp", label], "An MCP server. Values of env and headers are not shown here.");
        self.transport.write(page);
        self.write_limits(page, timeout);
    }

    /// Writes the settings of a server, for those who have none yet. `timeout` holds if it sets none.
    pub(super) fn write_example(page: &mut Page, timeout: Duration) {
        page.example(&["tools", "mcp", "NAME"], "An MCP server, by a name that you choose. It needs command or url.");
        let command = McpTransport::Command { command: "mcp-files".to_owned(), args: Vec::new(), env: BTreeMap::new() };
        command.write(page);
        page.unset("env", toml::Table::from_iter([("TOKEN".to_owned(), "…".into())]), "Variables of the server.");
        page.unset("url", "http://localhost:9000/mcp", "The address of a server that runs already, without command.");
        page.unset("headers", toml::Table::from_iter([("x-token".to_owned(), "…".into())]), "Headers of each request.");
        Self::new(command, timeout).write_limits(page, timeout);
    }

    fn write_limits(&self, page: &mut Page, timeout: Duration) {
        let none = || toml::Value::Array(Vec::new());
        page.own("allow", self.allow.clone(), none(), "Names or patterns of tools that are offered. Empty: all.");
        page.own(
            "deny",
            self.deny.clone(),
            none(),
            "Names or patterns of tools that are not offered. Wins over allow.",
        );
        page.maybe(
            "approval",
            self.approval.map(ToolApproval::as_str),
            "ask",
            "auto, ask or deny. Unset: auto for tools that the server marks as read-only, else ask.",
        );
        let approvals = self.approvals.iter().map(|(tool, approval)| (tool.clone(), approval.as_str().into()));
        let approvals: toml::Table = approvals.collect();
        page.own("approvals", approvals, toml::Table::new(), "The same for single tools.");
        page.own("tenants", self.tenants.clone(), none(), "Tenants whose turns may use it. Empty: all.");
        let keys = self.session_keys.clone();
        page.own("session_keys", keys, none(), "Patterns of session keys that may use it. Empty: all.");
        page.own("timeout", span::text(self.timeout), span::text(timeout), "How long one call may take.");
    }
}

impl McpTransport {
    fn read(label: &str, section: &mut Section) -> Option<Self> {
        let command = section.read::<String>("command");
        let args = section.read::<Vec<String>>("args");
        let env = section.within("env", table);
        let url = section.read::<HttpUrl>("url");
        let headers = section.within("headers", table);
        match (command, url) {
            (Some(command), None) if headers.is_empty() => {
                Some(Self::Command { command, args: args.unwrap_or_default(), env })
            }
            (None, Some(url)) if args.is_none() && env.is_empty() => Some(Self::Url { url, headers }),
            _ => {
                section.conflict(format!(
                    "[tools.mcp.{label}] needs either `command`, with `args` and `env` if you like, or `url`, with \
                     `headers` if you like"
                ));
                None
            }
        }
    }

    fn write(&self, page: &mut Page) {
        match self {
            Self::Command { command, args, env } => {
                page.set("command", command.as_str(), "The program that is started.");
                page.own("args", args.clone(), toml::Value::Array(Vec::new()), "Its arguments.");
                page.secrets("env", env.keys(), "Variables of the server. Their values are not shown here.");
            }
            Self::Url { url, headers } => {
                page.set("url", url.as_str(), "Its address.");
                page.secrets("headers", headers.keys(), "Headers of each request. Their values are not shown here.");
            }
        }
    }
}

fn names(section: &mut Section, key: &str) -> Vec<String> {
    let is_named = |names: &Vec<String>| names.iter().all(|name| !name.trim().is_empty());
    section.read_where(key, NAMES, is_named).unwrap_or_default()
}

/// A table whose names the operator chooses.
fn table<T: Setting>(section: &mut Section) -> BTreeMap<String, T> {
    let mut table = BTreeMap::new();
    for name in section.names() {
        if let Some(value) = section.read(&name) {
            table.insert(name, value);
        }
    }
    table
}
