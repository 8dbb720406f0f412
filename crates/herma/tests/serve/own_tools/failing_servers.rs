//! Servers that do not work, and servers whose tools have the same names: turns go on, and operators see why.

use herma_testkit::{McpServer, Reply, ToolCall};
use tempfile::TempDir;

use crate::support::{TestGateway, data};

/// A gateway with these servers.
async fn start(servers: &[(&str, &McpServer)]) -> (TestGateway, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let section = |(label, server): &(&str, &McpServer)| {
        let (command, args) = (server.command(), server.args());
        format!("[tools.mcp.{label:?}]\ncommand = {command:?}\nargs = {args:?}\napproval = \"auto\"\n")
    };
    let config = directory.path().join("herma.toml");
    std::fs::write(&config, servers.iter().map(section).collect::<String>()).unwrap();
    let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", &config.display().to_string())]).await;
    (gateway, directory)
}

#[tokio::test]
async fn a_server_that_never_starts_or_prints_garbage_is_reported_and_stops_no_turn() {
    let dead = McpServer::stdio().with(&["--mode", "exit"]);
    let babbling = McpServer::stdio().with(&["--mode", "garbage"]);
    let works = McpServer::stdio();
    let (gateway, _directory) = start(&[("babbling", &babbling), ("dead", &dead), ("works", &works)]).await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("a", "works__read_note", "{}")]));
    gateway.upstream.push(Reply::text("it says so"));
    assert_eq!(gateway.say("s", "read it").await.content(), "it says so");
    assert_eq!(gateway.context()[2], "tool a: the note");
    let began = std::time::Instant::now();
    let failed = loop {
        let rows = data(&gateway.client().get("/v1/tools").await);
        let failed: Vec<_> = rows.into_iter().filter(|row| row["status"] == "failed").collect();
        if failed.len() == 2 {
            break failed;
        }
        assert!(began.elapsed() < herma_testkit::PATIENCE, "two were to fail: {failed:?}");
        tokio::task::yield_now().await;
    };
    assert_eq!(failed[0]["server"], "babbling");
    assert!(failed[0]["error"].as_str().unwrap().contains("prints text that is no MCP message"), "{failed:?}");
    assert!(failed[1]["error"].as_str().unwrap().contains("`dead` ended"), "{failed:?}");
}

#[tokio::test]
async fn tools_of_the_same_name_are_called_at_their_own_servers() {
    let (one, two) = (McpServer::stdio(), McpServer::stdio());
    let (gateway, _directory) = start(&[("my.notes", &one), ("my_notes", &two)]).await;
    let rows = data(&gateway.client().get("/v1/tools").await);
    assert!(!rows.is_empty());
    gateway.upstream.push(Reply::text("hi"));
    gateway.say("s", "hello").await.expect(200);
    let offered = gateway.upstream.last_request().body["tools"].clone();
    let names: Vec<&str> =
        offered.as_array().unwrap().iter().map(|t| t["function"]["name"].as_str().unwrap()).collect();
    let notes: Vec<&&str> = names.iter().filter(|name| name.contains("read_note")).collect();
    let [hashed, plain] = notes[..] else { panic!("two tools were to be offered: {notes:?}") };
    assert_ne!(hashed, plain);
    for (name, called) in [(hashed, &one), (plain, &two)] {
        let before = called.logged("call read_note");
        gateway.upstream.push(Reply::tool_calls([ToolCall::new("a", name, "{}")]));
        gateway.upstream.push(Reply::text("it says so"));
        gateway.say("s", name).await.expect(200);
        assert_eq!(called.logged("call read_note"), before + 1, "{name}");
    }
    assert_eq!((one.logged("call read_note"), two.logged("call read_note")), (1, 1));
}
