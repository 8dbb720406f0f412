//! What was deleted, corrected or said without memory does not come back through blocks, summaries or a later key.

use std::time::Duration;

use herma_testkit::{Gate, Reply, ToolCall};
use serde_json::{Value, json};

use crate::erasure::until_nothing_is_pending;
use crate::recall::{BEGIN, MEMORY, ask, asking, fact, index, say};
use crate::support::{CHAT, TestGateway, chat, data, result, user, with};

fn look() -> Value {
    json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}])
}

/// A turn that ends with a call of a client's tool. Returns what the model was shown.
async fn call(gateway: &TestGateway, session: &str, text: &str) -> String {
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("c1", "look", "{}")]));
    let body = with(chat(&[user(text)]), "tools", look());
    asking(gateway, "ann", session).post_json(CHAT, &body).await.expect(200);
    gateway.upstream.last_request().last_user_text()
}

/// The turn that brings the result. Returns what the model was shown.
async fn bring(gateway: &TestGateway, session: &str) -> String {
    let body = with(chat(&[result("c1", "in the garden")]), "tools", look());
    asking(gateway, "ann", session).post_json(CHAT, &body).await.expect(200);
    gateway.upstream.last_request().last_user_text()
}

async fn id_of_fact(gateway: &TestGateway) -> String {
    data(&gateway.client().get("/api/memories?session_key=ann").await)[0]["id"].as_str().expect("an id").to_owned()
}

/// Whether a file of the data directory has a text.
fn is_in_files(gateway: &TestGateway, text: &str) -> bool {
    let files = std::fs::read_dir(gateway.herma.data()).expect("a directory");
    files
        .filter_map(|file| std::fs::read(file.expect("a file").path()).ok())
        .any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
}

#[tokio::test]
async fn a_block_is_not_shown_again_after_what_it_quotes_was_deleted_or_corrected() {
    for change in ["conversation", "message", "corrected", "forgotten", "all"] {
        let gateway = TestGateway::start().await;
        if ["conversation", "message"].contains(&change) {
            say(&gateway, "ann", "first", "My bittern is called Bello").await;
            index(&gateway).await;
        } else {
            fact(&gateway, "ann", "Ann has a bittern called Bello").await;
        }
        assert!(call(&gateway, "second", "Where is my bittern?").await.contains("Bello"), "{change}");
        let client = gateway.client();
        match change {
            "conversation" => client.delete("/api/sessions/first").await.expect(200),
            "message" => {
                let items = data(&client.get("/v1/conversations/first/items?order=asc").await);
                let path = format!("/v1/conversations/first/items/{}", items[0]["id"].as_str().expect("an id"));
                client.delete(&path).await.expect(200)
            }
            "all" => client.delete("/api/memories?session_key=ann").await.expect(200),
            _ => {
                let path = format!("/api/memories/{}", id_of_fact(&gateway).await);
                match change {
                    "corrected" => {
                        client.send_json("PATCH", &path, &json!({ "text": "Ann has no bird" })).await.expect(200)
                    }
                    _ => client.delete(&path).await.expect(200),
                }
            }
        };
        let shown = bring(&gateway, "second").await;
        assert_eq!(shown, "Where is my bittern?", "{change}");
        assert_eq!(gateway.model_view("second").await[0], "user: Where is my bittern?", "{change}");
    }
}

#[tokio::test]
async fn a_block_that_quotes_other_things_is_kept() {
    let gateway = TestGateway::start().await;
    fact(&gateway, "ann", "Ann likes tea").await;
    let tea = id_of_fact(&gateway).await;
    say(&gateway, "ann", "first", "My bittern is called Bello").await;
    say(&gateway, "ann", "other", "I live in Oslo").await;
    index(&gateway).await;
    let first = call(&gateway, "second", "Where is my bittern?").await;
    assert!(first.contains("Bello"));
    fact(&gateway, "ann", "Ann likes rain").await;
    gateway.client().delete("/api/sessions/other").await.expect(200);
    assert_eq!(bring(&gateway, "second").await, first);
    gateway.client().delete(&format!("/api/memories/{tea}")).await.expect(200);
}

