//! The process dies at each step of a tool round, and while a turn waits for a person.

use herma_gateway::crash::{ADMITTED, CALL_MADE, CALLS_STORED, PARKED, RESULT_STORED, TOOL_POINTS};
use herma_testkit::{Launch, McpServer, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{CHAT, ask, named, retry};

/// What the model and the transcript are told of a call that may have been made.
const UNCERTAIN: &str = "[It is not known whether this call was carried out.]";

/// A gateway whose only tool server appends a line to a file at each call of its tool `count`.
struct ToolGateway {
    upstream: ScriptedUpstream,
    herma: herma_testkit::Herma,
    data: TempDir,
    server: McpServer,
    count: std::path::PathBuf,
    config: std::path::PathBuf,
}

impl ToolGateway {
    /// Starts with this approval for the tool `count`. The first process dies at `point`.
    async fn start(approval: &str, point: Option<&str>) -> Self {
        let upstream = ScriptedUpstream::start().await;
        let data = tempfile::tempdir().unwrap();
        let server = McpServer::stdio();
        let (count, config) = (data.path().join("count"), data.path().join("herma.toml"));
        let args: Vec<String> = server.args().iter().map(|arg| format!("{arg:?}")).collect();
        let text = format!(
            "[tools]\napproval_timeout = \"10m\"\n[tools.mcp.test]\ncommand = {:?}\nargs = [{}]\n\
             env = {{ COUNT_FILE = {:?} }}\napprovals = {{ count = {approval:?} }}\n",
            server.command(),
            args.join(", "),
            count.display().to_string(),
        );
        std::fs::write(&config, text).unwrap();
        let mut launch = launch(&upstream, &data, &config);
        if let Some(point) = point {
            launch = launch.env("HERMA_CRASH_AT", point);
        }
        let herma = launch.start().await;
        Self { upstream, herma, data, server, count, config }
    }

    /// How often the tool was really called.
    fn executions(&self) -> usize {
        std::fs::read_to_string(&self.count).map_or(0, |text| text.lines().count())
    }

    /// Waits for the death of the process and starts another one that lives.
    async fn restart_after_death(&mut self) {
        assert!(!self.herma.wait().await.success(), "the process was to die");
        self.restart().await;
    }

    async fn restart(&mut self) {
        self.herma.kill();
        self.herma = launch(&self.upstream, &self.data, &self.config).start().await;
    }

    fn session(&self) -> herma_testkit::Client {
        named(self.herma.client(), "s")
    }

    fn calls_count(&self) {
        self.upstream.push(Reply::tool_calls([ToolCall::new("call_1", "test__count", "{}")]));
    }
}

fn launch(upstream: &ScriptedUpstream, data: &TempDir, config: &std::path::Path) -> Launch {
    Launch::serve(env!("CARGO_BIN_EXE_herma"))
        .upstream(&upstream.base_url())
        .data(data.path().join("data"))
        .env("HERMA_CONFIG", config.display().to_string())
}

/// Sends a request whose process dies, and reads whatever comes.
async fn send_to_the_dying(client: &herma_testkit::Client, path: &str, body: &Value) {
    let request = client.request("POST".parse().unwrap(), path).header("content-type", "application/json");
    if let Ok(mut response) = request.body(body.to_string()).send().await {
        while let Ok(Some(_)) = response.chunk().await {}
    }
}

async fn died_at(point: &str) -> ToolGateway {
    let mut gateway = ToolGateway::start("auto", Some(point)).await;
    gateway.calls_count();
    send_to_the_dying(&gateway.session(), CHAT, &ask("count it")).await;
    gateway.restart_after_death().await;
    gateway
}

#[tokio::test]
async fn after_a_crash_in_a_tool_round_the_next_turn_is_told_what_is_known_and_no_call_is_repeated() {
    for point in TOOL_POINTS {
        let gateway = died_at(point).await;
        let made = gateway.executions();
        assert_eq!(made, usize::from(point != CALLS_STORED), "{point}");
        let answer = gateway.session().post_json(CHAT, &ask("what happened?")).await;
        assert_eq!(answer.content(), "reply to: what happened?", "{point}");
        let result = if point == RESULT_STORED { "tool: counted" } else { &format!("tool: {UNCERTAIN}") };
        let context = gateway.upstream.last_request().transcript();
        assert_eq!(context[0], "user: count it", "{point}");
        assert_eq!(context[2], *result, "{point}: {context:?}");
        assert_eq!(context.last().map(String::as_str), Some("user: what happened?"));
        assert_eq!(gateway.executions(), made, "{point}: nothing is called again");
        let rows = gateway.herma.client().get("/api/sessions/s/messages").await.expect(200);
        let row = &rows["data"][2];
        assert_eq!((&row["role"], row["content"].as_str()), (&json!("tool"), result.strip_prefix("tool: ")), "{point}");
    }
}

#[tokio::test]
async fn a_retry_after_a_crash_in_a_tool_round_goes_on_after_the_last_step() {
    for point in TOOL_POINTS {
        let gateway = died_at(point).await;
        let made = gateway.executions();
        gateway.upstream.push(Reply::text("done"));
        let answer = retry(&gateway.session(), 1).post_json(CHAT, &ask("count it")).await;
        assert_eq!(answer.content(), "done", "{point}");
        let context = gateway.upstream.last_request().transcript();
        assert_eq!((context.len(), context[0].as_str()), (3, "user: count it"), "{point}: {context:?}");
        assert!(context[2].starts_with("tool"), "{point}: {context:?}");
        assert_eq!(gateway.executions(), made, "{point}: nothing that had effects is done twice");
    }
}

#[tokio::test]
async fn a_parked_turn_survives_the_death_of_its_process_and_is_resumed_by_another() {
    let mut gateway = ToolGateway::start("ask", Some(PARKED)).await;
    gateway.calls_count();
    let body = json!({"model": "m", "input": "count it", "session_id": "s"});
    send_to_the_dying(&gateway.herma.client(), "/v1/runs", &body).await;
    gateway.restart_after_death().await;
    let runs = gateway.herma.client().get("/api/sessions/s").await.expect(200);
    assert_eq!(gateway.executions(), 0, "{runs}");
    let messages = gateway.herma.client().get("/api/sessions/s/messages").await.expect(200);
    let turn = messages["data"][0]["turn_id"].as_str().unwrap().replace("turn_", "run_");
    let run = gateway.herma.client().get(&format!("/v1/runs/{turn}")).await.expect(200);
    assert_eq!(run["status"], "waiting_for_approval");
    gateway.upstream.push(Reply::text("counted"));
    let choice = json!({"choice": "once"});
    gateway.herma.client().post_json(&format!("/v1/runs/{turn}/approval"), &choice).await.expect(200);
    let events = gateway.herma.client().get_stream(&format!("/v1/runs/{turn}/events")).await.chunks().await;
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    for wanted in ["approval.request", "approval.responded", "tool.started", "tool.completed", "run.completed"] {
        assert!(names.contains(&wanted), "{wanted} in {names:?}");
    }
    assert_eq!(gateway.executions(), 1);
    gateway.restart().await;
    let again = gateway.herma.client().get_stream(&format!("/v1/runs/{turn}/events")).await.chunks().await;
    assert_eq!(again, events, "the same events after a restart");
    drop(gateway.server);
}

#[tokio::test]
async fn a_result_that_was_made_and_not_stored_is_uncertain_after_approval_too() {
    let mut gateway = ToolGateway::start("ask", Some(CALL_MADE)).await;
    gateway.calls_count();
    let body = json!({"model": "m", "input": "count it", "session_id": "s"});
    let begun = gateway.herma.client().post_json("/v1/runs", &body).await.expect(202);
    let run = begun["run_id"].as_str().unwrap().to_owned();
    loop {
        let now = gateway.herma.client().get(&format!("/v1/runs/{run}")).await.expect(200);
        if now["status"] == "waiting_for_approval" {
            break;
        }
        tokio::task::yield_now().await;
    }
    let path = format!("/v1/runs/{run}/approval");
    send_to_the_dying(&gateway.herma.client(), &path, &json!({"choice": "once"})).await;
    gateway.restart_after_death().await;
    gateway.session().post_json(CHAT, &ask("and?")).await.expect(200);
    let context = gateway.upstream.last_request().transcript();
    assert!(context.iter().any(|line| line.contains(UNCERTAIN)), "{context:?}");
    assert_eq!(gateway.executions(), 1);
}

#[tokio::test]
async fn a_call_that_a_response_was_allowed_to_make_is_not_made_twice_after_a_crash() {
    let mut gateway = ToolGateway::start("ask", Some(CALL_MADE)).await;
    gateway.calls_count();
    let tools = json!([{"type": "mcp", "server_label": "test"}]);
    let body = json!({"model": "m", "input": "count it", "conversation": "s", "tools": tools});
    let asked = gateway.herma.client().post_json("/v1/responses", &body).await.expect(200);
    let answer =
        json!({"type": "mcp_approval_response", "approval_request_id": asked["output"][0]["id"], "approve": true});
    let body = json!({"model": "m", "input": [answer], "conversation": "s", "tools": tools});
    send_to_the_dying(&gateway.herma.client(), "/v1/responses", &body).await;
    gateway.restart_after_death().await;
    gateway.herma.client().post_json("/v1/responses", &body).await;
    gateway.session().post_json(CHAT, &ask("and?")).await.expect(200);
    let context = gateway.upstream.last_request().transcript();
    assert!(context.contains(&format!("tool: {UNCERTAIN}")), "{context:?}");
    assert_eq!(gateway.executions(), 1);
}

#[tokio::test]
async fn a_response_that_began_with_an_answer_keeps_its_id_wherever_its_process_dies() {
    for point in [ADMITTED, CALL_MADE, RESULT_STORED] {
        let mut gateway = ToolGateway::start("ask", Some(point)).await;
        // The first turn passes the point too, if the process is to die at its admission.
        let mut asking = launch(&gateway.upstream, &gateway.data, &gateway.config).start().await;
        gateway.calls_count();
        let tools = json!([{"type": "mcp", "server_label": "test"}]);
        let body = json!({"model": "m", "input": "count it", "conversation": "s", "tools": tools});
        let asked = asking.client().post_json("/v1/responses", &body).await.expect(200);
        asking.kill();
        let answer =
            json!({"type": "mcp_approval_response", "approval_request_id": asked["output"][0]["id"], "approve": true});
        let body = json!({"model": "m", "input": [answer], "conversation": "s", "tools": tools, "stream": true});
        send_to_the_dying(&gateway.herma.client(), "/v1/responses", &body).await;
        gateway.restart_after_death().await;
        let made = gateway.executions();
        assert_eq!(made, usize::from(point != ADMITTED), "{point}");
        let rows = gateway.herma.client().get("/api/sessions/s/messages").await.expect(200);
        let turn = rows["data"].as_array().unwrap().last().unwrap()["turn_id"].as_str().unwrap().to_owned();
        assert_ne!(turn.replace("turn_", "resp_"), asked["id"].as_str().unwrap(), "{point}: {rows}");
        gateway.upstream.push(Reply::text("done"));
        let body = json!({"model": "m", "input": [answer], "conversation": "s", "tools": tools});
        let done = gateway.herma.client().post_json("/v1/responses", &body).await.expect(200);
        assert_eq!(done["id"].as_str().unwrap().replace("resp_", "turn_"), turn, "{point}");
        assert_eq!(gateway.executions(), made, "{point}: no call is made twice");
        let output = if point == RESULT_STORED { json!("counted") } else { Value::Null };
        assert_eq!(done["output"][0]["output"], output, "{point}: {done}");
        let stored = gateway.herma.client().get(&format!("/v1/responses/{}", done["id"].as_str().unwrap())).await;
        assert_eq!(stored.expect(200)["output"], done["output"], "{point}");
    }
}
