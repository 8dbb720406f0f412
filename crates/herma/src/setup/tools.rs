//! Builds the settings of tools from the configuration.

use std::collections::BTreeMap;

use herma_config::{BuiltInTool, McpServer, McpTransport, Secret, ToolApproval, ToolsConfig};
use herma_gateway::{BuiltIn, DelegateSettings, ToolSettings};
use herma_tools::{Approval, ServerSettings, Transport};

/// The gateway's settings for tools that Herma runs.
pub(crate) fn tool_settings(config: &ToolsConfig) -> ToolSettings {
    ToolSettings {
        servers: servers(config),
        built_in: config.builtin.iter().copied().map(built_in).collect(),
        max_rounds: config.max_rounds,
        max_output: config.max_output,
        approval_timeout: config.approval_timeout,
        delegate: DelegateSettings {
            max_depth: config.delegate.max_depth,
            max_children: config.delegate.max_children,
            max_rounds: config.delegate.max_rounds,
        },
    }
}

/// The configured MCP servers, by label.
pub(crate) fn servers(config: &ToolsConfig) -> Vec<ServerSettings> {
    config.mcp.iter().map(|(label, server)| settings_of(label, server)).collect()
}

/// The tool of the gateway.
const fn built_in(tool: BuiltInTool) -> BuiltIn {
    match tool {
        BuiltInTool::DelegateTask => BuiltIn::DelegateTask,
        BuiltInTool::SessionSearch => BuiltIn::SessionSearch,
        BuiltInTool::SessionRead => BuiltIn::SessionRead,
        BuiltInTool::Memory => BuiltIn::Memory,
    }
}

fn settings_of(label: &str, server: &McpServer) -> ServerSettings {
    let transport = match &server.transport {
        McpTransport::Command { command, args, env } => {
            Transport::Command { command: command.clone(), args: args.clone(), env: exposed(env) }
        }
        McpTransport::Url { url, headers } => {
            Transport::Http { url: url.as_str().to_owned(), headers: exposed(headers) }
        }
    };
    ServerSettings {
        allow: server.allow.clone(),
        deny: server.deny.clone(),
        approval: server.approval.map(approval),
        approvals: server.approvals.iter().map(|(tool, word)| (tool.clone(), approval(*word))).collect(),
        tenants: server.tenants.clone(),
        session_keys: server.session_keys.clone(),
        timeout: server.timeout,
        ..ServerSettings::new(label, transport)
    }
}

/// Secrets by name, as text to send.
pub(super) fn exposed(secrets: &BTreeMap<String, Secret>) -> Vec<(String, String)> {
    secrets.iter().map(|(name, secret)| (name.clone(), secret.expose().to_owned())).collect()
}

fn approval(word: ToolApproval) -> Approval {
    match word {
        ToolApproval::Auto => Approval::Auto,
        ToolApproval::Ask => Approval::Ask,
        ToolApproval::Deny => Approval::Deny,
    }
}
