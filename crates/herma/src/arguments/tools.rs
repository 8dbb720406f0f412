//! The command line of `herma tools`.

use clap::{Args, Subcommand};
use herma_gateway::access::DEFAULT_TENANT;
use herma_model::SessionKey;

use super::tenant;

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Start the configured MCP servers and list their tools
    #[command(after_help = LIST_HELP)]
    List(ToolsListFlags),
    /// Call a tool once, without a model
    #[command(after_help = CALL_HELP)]
    Call(ToolsCallFlags),
    /// List the tools that people allowed for longer than one call
    #[command(after_help = GRANTS_HELP)]
    Grants(GrantsFlags),
    /// Have people asked again about a tool, or about all tools of a server
    #[command(after_help = REVOKE_HELP)]
    Revoke(RevokeToolFlags),
}

pub(super) const TOOLS_HELP: &str = "\
Examples:
  herma tools list
  herma tools call files__read_file '{\"path\":\"notes.txt\"}'

Servers are configured in herma.toml, for example:
  [tools.mcp.files]
  command = \"npx\"
  args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \".\"]";

const LIST_HELP: &str = "\
Examples:
  herma tools list
  herma tools list --tenant web --session-key agent:main   what turns of that tenant and key are offered
  herma tools list --json | jq -r '.[].name'

Waits up to 10 seconds for servers that start. APPROVAL: auto tools are called, ask needs a person's consent, deny \
is never offered.";

/// Whose turns are meant.
#[derive(Args)]
pub(crate) struct AudienceFlags {
    /// Tenant whose turns are meant
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
    /// Session key of those turns [default: none]
    #[arg(long, value_name = "KEY", value_parser = |text: &str| SessionKey::parse(text))]
    pub(crate) session_key: Option<SessionKey>,
}

/// Flags of `tools list`.
#[derive(Args)]
pub(crate) struct ToolsListFlags {
    #[command(flatten)]
    pub(crate) audience: AudienceFlags,
    /// Print JSON in place of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const CALL_HELP: &str = "\
Examples:
  herma tools call files__list_directory '{\"path\":\".\"}'
  herma tools call clock__now                        without arguments

The result is on stdout. Exit code 1 if the tool says that it failed. You make the call yourself, so nobody is asked \
for approval; tools that the configuration denies are refused.";

/// Flags of `tools call`.
#[derive(Args)]
pub(crate) struct ToolsCallFlags {
    /// Tool, by the name that `herma tools list` shows
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Arguments, as a JSON object
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    pub(crate) arguments: String,
    #[command(flatten)]
    pub(crate) audience: AudienceFlags,
}

const GRANTS_HELP: &str = "\
Examples:
  herma tools grants
  herma tools grants --tenant web --json

`always` holds for every conversation of the tenant, `session` for one conversation.";

/// Flags of `tools grants`.
#[derive(Args)]
pub(crate) struct GrantsFlags {
    /// Only this tenant [default: all]
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: Option<String>,
    /// Print JSON in place of a table
    #[arg(long)]
    pub(crate) json: bool,
}

const REVOKE_HELP: &str = "\
Examples:
  herma tools revoke files.write_file        as `herma tools grants` shows it; files__write_file too
  herma tools revoke files                   every tool of the server

The next call of the tool asks again.";

/// Flags of `tools revoke`.
#[derive(Args)]
pub(crate) struct RevokeToolFlags {
    /// Tool, or a server's label for all its tools
    #[arg(value_name = "NAME|SERVER")]
    pub(crate) name: String,
    /// Tenant whose people allowed it
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
}
