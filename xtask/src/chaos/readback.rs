//! Reads everything back over HTTP, from both processes, until two readings in a row are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use herma_testkit::Client;
use serde_json::Value;

use super::apis::{self, Api};
use super::deployment::Deployment;
use super::history::{Conversation, HandedId, History, Line, ReadBack, Resolved, Row, Session, StoredObject};

/// The turns of clients that hung up still run. This many readings give them time to end.
const READINGS: usize = 30;

/// Returns what is stored when no turn runs any more, or an error if the store keeps changing.
pub(super) async fn settled(
    deployment: &Deployment,
    history: &History,
    known: &BTreeSet<String>,
) -> Result<ReadBack, String> {
    let mut last = None;
    for _ in 0..READINGS {
        deployment.until_idle().await;
        let now = read(deployment, history, known).await;
        if last.as_ref() == Some(&now) {
            return Ok(now);
        }
        last = Some(now);
        tokio::time::sleep(Duration::from_millis(2500)).await;
    }
    Err(format!("the store still changes after {READINGS} readings"))
}

/// Reads all listed conversations that are not in `known`, and the ids and objects of this history.
async fn read(deployment: &Deployment, history: &History, known: &BTreeSet<String>) -> ReadBack {
    let mut found = ReadBack::default();
    for tenant in 0..2 {
        found.conversations.extend(conversations(deployment, tenant, known).await);
    }
    found.resolved = resolve(deployment, &history.ids).await;
    for turn in &history.turns {
        let tenant = history.threads[turn.thread].tenant;
        for attempt in &turn.attempts {
            if let Some(id) = &attempt.object {
                found.objects.push(object(&deployment.client(1 - attempt.server, tenant), id).await);
            }
        }
    }
    found
}

/// Looks each id up in both processes.
pub(super) async fn resolve(deployment: &Deployment, ids: &[HandedId]) -> Vec<Resolved> {
    let mut distinct: Vec<(usize, &str)> = ids.iter().map(|handed| (handed.tenant, handed.id.as_str())).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut found = Vec::new();
    for server in 0..2 {
        let clients = [deployment.client(server, 0), deployment.client(server, 1)];
        for (tenant, id) in &distinct {
            let answer = clients[*tenant].get(&format!("/api/sessions/{id}")).await;
            let row = if answer.status == 200 { answer.json() } else { Value::Null };
            found.push(Resolved {
                tenant: *tenant,
                id: (*id).to_owned(),
                server,
                conversation: row["conversation_id"].as_str().map(str::to_owned),
                head: row["id"].as_str().map(str::to_owned),
            });
        }
    }
    found
}

async fn conversations(deployment: &Deployment, tenant: usize, known: &BTreeSet<String>) -> Vec<Conversation> {
    let clients = [deployment.client(0, tenant), deployment.client(1, tenant)];
    let mut listed: BTreeMap<String, Vec<(usize, Value)>> = BTreeMap::new();
    for (server, client) in clients.iter().enumerate() {
        for row in pages(client, "/api/sessions?archived=any", "data").await {
            listed.entry(text(&row["conversation_id"])).or_default().push((server, row));
        }
    }
    let mut sessions: BTreeMap<String, Vec<Session>> = BTreeMap::new();
    for row in pages(&clients[0], "/api/sessions?view=sessions&archived=any", "data").await {
        sessions.entry(text(&row["conversation_id"])).or_default().push(Session {
            id: text(&row["id"]),
            parent: row["parent_session_id"].as_str().map(str::to_owned),
            is_live: row["ended_at"].is_null(),
        });
    }
    let mut found = Vec::new();
    for (id, rows) in listed.into_iter().filter(|(id, _)| !known.contains(id)) {
        let by = |server| rows.iter().filter(move |(of, _)| *of == server);
        let head = |server| by(server).map(|(_, row)| text(&row["id"])).next().unwrap_or_default();
        found.push(Conversation {
            tenant,
            listed: [by(0).count(), by(1).count()],
            heads: [head(0), head(1)],
            is_branch: rows[0].1["origin_kind"] == "branch",
            sessions: sessions.remove(&id).unwrap_or_default(),
            full: full(&clients[0], &id).await,
            model: model(&clients[1], &id).await,
            lineage: lineage(&clients[1], &id).await,
            id,
        });
    }
    found
}

/// The full view without summaries and tool calls.
pub(super) async fn full(client: &Client, id: &str) -> Vec<Row> {
    let rows = pages(client, &format!("/api/sessions/{id}/messages?view=full"), "data").await;
    // Tool calls and their results are checked in the model's view.
    let is_step = |row: &Value| row["role"] == "tool" || !row["own_calls"].is_null();
    let said = rows.iter().filter(|row| row["kind"] != "summary" && !is_step(row));
    let row = |row: &Value| Row {
        id: text(&row["id"]),
        role: text(&row["role"]),
        text: text(&row["content"]),
        is_partial: row["status"] == "partial",
        turn: text(&row["turn_id"]),
        turn_status: row["turn_status"].as_str().filter(|status| *status != "completed").map(str::to_owned),
    };
    said.map(row).collect()
}

async fn model(client: &Client, id: &str) -> Vec<Line> {
    let rows = pages(client, &format!("/api/sessions/{id}/messages?view=model"), "data").await;
    let shown = rows.iter().filter(|row| row["role"] != "system");
    shown.map(|row| Line::of(row, text(&row["content"]))).collect()
}

/// The sessions of this conversation in its lineage graph.
async fn lineage(client: &Client, id: &str) -> Vec<String> {
    let nodes = pages(client, &format!("/api/sessions/{id}/lineage"), "nodes").await;
    nodes.iter().filter(|node| node["conversation_id"] == id).map(|node| text(&node["id"])).collect()
}

async fn object(client: &Client, id: &str) -> StoredObject {
    let is_run = id.starts_with("run_");
    let api = if is_run { Api::Run } else { Api::Response { is_streamed: false } };
    let answer = client.get(&format!("/v1/{}/{id}", if is_run { "runs" } else { "responses" })).await;
    let object = answer.json();
    let status = object["status"].as_str().map_or_else(|| answer.status.to_string(), str::to_owned);
    StoredObject { id: id.to_owned(), status, text: apis::answer_of(api, &object) }
}

/// All rows of a paged list.
async fn pages(client: &Client, path: &str, field: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = client.get(&format!("{path}{separator}limit=100{cursor}")).await.expect(200);
        rows.extend(page[field].as_array().into_iter().flatten().cloned());
        match page["next_cursor"].as_str().filter(|_| page["has_more"] == true) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
