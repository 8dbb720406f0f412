//! MCP servers over https: whose certificates are trusted, and what a turn does without a server that is not.

use herma_testkit::{McpServer, Reply, ToolCall};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::TestGateway;

/// A gateway with a server over https. It trusts the certificates in `trusted`, or those of the machine.
async fn start(server: &McpServer, trusted: Option<&str>) -> (TestGateway, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("herma.toml");
    let text = format!("[tools.mcp.far]\nurl = \"{}\"\napproval = \"auto\"\n", server.url());
    std::fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let mut settings = vec![("HERMA_CONFIG", config.as_str())];
    settings.extend(trusted.map(|file| ("SSL_CERT_FILE", file)));
    (TestGateway::with_settings(&settings).await, directory)
}

/// The rows of `GET /v1/tools`.
async fn rows(gateway: &TestGateway) -> Vec<Value> {
    gateway.client().get("/v1/tools").await.expect(200)["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_server_whose_authority_the_operator_trusts_is_used() {
    let server = McpServer::https().await;
    let (gateway, _directory) = start(&server, server.authority().to_str()).await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("a", "far__read_note", "{}")]));
    gateway.upstream.push(Reply::text("it says so"));
    gateway.say("trip", "read it").await.expect(200);
    assert_eq!(gateway.context()[2], "tool a: the note");
    assert!(rows(&gateway).await.iter().all(|row| row["status"] == "ready"));
}

#[tokio::test]
async fn a_server_whose_certificate_is_not_trusted_is_reported_and_stops_no_turn() {
    let server = McpServer::https().await;
    let (gateway, _directory) = start(&server, None).await;
    gateway.upstream.push(Reply::text("without it"));
    let body = gateway.say("trip", "read it").await.expect(200);
    assert_eq!(body["choices"][0]["message"]["content"], "without it");
    assert_eq!(gateway.upstream.last_request().body.get("tools"), None, "nothing is offered");
    let rows = rows(&gateway).await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &"failed".into()), "{rows:?}");
    let error = rows[0]["error"].as_str().unwrap();
    assert!(error.starts_with("The certificate of the MCP server `far` at https://127.0.0.1:"), "{error}");
    assert!(error.contains("is not trusted: invalid peer certificate: UnknownIssuer."), "{error}");
    assert!(error.contains("SSL_CERT_FILE"), "{error}");
    let log = gateway.herma.stderr();
    assert!(log.contains(error) && !log.contains("rmcp"), "the log says it once, in these words: {log}");
}
