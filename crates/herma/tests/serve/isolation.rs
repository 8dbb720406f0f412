//! Every route of `/openapi.json` is tried with names of another tenant. It answers as if they led nowhere.
//!
//! The routes, their parameters and their bodies come from the document, so a new route is tried too.

use std::collections::BTreeSet;

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::KeyScope;
use herma_store::Store as _;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Answer, Client};
use serde_json::{Map, Value, json};

use crate::support::{CHAT, SESSION_KEY, TestGateway, chat, user};

const KEY: &str = "agent:quokka";
/// A word that only the victim's messages, titles and names have.
const SECRET: &str = "quokka";

/// Routes on which a name that leads nowhere is not an error: they list, or make what is named.
const NOT_MISSED: [&str; 3] = ["/api/session-keys/{key}", "/api/session-keys/{key}/new", "/v1/models/{id}"];

/// Fields of bodies, parameters and headers that name something.
const NAMING: [&str; 20] = [
    "id",
    "conversation",
    "previous_response_id",
    "session_id",
    "session_key",
    "parent",
    "root",
    "at",
    "to",
    "call_id",
    "cursor",
    "after",
    "before",
    "starting_after",
    "X-Hermes-Session-Id",
    "X-Hermes-Conversation-Id",
    "X-Hermes-Session-Key",
    "Idempotency-Key",
    "Last-Event-ID",
    "If-Match",
];

/// One operation of the document.
struct Operation {
    method: String,
    path: String,
    parameters: Vec<(String, String)>,
    fields: Vec<String>,
    only_streams: bool,
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => resolved(document, document.pointer(&reference[1..]).expect("a known reference")),
        None => value,
    }
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let parameters = parameters.iter().map(|parameter| {
                let parameter = resolved(document, parameter);
                (
                    parameter["in"].as_str().expect("a place").to_owned(),
                    parameter["name"].as_str().expect("a name").to_owned(),
                )
            });
            let schema = resolved(document, &operation["requestBody"]["content"]["application/json"]["schema"]);
            let fields = schema["properties"].as_object().map(|properties| properties.keys().cloned().collect());
            let answers = operation["responses"]["200"]["content"].as_object().cloned().unwrap_or_default();
            all.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                parameters: parameters.collect(),
                fields: fields.unwrap_or_default(),
                only_streams: method == "get" && answers.keys().eq(["text/event-stream"]),
            });
        }
    }
    all
}

/// The smallest body that a route takes.
fn body(operation: &Operation) -> Value {
    let mut body = Map::new();
    for (field, value) in [
        ("messages", json!([user("hello")])),
        ("input", json!("hello")),
        ("message", json!("hello")),
        ("prompt", json!("hello")),
        ("items", json!([{"type": "message", "role": "user", "content": "hello"}])),
        ("choice", json!("once")),
        ("turns", json!(1)),
        ("metadata", json!({})),
        ("text", json!("hello")),
    ] {
        if operation.fields.iter().any(|known| known == field) {
            body.insert(field.to_owned(), value);
        }
    }
    if operation.path == "/v1/conversations" {
        body.remove("items");
    }
    Value::Object(body)
}

/// Another text of the same form, which leads nowhere.
fn lookalike(name: &str) -> String {
    match name.split_once('_') {
        Some((prefix, digits)) if digits.len() == 32 => format!("{prefix}_{}", "7".repeat(32)),
        _ => name.replace(SECRET, "wombat"),
    }
}

