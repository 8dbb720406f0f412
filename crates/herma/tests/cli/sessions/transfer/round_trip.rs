use herma_testkit::{Client, Herma, Launch, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

use crate::sessions::json;
use crate::{HERMA, Terminal};

const CHAT: &str = "/v1/chat/completions";

/// The names of the conversations that [`conversations_of_every_kind`] creates.
const NAMES: [&str; 11] =
    ["plain", "tools", "failed", "helper", "keyed", "slug", "branch", "split", "in-place", "undone", "late-branch"];

async fn serve(terminal: &Terminal, upstream: &ScriptedUpstream) -> Herma {
    Launch::serve(HERMA).data(terminal.data()).upstream(&upstream.base_url()).start().await
}

fn in_session(herma: &Herma, id: &str) -> Client {
    herma.client().header("x-hermes-session-id", id)
}

fn chat(messages: &Value) -> Value {
    json!({"model": "scripted", "messages": messages})
}

async fn say(herma: &Herma, id: &str, text: &str) {
    in_session(herma, id).post_json(CHAT, &chat(&json!([{"role": "user", "content": text}]))).await.expect(200);
}

/// Creates one conversation of every kind.
async fn conversations_of_every_kind() -> Terminal {
    let terminal = Terminal::new();
    let upstream = ScriptedUpstream::start().await;
    let mut herma = serve(&terminal, &upstream).await;
    let system = json!([{"role": "system", "content": "be brief"}, {"role": "user", "content": "where is the fjord?"}]);
    in_session(&herma, "plain").post_json(CHAT, &chat(&system)).await.expect(200);
    upstream.push(Reply::tool_calls([ToolCall::new("call_1", "look", "{\"at\":\"```\"}")]));
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let seen = json!([{"role": "user", "content": [{"type": "text", "text": "see"}, image]}]);
    in_session(&herma, "tools").post_json(CHAT, &chat(&seen)).await.expect(200);
    let result = json!([{"role": "tool", "tool_call_id": "call_1", "content": "a tree"}]);
    in_session(&herma, "tools").post_json(CHAT, &chat(&result)).await.expect(200);
    upstream.push(Reply::cut_off_after(2));
    let mut streamed = chat(&json!([{"role": "user", "content": "tell me a story"}]));
    streamed["stream"] = true.into();
    in_session(&herma, "failed").post_stream(CHAT, &streamed).await.rest().await;
    let helper = json!({"id": "helper", "kind": "auxiliary", "parent": "plain"});
    herma.client().post_json("/api/sessions", &helper).await.expect(201);
    say(&herma, "helper", "help").await;
    let keyed =
        json!({"id": "keyed", "session_key": "agent:main/me", "title": "Mine", "metadata": {"b": "1", "a": "é\n"}});
    herma.client().post_json("/api/sessions", &keyed).await.expect(201);
    say(&herma, "keyed", "remember").await;
    let front_end = herma.client().header("x-openwebui-chat-id", "chat-7");
    front_end.post_json(CHAT, &chat(&json!([{"role": "user", "content": "from a front end"}]))).await.expect(200);
    let response = json!({"model": "scripted", "conversation": "slug", "input": "respond"});
    herma.client().post_json("/v1/responses", &response).await.expect(200);
    herma.client().post_json("/api/sessions/plain/branch", &json!({"id": "branch"})).await.expect(201);
    say(&herma, "branch", "by train?").await;
    herma.kill();
    for name in ["split", "in-place", "undone"] {
        terminal.talk_long(name);
    }
    terminal.sessions("compact split").answer();
    terminal.sessions("branch split --id late-branch").answer();
    terminal.sessions("compact in-place --mode in_place").answer();
    let undone = json(&terminal.sessions("compact undone --json"));
    terminal.sessions(&format!("undo undone {}", undone["id"].as_str().unwrap())).answer();
    terminal.in_window(&["chat", "--session", "split"], "and on\n").answer();
    terminal.sessions("end plain").answer();
    terminal.sessions("archive keyed").answer();
    terminal
}

/// What commands without a server show of a store.
fn command_views(terminal: &Terminal) -> Vec<(String, Value)> {
    let mut lines = vec!["list --all --json".to_owned(), "list --all --archived --json".to_owned()];
    lines.extend(["fjord", "story", "thing", "tree", "Mine"].map(|word| format!("search {word} --json")));
    for name in NAMES {
        lines.extend(["show", "tree", "compactions"].map(|verb| format!("{verb} {name} --json")));
        lines.push(format!("show {name} --exact --json"));
    }
    let rows = |said: &str| said.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    lines.into_iter().map(|line| (line.clone(), rows(terminal.sessions(&line).answer()).into())).collect()
}

/// What a client sees of the store, and the context of one more turn in every conversation, under its old name.
async fn client_views(terminal: &Terminal) -> Vec<Value> {
    let upstream = ScriptedUpstream::start().await;
    let herma = serve(terminal, &upstream).await;
    herma.client().post_json("/api/sessions/plain/reopen", &json!({})).await.expect(200);
    let mut heard = Vec::new();
    for name in NAMES {
        for view in ["full", "model"] {
            heard.push(
                herma.client().get(&format!("/api/sessions/{name}/messages?view={view}&limit=100")).await.expect(200),
            );
        }
        say(&herma, name, "and now?").await;
        heard.push(upstream.last_request().messages().into());
    }
    let front_end = herma.client().header("x-openwebui-chat-id", "chat-7");
    front_end.post_json(CHAT, &chat(&json!([{"role": "user", "content": "again"}]))).await.expect(200);
    heard.push(upstream.last_request().messages().into());
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_comes_back_as_it_was() {
    let (here, there) = (conversations_of_every_kind().await, Terminal::new());
    let lines = here.exported("--all", "all.jsonl");
    let before = command_views(&here);
    let said = there.imported(&lines, "");
    assert_eq!(
        said.answer(),
        "12 conversations: 12 brought back, 0 already here, 0 left as they are, 0 refused; 92 messages",
        "{}",
        said.stderr
    );
    assert_eq!(there.exported("--all", "all.jsonl")[1..], lines[1..]);
    for (one, other) in before.iter().zip(&command_views(&there)) {
        assert_eq!(one, other);
    }
    let again = there.imported(&lines, "");
    assert_eq!(
        again.answer(),
        "12 conversations: 0 brought back, 12 already here, 0 left as they are, 0 refused; 0 messages"
    );
    for (one, other) in client_views(&here).await.iter().zip(&client_views(&there).await) {
        assert_eq!(one, other);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_comes_alone_with_what_it_inherits() {
    let (here, there) = (conversations_of_every_kind().await, Terminal::new());
    for name in ["branch", "late-branch"] {
        let lines = here.exported(name, "one.jsonl");
        there.imported(&lines, "").answer();
        assert_eq!(
            there.sessions(&format!("export {name}")).answer(),
            here.sessions(&format!("export {name}")).answer()
        );
    }
    let rows = there.sessions("list --json");
    assert_eq!(rows.answer().lines().count(), 2, "{}", rows.stdout);
    let answer = there.run_with_input(&["chat", "--session", "branch"], "on\n");
    assert!(answer.answer().contains("You said: on (message 3"), "{}", answer.stdout);
    // Its source can be imported later, and then shows the branch in its tree.
    there.imported(&here.exported("plain", "plain.jsonl"), "").answer();
    let tree = there.sessions("tree plain");
    assert!(tree.answer().contains("branch: branch [branch]"), "{}", tree.stdout);
}
