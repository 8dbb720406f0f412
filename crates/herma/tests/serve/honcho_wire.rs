//! What Herma sends to Honcho, compared with what the official client was seen to send to a real server.

use std::collections::BTreeSet;

use herma_testkit::{FakeHoncho, HonchoRequest, Mood};

use crate::honcho::Memory;

/// The recording. Conclusions are deleted one by one only if there are some, so there is no line for that.
const RECORDED: &str = include_str!("honcho_wire.txt");

/// One line of the recording.
struct Exchange {
    method_and_path: String,
    query: BTreeSet<String>,
    body: BTreeSet<String>,
}

fn fields(list: &str) -> BTreeSet<String> {
    list.split(',').map(str::trim).filter(|field| !field.is_empty()).map(str::to_owned).collect()
}

fn recording() -> Vec<Exchange> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let exchange = |line: &str| {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [method_and_path, query, body, ..] = parts.as_slice() else { panic!("{line}") };
        let method_and_path = (*method_and_path).to_owned();
        Exchange { method_and_path, query: fields(query), body: fields(body) }
    };
    lines.map(exchange).collect()
}

/// The request with names in place of our own.
fn form(request: &HonchoRequest) -> Exchange {
    let mut parts: Vec<&str> = request.path.split('/').collect();
    for (before, name) in [("workspaces", "WORKSPACE"), ("peers", "PEER"), ("sessions", "SESSION")] {
        if let Some(at) = parts.iter().position(|part| *part == before)
            && let Some(part) = parts.get_mut(at + 1)
            && *part != "list"
        {
            *part = name;
        }
    }
    let query = request.query.split('&').filter_map(|pair| pair.split('=').next());
    let query = query.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let body = request.body.as_object().into_iter().flat_map(|body| body.keys().cloned()).collect();
    Exchange { method_and_path: format!("{} {}", request.method, parts.join("/")), query, body }
}

#[tokio::test]
async fn herma_sends_only_what_the_official_client_sends() {
    let memory = Memory::start().await;
    let (gateway, honcho) = (&memory.gateway, &memory.honcho);
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.until_nothing_waits().await;
    honcho.be(Mood::LosesAnswers);
    memory.say("ann", "second", "What is my dog called?").await;
    honcho.until_messages(4).await;
    honcho.be(Mood::Right);
    memory.until_nothing_waits().await;
    gateway.client().delete("/api/sessions/first").await.expect(200);
    memory.until_nothing_waits().await;
    gateway.client().delete("/api/session-keys/ann").await.expect(200);
    memory.until_nothing_waits().await;
    let recorded = recording();
    let mut seen = BTreeSet::new();
    for request in honcho.requests() {
        let ours = form(&request);
        let known = recorded.iter().find(|known| known.method_and_path == ours.method_and_path);
        let known = known.unwrap_or_else(|| panic!("the client sends nothing like {}", ours.method_and_path));
        assert!(ours.query.is_subset(&known.query), "{}: {:?}", ours.method_and_path, ours.query);
        assert!(ours.body.is_subset(&known.body), "{}: {:?}", ours.method_and_path, ours.body);
        seen.insert(ours.method_and_path);
    }
    assert!(seen.len() >= 9, "{seen:?}");
}

#[tokio::test]
async fn the_fake_server_answers_with_fields_of_the_real_one() {
    let honcho = FakeHoncho::start().await;
    let client = herma_testkit::Client::new(honcho.base_url());
    let peers = serde_json::json!({ "k-ann": {}, "assistant": {} });
    let message = serde_json::json!({ "peer_id": "k-ann", "content": "dog", "metadata": {}, "created_at": "now" });
    let bodies = [
        ("POST /v3/workspaces", serde_json::json!({ "id": "w" })),
        ("POST /v3/workspaces/WORKSPACE/sessions", serde_json::json!({ "id": "s", "peers": peers })),
        ("POST /v3/workspaces/WORKSPACE/sessions/SESSION/messages", serde_json::json!({ "messages": [message] })),
        ("POST /v3/workspaces/WORKSPACE/peers/PEER/search", serde_json::json!({ "query": "dog" })),
        ("POST /v3/workspaces/WORKSPACE/sessions/SESSION/messages/list", serde_json::json!({})),
        ("POST /v3/workspaces/WORKSPACE/peers/PEER/sessions", serde_json::json!({})),
        ("GET /v3/workspaces/WORKSPACE/peers/PEER/context", serde_json::json!({})),
        ("DELETE /v3/workspaces/WORKSPACE/sessions/SESSION", serde_json::json!({})),
        ("DELETE /v3/workspaces/WORKSPACE", serde_json::json!({})),
    ];
    for (what, body) in bodies {
        let line = RECORDED.lines().find(|line| line.split(" | ").next() == Some(what));
        let line = line.unwrap_or_else(|| panic!("{what} is not recorded"));
        let (status, known) = {
            let mut parts = line.split(" | ").skip(3);
            (parts.next().and_then(|status| status.parse().ok()).unwrap(), fields(parts.next().unwrap_or_default()))
        };
        let (method, path) = what.split_once(' ').unwrap();
        let path = path.replace("WORKSPACE", "w").replace("PEER", "k-ann").replace("SESSION", "s");
        let answer = match method {
            "GET" => client.get(&path).await,
            "DELETE" => client.delete(&path).await,
            _ => client.post_json(&path, &body).await,
        };
        let answer = answer.expect(status);
        let answer = answer.get("items").cloned().unwrap_or(answer);
        let answer = answer.as_array().map_or(answer.clone(), |items| items[0].clone());
        let fields: BTreeSet<String> = answer.as_object().unwrap().keys().cloned().collect();
        assert!(fields.is_subset(&known), "{what}: {fields:?}");
    }
}