/// Everything that names something of the victim, as its own answers show it.
fn collect(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let is_id = text
                .split_once('_')
                .is_some_and(|(_, digits)| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            if is_id {
                into.insert(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

struct Victim {
    names: BTreeSet<String>,
    cursors: Vec<String>,
}

/// A tenant that has one of everything.
async fn victim(gateway: &TestGateway) -> Victim {
    let client = gateway.client().header(SESSION_KEY, KEY);
    let mut seen = Vec::new();
    let trip = client.clone().header("x-hermes-session-id", "quokka-trip");
    for text in ["quokka one", "quokka two", "quokka three"] {
        seen.push(trip.post_json(CHAT, &chat(&[user(text)])).await.expect(200));
    }
    let response = json!({"input": "quokka response", "conversation": "quokka-slug"});
    seen.push(client.post_json("/v1/responses", &response).await.expect(200));
    let run = json!({"input": "quokka run", "session_id": "quokka-run"});
    let run = client.post_json("/v1/runs", &run).await.json();
    let events = format!("/v1/runs/{}/events", run["run_id"].as_str().or(run["id"].as_str()).expect("a run"));
    client.get_stream(&events).await.rest().await;
    seen.push(run);
    seen.push(client.post_json("/api/sessions/quokka-trip/branch", &json!({"id": "quokka-twig"})).await.expect(201));
    seen.push(client.get("/api/sessions/quokka-trip/messages").await.expect(200));
    seen.push(client.post_json("/v1/conversations", &json!({"metadata": {"animal": "quokka"}})).await.expect(200));
    client
        .clone()
        .header("x-hermes-session-id", "quokka-gone")
        .post_json(CHAT, &chat(&[user("quokka")]))
        .await
        .expect(200);
    seen.push(client.delete("/api/sessions/quokka-gone").await.expect(200));
    let fact = json!({"text": "likes the quokka", "session_key": KEY});
    seen.push(client.post_json("/api/memories", &fact).await.json());
    let mut names: BTreeSet<String> =
        [KEY, "quokka-trip", "quokka-slug", "quokka-run", "quokka-twig"].map(str::to_owned).into();
    seen.iter().for_each(|answer| collect(answer, &mut names));
    let mut cursors = Vec::new();
    for list in [
        "/api/sessions?limit=1",
        "/api/sessions/quokka-trip/messages?limit=1",
        "/api/search?q=quokka&limit=1",
        "/api/sessions/quokka-trip/lineage?limit=1",
        "/v1/conversations?limit=1",
    ] {
        let page = client.get(list).await.expect(200);
        cursors.extend(page["next_cursor"].as_str().map(str::to_owned));
    }
    assert!(names.len() > 15 && cursors.len() >= 3, "{names:?} {cursors:?}");
    Victim { names, cursors }
}

/// Everything that the victim can see of its own data.
async fn state(gateway: &TestGateway) -> Vec<Value> {
    let client = gateway.client();
    let mut state = Vec::new();
    for path in [
        "/api/sessions?limit=100&archived=any",
        "/api/sessions/quokka-trip/messages",
        "/api/sessions/quokka-slug/messages",
        "/api/sessions/quokka-run/messages",
        "/api/sessions/quokka-trip/lineage",
        "/api/search?q=quokka&limit=100",
        "/api/session-keys/agent:quokka",
        "/api/memories?session_key=agent:quokka",
    ] {
        state.push(client.get(path).await.expect(200));
    }
    state
}

pub(crate) async fn key_of(gateway: &TestGateway, tenant: &str, session_keys: Option<&str>) -> Client {
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).unwrap();
    let key = create_key(&store, KeyGrant::of(tenant).for_session_keys(KeyScope::parse(session_keys))).await.unwrap();
    store.close().await;
    Client::new(gateway.herma.base_url()).key(&key.secret)
}

async fn send(client: &Client, operation: &Operation, path: &str, body: &Value) -> Answer {
    let request = client.request(operation.method.parse().expect("a method"), path);
    let request =
        if matches!(operation.method.as_str(), "POST" | "PATCH" | "PUT") { request.json(body) } else { request };
    let response = tokio::time::timeout(herma_testkit::PATIENCE, async {
        Answer::read(request.send().await.expect("an answer")).await
    });
    response.await.unwrap_or_else(|_| panic!("{} {path} does not end", operation.method))
}

/// Checks that a name of the victim is answered as one that leads nowhere, and that the answer tells nothing.
fn check(what: &str, given: &str, theirs: &Answer, nobodys: &Answer) {
    let shown = theirs.text().replace(given, "NAME");
    assert!(!shown.contains(SECRET), "{what} with {given}: {shown}");
    assert_eq!(theirs.status, nobodys.status, "{what} with {given}: {shown} and {}", nobodys.text());
    if theirs.status >= 400 {
        let other = nobodys.text().replace(&lookalike(given), "NAME");
        assert_eq!(shown, other, "{what} with {given}");
    }
    assert!(theirs.status < 500, "{what} with {given}: {shown}");
}

fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F").replace(' ', "%20")
}

/// Tries each name of the victim in each place of a path.
async fn try_paths(client: &Client, operation: &Operation, victim: &Victim) {
    let places: Vec<&str> = operation.path.split('/').filter(|part| part.starts_with('{')).collect();
    if places.is_empty() || operation.path.starts_with("/v1/models") {
        return;
    }
    let body = body(operation);
    for name in &victim.names {
        // What the other places of the path name is the victim's too.
        for rest in victim.names.iter().filter(|rest| rest.starts_with("msg_") || rest.starts_with("cmp_")).take(2) {
            let fill = |name: &str, rest: &str| {
                let mut path = operation.path.replace(places[0], &escaped(name));
                places.iter().skip(1).for_each(|place| path = path.replace(place, &escaped(rest)));
                path
            };
            let theirs = send(client, operation, &fill(name, rest), &body).await;
            let nobodys = send(client, operation, &fill(&lookalike(name), &lookalike(rest)), &body).await;
            let what = format!("{} {}", operation.method, operation.path);
            check(&what, name, &theirs, &nobodys);
            if !NOT_MISSED.contains(&operation.path.as_str()) {
                assert_eq!(theirs.status, 404, "{what} with {name}: {}", theirs.text());
            }
            if places.len() == 1 {
                break;
            }
        }
    }
}

/// Tries each name and cursor of the victim in each parameter, header and field that can name something.
async fn try_fields(client: &Client, operation: &Operation, victim: &Victim) {
    if operation.path.contains('{')
        || operation.only_streams
        || operation.path == "/v1/responses" && operation.method == "GET"
    {
        return;
    }
    let is_naming = |name: &&String| NAMING.contains(&name.as_str());
    let given: Vec<&String> = victim.names.iter().chain(&victim.cursors).collect();
    let what = |field: &str| format!("{} {} with {field}", operation.method, operation.path);
    for (place, field) in operation.parameters.iter().filter(|(_, name)| is_naming(&name)) {
        for name in &given {
            let answer = async |name: &str| {
                let base = if operation.path == "/api/search" { "/api/search?q=quokka&" } else { "?" };
                let query = format!(
                    "{}{field}={}",
                    if base == "?" { format!("{}?", operation.path) } else { base.to_owned() },
                    escaped(name)
                );
                match place.as_str() {
                    "query" => send(client, operation, &query, &body(operation)).await,
                    _ => send(&client.clone().header(field, name), operation, &operation.path, &body(operation)).await,
                }
            };
            let (theirs, nobodys) = (answer(name).await, answer(&lookalike(name)).await);
            check(&what(field), name, &theirs, &nobodys);
        }
    }
    for field in operation.fields.iter().filter(is_naming) {
        for name in &given {
            let answer = async |name: &str| {
                let mut body = body(operation);
                body[field.as_str()] = json!(name);
                send(client, operation, &operation.path, &body).await
            };
            let (theirs, nobodys) = (answer(name).await, answer(&lookalike(name)).await);
            check(&what(field), name, &theirs, &nobodys);
        }
    }
}

#[tokio::test]
async fn every_route_answers_names_of_another_tenant_as_if_they_led_nowhere() {
    let gateway = TestGateway::start().await;
    let victim = victim(&gateway).await;
    let before = state(&gateway).await;
    let stranger = key_of(&gateway, "elsewhere", None).await;
    let reader = key_of(&gateway, "nowhere", None).await;
    let document = gateway.client().get("/openapi.json").await.expect(200);
    let operations = operations(&document);
    assert!(operations.len() > 55, "{}", operations.len());
    for operation in &operations {
        try_paths(&stranger, operation, &victim).await;
        if operation.method == "GET"
            && !operation.path.contains('{')
            && !operation.only_streams
            && operation.path != "/v1/responses"
        {
            let listed = send(&reader, operation, &operation.path, &Value::Null).await;
            let is_the_document = operation.path == "/openapi.json";
            assert!(is_the_document || !listed.text().contains("quokka-"), "{}: {}", operation.path, listed.text());
        }
    }
    // These make new conversations of the other tenant under the same names.
    for operation in &operations {
        try_fields(&stranger, operation, &victim).await;
    }
    assert_eq!(state(&gateway).await, before, "nothing of the victim's has changed");
}

#[tokio::test]
async fn a_key_that_may_not_use_a_session_key_misses_its_conversations_on_every_route() {
    let gateway = TestGateway::start().await;
    let victim = victim(&gateway).await;
    let before = state(&gateway).await;
    let limited = key_of(&gateway, "default", Some("agent:bob")).await;
    let document = gateway.client().get("/openapi.json").await.expect(200);
    for operation in operations(&document).iter().filter(|operation| !operation.path.ends_with("/new")) {
        try_paths(&limited, operation, &victim).await;
    }
    assert_eq!(state(&gateway).await, before, "nothing has changed");
}

#[tokio::test]
async fn the_place_of_another_tenants_event_is_a_gap_and_its_events_are_not_told() {
    let gateway = TestGateway::start().await;
    let stranger = key_of(&gateway, "elsewhere", None).await;
    let mut ours = gateway.client().get_stream("/api/events?starting_after=0").await;
    gateway.say("quokka-trip", "hello").await.expect(200);
    let place = ours.next().await.expect("an event").id.expect("an id");
    let mut theirs = stranger.clone().header("last-event-id", &place).get_stream("/api/events").await;
    assert_eq!(theirs.next().await.expect("an event").name.as_deref(), Some("session.gap"));
    gateway.say("quokka-more", "hello").await.expect(200);
    stranger.header("x-hermes-session-id", "mine").post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    let first = theirs.next().await.expect("an event").json();
    assert_eq!(first["session_id"], "mine", "{first}");
}
