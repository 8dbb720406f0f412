//! Tools that Herma runs: rounds inside one turn, over HTTP, with a real MCP server behind the gateway.

mod approvals;
mod delegation;
mod failing_servers;
mod over_tls;
mod rounds;

use herma_testkit::{McpServer, Reply, ToolCall};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::TestGateway;

/// A gateway with a tool server, and what keeps both alive.
struct ToolGateway {
    gateway: TestGateway,
    _server: McpServer,
    _directory: TempDir,
}

impl std::ops::Deref for ToolGateway {
    type Target = TestGateway;

    fn deref(&self) -> &TestGateway {
        &self.gateway
    }
}

impl ToolGateway {
    /// Every tool of the server is called without a question.
    async fn start() -> Self {
        Self::with("", "approval = \"auto\"").await
    }

    /// `tools` stands in `[tools]`, `server` in `[tools.mcp.test]`.
    async fn with(tools: &str, server: &str) -> Self {
        Self::with_sections(tools, server, "").await
    }

    /// The same, with more sections of the configuration.
    async fn with_sections(tools: &str, server: &str, sections: &str) -> Self {
        let (mcp, directory) = (McpServer::stdio(), tempfile::tempdir().unwrap());
        let args: Vec<String> = mcp.args().iter().map(|arg| format!("{arg:?}")).collect();
        let (command, args) = (mcp.command(), args.join(", "));
        let count = directory.path().join("count").display().to_string();
        let text = format!(
            "[tools]\n{tools}\n[tools.mcp.test]\ncommand = {command:?}\nargs = [{args}]\n{server}\n\
             env = {{ COUNT_FILE = {count:?} }}\n{sections}\n"
        );
        let config = directory.path().join("herma.toml");
        std::fs::write(&config, text).unwrap();
        let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", &config.display().to_string())]).await;
        Self { gateway, _server: mcp, _directory: directory }
    }

    /// How often the tool `count` was called.
    fn executions(&self) -> usize {
        std::fs::read_to_string(self._directory.path().join("count")).map_or(0, |text| text.lines().count())
    }

    /// The model calls these tools next.
    fn calls(&self, calls: &[(&str, &str)]) {
        let calls = calls.iter().enumerate();
        let calls = calls.map(|(nth, (name, arguments))| ToolCall::new(&format!("call_{nth}"), name, *arguments));
        self.upstream.push(Reply::tool_calls(calls));
    }

    /// Names of the tools that the model was offered last.
    fn offered(&self) -> Vec<String> {
        let request = self.upstream.last_request();
        let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Rows of a transcript as `role: text`.
fn lines(rows: &[Value]) -> Vec<String> {
    let line = |row: &Value| format!("{}: {}", row["role"].as_str().unwrap(), row["content"].as_str().unwrap_or("-"));
    rows.iter().map(line).collect()
}
