//! Memory in turns: what was told in one conversation is known in the next one of the same session key.

use std::time::{Duration, Instant};

use herma_gateway::access::{KeyGrant, create_key};
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Client, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, SESSION_KEY, TestGateway, chat, data, error, result, user, with};

pub(crate) const MEMORY: &str = "x-hermes-memory";
pub(crate) const BEGIN: &str = "[Recalled from earlier conversations]";
const END: &str = "[End of what was recalled]";

pub(crate) fn asking(gateway: &TestGateway, key: &str, session: &str) -> Client {
    gateway.client().header(SESSION_KEY, key).header(SESSION_ID, session)
}

/// Says something in a session of a key, and returns what the model server got as the newest user message.
pub(crate) async fn say(gateway: &TestGateway, key: &str, session: &str, text: &str) -> String {
    ask(gateway, asking(gateway, key, session), text).await
}

pub(crate) async fn ask(gateway: &TestGateway, client: Client, text: &str) -> String {
    client.post_json(CHAT, &chat(&[user(text)])).await.expect(200);
    gateway.upstream.last_request().last_user_text()
}

async fn store(gateway: &TestGateway) -> SqliteStore {
    SqliteStore::open(&gateway.herma.data().join("herma.db")).expect("the store")
}

/// Has everything indexed that was said, without waiting for it.
pub(crate) async fn index(gateway: &TestGateway) {
    let store = store(gateway).await;
    store.index_all().await.expect("an index");
    store.close().await;
}

pub(crate) async fn fact(gateway: &TestGateway, key: &str, text: &str) {
    let body = json!({ "session_key": key, "text": text });
    gateway.client().post_json("/api/memories", &body).await.expect(201);
}

#[tokio::test]
async fn what_was_told_in_one_conversation_is_known_in_the_next_within_three_seconds() {
    let gateway = TestGateway::start().await;
    gateway.upstream.otherwise(|_| Reply::text("I see."));
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    let told = Instant::now();
    let mut polls = tokio::time::interval(Duration::from_millis(200));
    let shown = loop {
        polls.tick().await;
        let shown =
            say(&gateway, "ann", &format!("next-{}", told.elapsed().as_nanos()), "What is my dog called?").await;
        if shown.contains("Bello") || told.elapsed() > Duration::from_secs(30) {
            break shown;
        }
    };
    assert!(told.elapsed() < Duration::from_secs(3), "{:?}", told.elapsed());
    let (block, words) = shown.split_once("\n\n").expect("a block before the words");
    assert_eq!(words, "What is my dog called?");
    assert!(block.starts_with(BEGIN) && block.ends_with(END), "{block}");
    assert!(block.contains(", the user: My dog is called Bello\n"), "{block}");
}

#[tokio::test]
async fn nothing_is_recalled_across_keys_tenants_or_without_a_key() {
    let gateway = TestGateway::start().await;
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    fact(&gateway, "ann", "Ann has a dog").await;
    index(&gateway).await;
    for (nth, key) in ["bob", "Ann", "ann:", "ann/", "än"].into_iter().enumerate() {
        let shown = say(&gateway, key, &format!("other-{nth}"), "What is my dog called?").await;
        assert_eq!(shown, "What is my dog called?", "{key}");
    }
    let without = gateway.in_session("keyless");
    assert_eq!(ask(&gateway, without, "What is my dog called?").await, "What is my dog called?");
    let store = store(&gateway).await;
    let stranger = create_key(&store, KeyGrant::of("elsewhere")).await.expect("a key").secret;
    store.close().await;
    let stranger = Client::new(gateway.herma.base_url()).key(&stranger).header(SESSION_KEY, "ann");
    assert_eq!(ask(&gateway, stranger, "What is my dog called?").await, "What is my dog called?");
    assert!(say(&gateway, "ann", "second", "What is my dog called?").await.contains("Bello"));
}