#[tokio::test]
async fn a_turn_that_runs_during_an_erasure_leaves_nothing_of_what_it_recalled() {
    for path in ["/api/sessions/first", "/api/memories?session_key=ann"] {
        let gateway = TestGateway::start().await;
        if path.contains("sessions") {
            say(&gateway, "ann", "first", "My stork is called Racewordqq").await;
            index(&gateway).await;
        } else {
            fact(&gateway, "ann", "Ann has a stork called Racewordqq").await;
        }
        let gate = Gate::new();
        let before = gateway.upstream.requests().len();
        gateway.upstream.push(Reply::text("I see.").held(&gate));
        let client = asking(&gateway, "ann", "second");
        let running =
            tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("What about my stork?")])).await.status });
        let mut polls = tokio::time::interval(Duration::from_millis(20));
        while gateway.upstream.requests().len() == before {
            polls.tick().await;
        }
        assert!(gateway.upstream.last_request().last_user_text().contains("Racewordqq"), "{path}");
        let erased = gateway.client().delete(path).await;
        if path.contains("sessions") {
            until_nothing_is_pending(&gateway.client(), &erased.expect(200)).await;
        }
        gate.open();
        assert_eq!(running.await.expect("an answer"), 200);
        let view = gateway.model_view("second").await;
        assert_eq!(view[0], "user: What about my stork?", "{path}");
        if path.contains("sessions") {
            assert!(!is_in_files(&gateway, "Racewordqq"));
        }
    }
}

/// Fills a conversation, so that there is something to summarise.
async fn fill(gateway: &TestGateway, session: &str, nth: usize, memory: Option<&str>) {
    let client = asking(gateway, "ann", session);
    let client = memory.map_or_else(|| client.clone(), |memory| client.clone().header(MEMORY, memory));
    gateway.upstream.push(Reply::text(format!("answer {nth} {}", "so it is. ".repeat(40))));
    ask(gateway, client, &format!("question {nth} {}", "and more? ".repeat(40))).await;
}

/// Compacts a conversation, and returns what the summariser was shown.
async fn compact(gateway: &TestGateway, session: &str, summary: &str) -> String {
    gateway.upstream.push(Reply::text(summary));
    gateway.client().post_json(&format!("/api/sessions/{session}/compactions"), &json!({})).await.expect(200);
    gateway.upstream.last_request().last_user_text()
}

async fn facts(gateway: &TestGateway) -> Vec<String> {
    let rows = data(&gateway.client().get("/api/memories?session_key=ann").await);
    rows.iter().map(|row| row["text"].as_str().expect("a text").to_owned()).collect()
}

const SUMMARY: &str = "They spoke of questions and answers at length.\n\nFacts:\n- Ann lives in Oslo.";

