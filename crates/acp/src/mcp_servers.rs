//! MCP servers that the editor names for a session, as settings of servers. They are never stored.

use std::path::Path;
use std::time::Duration;

use herma_tools::{ServerSettings, Transport};

use crate::error::bad_params;
use crate::schema::{Error, McpServer};

/// How long a server has to start. The first prompt waits for it as long.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Most servers of one session.
const MOST_SERVERS: usize = 64;
/// The label of a server without a name.
const UNNAMED: &str = "mcp";

/// The settings of servers. Commands are started in the session's directory.
pub(crate) fn settings(servers: Vec<McpServer>, cwd: &Path) -> Result<Vec<ServerSettings>, Error> {
    if servers.len() > MOST_SERVERS {
        return Err(bad_params(&format!("mcpServers has more than {MOST_SERVERS} servers")));
    }
    servers.into_iter().map(|server| of_server(server, cwd)).collect()
}

fn of_server(server: McpServer, cwd: &Path) -> Result<ServerSettings, Error> {
    let (name, transport) = match server {
        McpServer::Stdio(server) => {
            let command = server.command.into_os_string().into_string();
            let command = command.map_err(|_| bad_params("the command of an MCP server is not valid UTF-8"))?;
            let env = server.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
            (server.name, Transport::Command { command, args: server.args, env })
        }
        McpServer::Http(server) => {
            let headers = server.headers.into_iter().map(|header| (header.name, header.value)).collect();
            (server.name, Transport::Http { url: server.url, headers })
        }
        _ => return Err(bad_params("an MCP server has a transport that the agent does not speak")),
    };
    let label = if name.trim().is_empty() { UNNAMED.to_owned() } else { name };
    Ok(ServerSettings {
        start_limit: START_LIMIT,
        turns_wait: START_LIMIT,
        directory: Some(cwd.to_owned()),
        ..ServerSettings::new(label, transport)
    })
}