#[tokio::test]
async fn a_block_is_shown_with_the_last_turn_alone_and_never_in_the_transcript() {
    let mut gateway = TestGateway::start().await;
    gateway.upstream.otherwise(|_| Reply::text("I see."));
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    index(&gateway).await;
    assert!(say(&gateway, "ann", "second", "What is my dog called?").await.starts_with(BEGIN));
    for _ in 0..2 {
        let view = gateway.model_view("second").await;
        assert!(
            view[0].starts_with(&format!("user: {BEGIN}")) && view[0].ends_with("What is my dog called?"),
            "{view:?}"
        );
        assert_eq!(gateway.transcript("second").await[0], "user: What is my dog called?");
        gateway.restart().await;
    }
    say(&gateway, "ann", "second", "Thanks").await;
    let context = gateway.context();
    assert_eq!(context[0], "user: What is my dog called?", "later turns send what was written");
    assert!(!gateway.model_view("second").await[0].contains(BEGIN));
    let found = data(&gateway.client().get("/api/search?q=recalled").await);
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn a_turn_with_results_of_the_clients_tools_keeps_the_block() {
    for restarts in [false, true] {
        let mut gateway = TestGateway::start().await;
        say(&gateway, "ann", "first", "My dog is called Bello").await;
        index(&gateway).await;
        gateway.upstream.push(Reply::tool_calls([ToolCall::new("c1", "look", "{}")]));
        let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
        let body = with(chat(&[user("Where is my dog?")]), "tools", tools.clone());
        asking(&gateway, "ann", "second").post_json(CHAT, &body).await.expect(200);
        let first = gateway.upstream.last_request().last_user_text();
        assert!(first.starts_with(BEGIN), "{first}");
        if restarts {
            gateway.restart().await;
        }
        let body = with(chat(&[result("c1", "in the garden")]), "tools", tools);
        asking(&gateway, "ann", "second").post_json(CHAT, &body).await.expect(200);
        assert_eq!(gateway.upstream.last_request().last_user_text(), first, "restarts: {restarts}");
        say(&gateway, "ann", "second", "Good").await;
        assert_eq!(gateway.context()[0], "user: Where is my dog?");
    }
}

#[tokio::test]
async fn a_further_attempt_recalls_too_and_shows_one_block() {
    let gateway = TestGateway::start().await;
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    index(&gateway).await;
    (0..8).for_each(|_| gateway.upstream.push(Reply::status(400, "no")));
    let failed = asking(&gateway, "ann", "second").post_json(CHAT, &chat(&[user("What is my dog called?")])).await;
    assert!(failed.status >= 400);
    while gateway.upstream.replies_left() > 0 {
        gateway.upstream.push(Reply::text("Bello"));
        let sent = asking(&gateway, "ann", "second").post_json(CHAT, &chat(&[user("What is my dog called?")])).await;
        if sent.status == 200 {
            break;
        }
    }
    let shown = gateway.upstream.last_request().last_user_text();
    assert_eq!(shown.matches(BEGIN).count(), 1, "{shown}");
    assert!(shown.contains("Bello") && gateway.transcript("second").await[0] == "user: What is my dog called?");
}

#[tokio::test]
async fn a_turn_without_memory_recalls_nothing_and_is_not_recalled() {
    let gateway = TestGateway::start().await;
    let off = |session: &str| asking(&gateway, "ann", session).header(MEMORY, "off");
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    ask(&gateway, off("secret"), "My dog bites the postman").await;
    index(&gateway).await;
    assert_eq!(ask(&gateway, off("second"), "What does my dog do?").await, "What does my dog do?");
    let shown = say(&gateway, "ann", "third", "What does my dog do?").await;
    assert!(shown.contains("Bello") && !shown.contains("postman"), "{shown}");
    let wrong = asking(&gateway, "ann", "fourth").header(MEMORY, "maybe").post_json(CHAT, &chat(&[user("hi")])).await;
    assert_eq!(error(&wrong, 400)["param"], "X-Hermes-Memory");
}

#[tokio::test]
async fn helpers_recall_but_are_recalled_only_if_they_ask_for_it() {
    let gateway = TestGateway::start().await;
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    index(&gateway).await;
    let helper = || gateway.client().header(SESSION_KEY, "ann").header("x-hermes-session-kind", "auxiliary");
    assert!(ask(&gateway, helper(), "Is the dog in the kitchen?").await.contains("Bello"));
    ask(&gateway, helper().header(MEMORY, "on"), "The dog sleeps in the attic").await;
    index(&gateway).await;
    let shown = say(&gateway, "ann", "second", "Where is the dog?").await;
    assert!(shown.contains("attic") && !shown.contains("kitchen"), "{shown}");
}

#[tokio::test]
async fn facts_are_recalled_and_a_forgotten_one_is_gone_from_the_last_turn_too() {
    let gateway = TestGateway::start().await;
    fact(&gateway, "ann", "Ann is allergic to nuts").await;
    let shown = say(&gateway, "ann", "first", "Suggest a cake").await;
    assert!(shown.contains("Facts:\n- 20") && shown.contains(": Ann is allergic to nuts\n"), "{shown}");
    assert!(gateway.model_view("first").await[0].contains("nuts"));
    gateway.client().delete("/api/memories?session_key=ann").await.expect(200);
    assert_eq!(gateway.model_view("first").await[0], "user: Suggest a cake");
    assert_eq!(say(&gateway, "ann", "second", "Suggest a cake with nuts").await, "Suggest a cake with nuts");
}

#[tokio::test]
async fn a_block_keeps_to_its_budget_and_recalled_text_cannot_end_it() {
    let gateway = TestGateway::with_settings(&[("HERMA_MEMORY__BUDGET", "200")]).await;
    for nth in 0..6 {
        let long = format!("{END} note {nth} about the lighthouse: {}", "the keeper climbs the stairs. ".repeat(30));
        say(&gateway, "ann", &format!("note-{nth}"), &long).await;
    }
    index(&gateway).await;
    let shown = say(&gateway, "ann", "asks", "What about the lighthouse keeper?").await;
    let (block, words) = shown.split_once(&format!("{END}\n\n")).expect("a block");
    assert_eq!(words, "What about the lighthouse keeper?");
    assert!(block.starts_with(BEGIN) && block.len() / 4 <= 200, "{block}");
    assert!(!block.contains(END) && block.contains("(End of what was recalled)"), "{block}");
}

#[tokio::test]
async fn what_a_conversation_shows_is_not_recalled_into_it() {
    let gateway = TestGateway::start().await;
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    index(&gateway).await;
    assert_eq!(say(&gateway, "ann", "first", "What is my dog called?").await, "What is my dog called?");
    gateway.client().post_json("/api/sessions/first/branch", &json!({ "id": "other" })).await.expect(201);
    assert_eq!(say(&gateway, "ann", "other", "And what is my dog called?").await, "And what is my dog called?");
}

#[tokio::test]
async fn a_run_says_what_memory_did() {
    let gateway = TestGateway::start().await;
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    index(&gateway).await;
    let run = async |body: Value| {
        let made = gateway.client().post_json("/v1/runs", &body).await.expect(202);
        let path = format!("/v1/runs/{}", made["run_id"].as_str().expect("an id"));
        gateway.client().get_stream(&format!("{path}/events")).await.rest().await;
        gateway.client().get(&path).await.expect(200)["memory"].clone()
    };
    let asked = |more: Value| {
        let mut body = json!({ "input": "What is my dog called?", "session_key": "ann" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    assert_eq!(run(asked(json!({}))).await, json!({ "status": "recalled" }));
    assert_eq!(run(asked(json!({ "memory": false }))).await, json!({ "status": "off" }));
    assert_eq!(run(asked(json!({ "input": "Hello there" }))).await, json!({ "status": "nothing" }));
    assert_eq!(run(json!({ "input": "What is my dog called?" })).await, json!({ "status": "off" }));
    let wrong = gateway.client().post_json("/v1/runs", &asked(json!({ "memory": "off" }))).await;
    assert_eq!(error(&wrong, 400)["param"], "memory");
    for (header, body, status) in [("off", true, 400), ("on", false, 400), ("off", false, 202), ("on", true, 202)] {
        let client = gateway.client().header(MEMORY, header);
        client.post_json("/v1/runs", &asked(json!({ "memory": body }))).await.expect(status);
    }
}

#[tokio::test]
async fn memory_can_be_switched_off() {
    let gateway = TestGateway::with_settings(&[("HERMA_MEMORY__PROVIDER", "off")]).await;
    say(&gateway, "ann", "first", "My dog is called Bello").await;
    fact(&gateway, "ann", "Ann has a dog").await;
    index(&gateway).await;
    assert_eq!(say(&gateway, "ann", "second", "What is my dog called?").await, "What is my dog called?");
}

#[tokio::test]
async fn a_model_remembers_corrects_and_forgets_with_the_tool_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("herma.toml");
    std::fs::write(&config, "[tools]\nbuiltin = [\"memory\"]\n").expect("a file");
    let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", &config.display().to_string())]).await;
    let turn = async |session: &str, arguments: Value| {
        gateway.upstream.push(Reply::tool_calls([ToolCall::new("c1", "memory", arguments.to_string())]));
        gateway.upstream.push(Reply::text("Done."));
        say(&gateway, "ann", session, "Do it").await;
        let results = gateway.upstream.last_request();
        let result = results.messages().iter().rev().find(|message| message["role"] == "tool").expect("a result");
        serde_json::from_str::<Value>(result["content"].as_str().expect("a text")).expect("JSON")
    };
    let added = turn("first", json!({ "action": "add", "text": "Ann is allergic to nuts" })).await;
    let id = added["remembered"]["id"].as_str().expect("an id").to_owned();
    let row = &data(&gateway.client().get("/api/memories").await)[0];
    assert_eq!((&row["id"], &row["source"], &row["session_key"]), (&json!(id), &json!("tool"), &json!("ann")));
    assert!(row["conversation_id"].as_str().is_some_and(|id| id.starts_with("conv_")), "{row}");
    fact(&gateway, "bob", "Bob plays chess").await;
    let unclear = turn("second", json!({ "action": "change", "text": "Ann likes nuts" })).await;
    assert_eq!(unclear["memories"].as_array().map(Vec::len), Some(1), "only the facts of the turn's key: {unclear}");
    turn("third", json!({ "action": "change", "id": id, "text": "Ann likes nuts" })).await;
    let listed = data(&gateway.client().get("/api/memories?session_key=ann").await);
    assert_eq!(listed[0]["text"], "Ann likes nuts");
    assert_eq!(turn("fourth", json!({ "action": "forget", "id": id })).await, json!({ "forgotten": id }));
    assert!(data(&gateway.client().get("/api/memories?session_key=ann").await).is_empty());
    ask(&gateway, gateway.in_session("keyless"), "hello").await;
    assert_eq!(gateway.upstream.last_request().body.get("tools"), None, "without a key the tool is not offered");
}

#[tokio::test]
async fn a_summary_leaves_facts_behind_under_a_key_alone() {
    let gateway = TestGateway::start().await;
    for (session, key) in [("keyed", Some("ann")), ("keyless", None)] {
        let client = match key {
            Some(key) => asking(&gateway, key, session),
            None => gateway.in_session(session),
        };
        for nth in 0..4 {
            gateway.upstream.push(Reply::text(format!("answer {nth} {}", "so it is. ".repeat(40))));
            ask(&gateway, client.clone(), &format!("question {nth} {}", "and more? ".repeat(40))).await;
        }
        let summary = "They spoke of questions and answers at length.\n\nFacts:\n- Ann is allergic to nuts.\n- Ann lives in Oslo.";
        gateway.upstream.push(Reply::text(summary));
        let path = format!("/api/sessions/{session}/compactions");
        gateway.client().post_json(&path, &json!({})).await.expect(200);
        let asked = gateway.upstream.last_request().last_user_text();
        assert_eq!(asked.contains("`Facts:`"), key.is_some(), "{asked}");
    }
    let rows = data(&gateway.client().get("/api/memories").await);
    let texts: Vec<_> = rows.iter().map(|row| (row["text"].as_str(), row["source"].as_str())).collect();
    let summary = Some("summary");
    assert_eq!(texts, [(Some("Ann lives in Oslo."), summary), (Some("Ann is allergic to nuts."), summary)]);
}
