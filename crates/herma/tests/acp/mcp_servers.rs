//! MCP servers that the editor names for a session.

use herma_testkit::{McpServer, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::Agent;
use crate::support::files;

/// A server as the editor names it.
fn named(name: &str, server: &McpServer) -> Value {
    let env = json!([{ "name": "TOKEN", "value": "hunter22" }]);
    json!({ "name": name, "command": server.command(), "args": server.args(), "env": env })
}

/// A session with these servers.
fn session_with(agent: &mut Agent, servers: Value) -> String {
    let cwd = agent.cwd().to_owned();
    let made = agent.call("session/new", json!({ "cwd": cwd, "mcpServers": servers }));
    made["sessionId"].as_str().unwrap().to_owned()
}

/// Whether the model was offered a tool last.
fn is_offered(upstream: &ScriptedUpstream, name: &str) -> bool {
    upstream.last_request().body["tools"].to_string().contains(&format!("\"{name}\""))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_for_its_session_only_and_on_top_of_the_configured_ones() {
    let upstream = ScriptedUpstream::start().await;
    let (configured, own) = (McpServer::stdio(), McpServer::stdio());
    let mut agent = Agent::scripted(&upstream, &files(&configured));
    let with = session_with(&mut agent, json!([named("files", &own), named("mine", &own)]));
    agent.set_mode(&with, "auto");
    upstream.push(Reply::tool_calls([ToolCall::new("c1", "mine__echo", r#"{"text":"x"}"#)]));
    upstream.push(Reply::tool_calls([ToolCall::new("c2", "files_2__echo", r#"{"text":"x"}"#)]));
    upstream.push(Reply::text("done"));
    assert_eq!(agent.prompt(&with, "go").1["result"]["stopReason"], "end_turn");
    assert!(is_offered(&upstream, "files__echo"), "the configured server keeps its name");
    assert_eq!((own.logged("call echo"), configured.logged("call echo")), (2, 0));
    let without = session_with(&mut agent, json!([]));
    agent.prompt(&without, "go");
    assert!(is_offered(&upstream, "files__echo") && !is_offered(&upstream, "mine__echo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_over_http_work_and_their_calls_ask() {
    let upstream = ScriptedUpstream::start().await;
    let server = McpServer::http_with(&["--token", "hunter22"]).await;
    let mut agent = Agent::scripted(&upstream, "");
    let headers = json!([{ "name": "Authorization", "value": "Bearer hunter22" }]);
    let session =
        session_with(&mut agent, json!([{ "type": "http", "name": "web", "url": server.url(), "headers": headers }]));
    upstream.push(Reply::tool_calls([ToolCall::new("c1", "web__echo", r#"{"text":"x"}"#)]));
    upstream.push(Reply::text("done"));
    let id = agent.ask_prompt(&session, "go");
    let (_, question) = agent.until_asked("session/request_permission");
    assert_eq!(question["params"]["toolCall"]["title"], "web.echo");
    agent.reply(&question, json!({ "outcome": { "outcome": "selected", "optionId": "once" } }));
    assert_eq!(agent.until(id).1["result"]["stopReason"], "end_turn");
    assert_eq!(server.logged("call echo"), 1, "the turn goes on with its server after the question");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_never_stored_so_a_resume_has_to_name_them_again() {
    let upstream = ScriptedUpstream::start().await;
    let server = McpServer::stdio();
    let mut agent = Agent::scripted(&upstream, "");
    let session = session_with(&mut agent, json!([named("mine", &server)]));
    agent.prompt(&session, "go");
    assert!(is_offered(&upstream, "mine__echo"));
    assert_eq!(agent.end().code(), Some(0));
    for file in std::fs::read_dir(agent.data.path()).unwrap() {
        let text = std::fs::read(file.unwrap().path()).unwrap_or_default();
        assert!(!text.windows(8).any(|bytes| bytes == b"hunter22"), "nothing of the server is stored");
    }
    let mut later = agent.another();
    let cwd = later.cwd().to_owned();
    for (servers, expected) in [(json!([]), false), (json!([named("mine", &server)]), true)] {
        later.call("session/resume", json!({ "sessionId": session, "cwd": cwd, "mcpServers": servers }));
        later.prompt(&session, "go");
        assert_eq!(is_offered(&upstream, "mine__echo"), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_does_not_stop_a_turn_and_a_closed_session_ends_its_servers() {
    let upstream = ScriptedUpstream::start().await;
    let server = McpServer::stdio();
    let mut agent = Agent::scripted(&upstream, "");
    let broken = json!({ "name": "broken", "command": "/no/such/program", "args": [], "env": [] });
    let noisy = json!({ "name": "noisy", "command": "sh", "args": ["-c", "echo noise; echo more >&2"], "env": [] });
    let session = session_with(&mut agent, json!([broken, noisy, named("mine", &server)]));
    assert_eq!(agent.prompt(&session, "go").1["result"]["stopReason"], "end_turn");
    assert!(is_offered(&upstream, "mine__echo"));
    agent.call("session/close", json!({ "sessionId": session }));
    let pids = server.pids();
    let is_gone = |pid: &u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    assert!(pids.len() == 1 && pids.iter().all(is_gone), "{pids:?}");
}

#[test]
fn a_transport_that_the_agent_does_not_speak_is_refused() {
    let mut agent = Agent::ready(&[]);
    let cwd = agent.cwd().to_owned();
    let servers = json!([{ "type": "sse", "name": "old", "url": "http://127.0.0.1:1/hunter22", "headers": [] }]);
    let answer = agent.answer("session/new", json!({ "cwd": cwd, "mcpServers": servers }));
    assert_eq!(answer["error"]["code"], -32602);
    assert!(!answer.to_string().contains("hunter22"), "{answer}");
}
