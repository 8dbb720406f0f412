//! `[tools]`: tools that Herma calls itself, and the MCP servers that offer them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::ConfigError;
use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;
use crate::values::http_url::HttpUrl;
use crate::values::secret::Secret;
use crate::values::span::{self, FORMS_ABOVE_ZERO};

/// How one MCP server, `[tools.mcp.NAME]`, is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServer {
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

/// Tools that Herma calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsConfig {
    /// How long one call may take.
    pub timeout: Duration,
    /// Most times in one turn that the model may ask for tools and be answered.
    pub max_rounds: u32,
    /// MCP servers by name.
    pub mcp: BTreeMap<String, McpServer>,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), max_rounds: 32, mcp: BTreeMap::new() }
    }
}

impl ToolsConfig {
    pub(crate) fn read(section: &mut Section) -> Result<Self, ConfigError> {
        let default = Self::default();
        Ok(Self {
            timeout: section
                .read_where("timeout", FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero())?
                .unwrap_or(default.timeout),
            max_rounds: section.read_where("max_rounds", POSITIVE, |rounds| *rounds > 0)?.unwrap_or(default.max_rounds),
            mcp: section.within("mcp", |mcp| {
                mcp.names()
                    .into_iter()
                    .map(|name| {
                        let server = mcp.within(&name, |server| McpServer::read(&name, server))?;
                        Ok((name, server))
                    })
                    .collect()
            })?,
        })
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["tools"], "Tools that Herma calls itself. MCP servers: [tools.mcp.NAME] with command or url.");
        page.set("timeout", span::text(self.timeout), "How long one call may take.");
        page.set("max_rounds", self.max_rounds, "Most times in one turn that the model may ask for tools.");
        for (name, server) in &self.mcp {
            server.write(name, page);
        }
    }
}

impl McpServer {
    fn read(name: &str, section: &mut Section) -> Result<Self, ConfigError> {
        let command = section.read::<String>("command")?;
        let args = section.read::<Vec<String>>("args")?;
        let env = section.within("env", secrets)?;
        let url = section.read::<HttpUrl>("url")?;
        let headers = section.within("headers", secrets)?;
        match (command, url) {
            (Some(command), None) if headers.is_empty() => {
                Ok(Self::Command { command, args: args.unwrap_or_default(), env })
            }
            (None, Some(url)) if args.is_none() && env.is_empty() => Ok(Self::Url { url, headers }),
            _ => Err(ConfigError::Conflict(format!(
                "[tools.mcp.{name}] needs either `command`, with `args` and `env` if you like, or `url`, with `headers` \
                 if you like"
            ))),
        }
    }

    fn write(&self, name: &str, page: &mut Page) {
        page.heading(&["tools", "mcp", name], "An MCP server. Values of env and headers are not shown here.");
        match self {
            Self::Command { command, args, env } => {
                page.set("command", command.as_str(), "The program that is started.");
                page.set("args", args.clone(), "Its arguments.");
                page.secrets("env", env.keys());
            }
            Self::Url { url, headers } => {
                page.set("url", url.as_str(), "Its address.");
                page.secrets("headers", headers.keys());
            }
        }
    }
}

/// A table of names chosen by the operator, whose values may be secrets.
fn secrets(section: &mut Section) -> Result<BTreeMap<String, Secret>, ConfigError> {
    let mut secrets = BTreeMap::new();
    for name in section.names() {
        if let Some(secret) = section.read(&name)? {
            secrets.insert(name, secret);
        }
    }
    Ok(secrets)
}