#[tokio::test]
async fn a_summary_of_turns_without_memory_leaves_no_facts() {
    let gateway = TestGateway::start().await;
    for nth in 0..4 {
        fill(&gateway, "secret", nth, (nth == 1).then_some("off")).await;
    }
    assert!(!compact(&gateway, "secret", SUMMARY).await.contains("`Facts:`"));
    for nth in 4..8 {
        fill(&gateway, "secret", nth, None).await;
    }
    let later = compact(&gateway, "secret", SUMMARY).await;
    assert!(!later.contains("`Facts:`"), "the summary before it has words of that turn: {later}");
    assert_eq!(facts(&gateway).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_fact_that_was_corrected_does_not_return_with_the_next_summary() {
    let gateway = TestGateway::start().await;
    for nth in 0..4 {
        fill(&gateway, "trip", nth, None).await;
    }
    compact(&gateway, "trip", SUMMARY).await;
    assert_eq!(facts(&gateway).await, ["Ann lives in Oslo."]);
    let view = gateway.model_view("trip").await;
    assert!(view[0].contains("at length.") && !view[0].contains("Oslo"), "{view:?}");
    let path = format!("/api/memories/{}", id_of_fact(&gateway).await);
    gateway.client().send_json("PATCH", &path, &json!({ "text": "Ann lives in Rome." })).await.expect(200);
    for nth in 4..8 {
        fill(&gateway, "trip", nth, None).await;
    }
    let asked = compact(&gateway, "trip", "They went on for a long time.\n\nFacts:\n- Ann likes tea.").await;
    assert!(asked.contains("at length.") && !asked.contains("Oslo") && !asked.contains("Rome"), "{asked}");
    assert_eq!(facts(&gateway).await, ["Ann likes tea.", "Ann lives in Rome."]);
}

#[tokio::test]
async fn a_turn_without_memory_stays_so_if_its_conversation_gets_a_key_later() {
    let gateway = TestGateway::start().await;
    let keyless = || gateway.in_session("trip").header(MEMORY, "off");
    ask(&gateway, keyless(), "My walrus is called Bello").await;
    ask(&gateway, gateway.in_session("trip"), "My walrus likes herring").await;
    say(&gateway, "ann", "trip", "I am Ann").await;
    index(&gateway).await;
    let shown = say(&gateway, "ann", "second", "What about my walrus?").await;
    assert!(shown.starts_with(BEGIN) && shown.contains("herring") && !shown.contains("Bello"), "{shown}");
}

#[tokio::test]
async fn helpers_and_background_runs_are_offered_the_tool_memory_only_if_they_are_recorded() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("herma.toml");
    std::fs::write(&config, "[tools]\nbuiltin = [\"memory\"]\n").expect("a file");
    let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", &config.display().to_string())]).await;
    for (kind, memory, is_offered) in [
        ("main", None, true),
        ("main", Some(false), false),
        ("auxiliary", None, false),
        ("auxiliary", Some(true), true),
        ("background", None, false),
        ("background", Some(true), true),
    ] {
        let mut body = json!({ "input": "hello", "session_key": "ann", "kind": kind });
        if let Some(memory) = memory {
            body["memory"] = json!(memory);
        }
        let run = gateway.client().post_json("/v1/runs", &body).await.expect(202);
        let path = format!("/v1/runs/{}/events", run["run_id"].as_str().expect("an id"));
        gateway.client().get_stream(&path).await.rest().await;
        let tools = gateway.upstream.last_request().body.get("tools").cloned();
        assert_eq!(tools.is_some(), is_offered, "{kind} {memory:?}");
    }
}

#[tokio::test]
async fn a_summary_in_parts_keeps_the_facts_of_all_parts() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("herma.toml");
    let settings = "[compaction]\nmodel = \"small\"\n[models.small]\ncontext_window = 2000\n";
    std::fs::write(&config, settings).expect("a file");
    let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", &config.display().to_string())]).await;
    for nth in 0..12 {
        fill(&gateway, "trip", nth, None).await;
    }
    let before = gateway.upstream.requests().len();
    for fact in ["Ann lives in Oslo.", "Ann likes tea.", "Ann lives in Oslo."] {
        gateway.upstream.push(Reply::text(format!("They spoke at length.\n\nFacts:\n- {fact}")));
    }
    gateway.upstream.otherwise(|_| Reply::text("They spoke at length."));
    gateway.client().post_json("/api/sessions/trip/compactions", &json!({})).await.expect(200);
    let parts = gateway.upstream.requests().len() - before;
    assert!(parts > 2, "{parts}");
    let mut facts = facts(&gateway).await;
    facts.sort();
    assert_eq!(facts, ["Ann likes tea.", "Ann lives in Oslo."]);
}

#[tokio::test]
async fn without_facts_a_summary_keeps_all_that_the_model_wrote() {
    let gateway = TestGateway::with_settings(&[("HERMA_MEMORY__FACTS", "false")]).await;
    for nth in 0..4 {
        fill(&gateway, "trip", nth, None).await;
    }
    assert!(!compact(&gateway, "trip", SUMMARY).await.contains("`Facts:`"));
    assert_eq!(facts(&gateway).await, Vec::<String>::new());
    assert!(gateway.model_view("trip").await[0].contains("Ann lives in Oslo."));
}

#[tokio::test]
async fn a_turn_that_failed_before_the_key_came_does_not_keep_facts_out_of_summaries() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    gateway.upstream.push(Reply::status(400, "no"));
    gateway.in_session("trip").post_json(CHAT, &chat(&[user("hello")])).await.expect(502);
    for nth in 0..4 {
        fill(&gateway, "trip", nth, None).await;
    }
    compact(&gateway, "trip", SUMMARY).await;
    assert_eq!(facts(&gateway).await, ["Ann lives in Oslo."]);
}
