//! Deleting a conversation or a session key: the receipt, and what the files of the data directory still have.

use std::path::Path;

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::KeyScope;
use herma_store::Store as _;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Client, Completion, PATIENCE, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, SESSION_KEY, TestGateway, chat, streamed, user};

/// Asks for the receipt until nothing is pending.
pub(crate) async fn until_nothing_is_pending(client: &Client, receipt: &Value) -> Value {
    let path = format!("/api/erasures/{}", receipt["id"].as_str().expect("an id"));
    let began = std::time::Instant::now();
    loop {
        let now = client.get(&path).await.expect(200);
        if now["pending"] == 0 {
            return now;
        }
        assert!(began.elapsed() < PATIENCE, "{now}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The words that some file below the directory has.
pub(crate) fn found(directory: &Path, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(self::found(&path, words));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let here = words.iter().filter(|word| text.contains(**word));
        found.extend(here.map(|word| format!("{word} in {}", path.display())));
    }
    found
}

async fn key_of(gateway: &TestGateway, tenant: &str, session_keys: Option<&str>) -> Client {
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).unwrap();
    let key = create_key(&store, KeyGrant::of(tenant).for_session_keys(KeyScope::parse(session_keys))).await.unwrap();
    store.close().await;
    Client::new(gateway.herma.base_url()).key(&key.secret)
}

#[tokio::test]
async fn a_deletion_answers_with_a_receipt_that_can_be_read_again() {
    let gateway = TestGateway::start().await;
    let first = gateway.say("trip", "to Rome").await.expect(200);
    gateway.say("trip", "and back").await.expect(200);
    let branch = json!({"id": "twig"});
    let rows = gateway.rows("trip").await;
    let at = json!({"id": "twig", "at": rows[1]["id"]});
    gateway.client().post_json("/api/sessions/trip/branch", &at).await.expect(201);
    let receipt = gateway.client().delete("/api/sessions/trip").await.expect(200);
    assert_eq!(
        receipt,
        json!({
            "object": "erasure", "id": receipt["id"], "conversation_id": first["session"]["conversation_id"],
            "removed": receipt["removed"], "left": 0, "kept": 2, "pending": receipt["pending"],
        })
    );
    assert_eq!(
        receipt["removed"],
        json!({
            "conversations": 1, "sessions": 0, "messages": 2, "turns": 1, "compactions": 0, "names": 2,
            "events": receipt["removed"]["events"], "memories": 0,
        })
    );
    assert_ne!(receipt["pending"], 0, "{receipt}");
    let done = until_nothing_is_pending(&gateway.client(), &receipt).await;
    assert_eq!((&done["id"], &done["removed"], &done["kept"]), (&receipt["id"], &receipt["removed"], &json!(2)));
    gateway.client().delete("/api/sessions/trip").await.expect(404);
    gateway.client().post_json("/api/sessions", &branch).await.expect(409);

    let rest = gateway.client().delete("/api/sessions/twig").await.expect(200);
    assert_eq!((&rest["removed"]["messages"], &rest["kept"]), (&json!(2), &json!(0)), "the inherited ones go too");
    gateway.client().get(&format!("/api/erasures/era_{}", "0".repeat(32))).await.expect(404);
    gateway.client().get("/api/erasures/trip").await.expect(404);
}

#[tokio::test]
async fn erased_text_is_in_no_file_when_nothing_is_pending() {
    let settings = [("HERMA_CONTEXT_WINDOW", "4000"), ("HERMA_COMPACTION__KEEP_RECENT", "0.01")];
    let mut gateway = TestGateway::with_settings(&settings).await;
    let words = [
        "questionquokka",
        "answeraxolotl",
        "titletapir",
        "metadatamarmot",
        "streamedsalamander",
        "responseraccoon",
        "summarysloth",
        "slugsquirrel",
        "systemstoat",
        "keykestrel",
        "branchbadger",
        "failedferret",
        "inputibex",
        "factfalcon",
    ];
    let words: Vec<&str> = words.to_vec();
    let client = || gateway.in_session("slugsquirrel").header(SESSION_KEY, "agent:keykestrel");
    gateway.upstream.push(Reply::text("answeraxolotl"));
    let system = json!({"role": "system", "content": "systemstoat"});
    let keyed = client().header("idempotency-key", "once");
    keyed
        .post_json(CHAT, &chat(&[system, user(&format!("questionquokka {}", "and so on ".repeat(150)))]))
        .await
        .expect(200);
    gateway.upstream.push(Completion::chunks(["streamed", "salamander and more"]).into());
    client().post_stream(CHAT, &streamed(chat(&[user("go on")]))).await.rest().await;
    gateway.upstream.push(Reply::text("responseraccoon"));
    let asked = json!({"input": "inputibex", "metadata": {"note": "metadatamarmot"}});
    client().post_json("/v1/responses", &asked).await.expect(200);
    gateway.upstream.push(Reply::status(400, "failedferret"));
    client().post_json(CHAT, &chat(&[user("once more")])).await;
    let change = json!({"title": "titletapir", "metadata": {"animal": "metadatamarmot"}});
    gateway.client().send_json("PATCH", "/api/sessions/slugsquirrel", &change).await.expect(200);
    gateway.upstream.push(Reply::text("summarysloth. ".repeat(20)));
    let compacted = gateway.client().post_json("/api/sessions/slugsquirrel/compactions", &json!({})).await;
    assert!(compacted.status < 300, "{}", compacted.text());
    gateway.client().post_json("/api/sessions/slugsquirrel/branch", &json!({"id": "twig"})).await.expect(201);
    gateway.upstream.push(Reply::text("of the branch"));
    gateway.in_session("twig").post_json(CHAT, &chat(&[user("branchbadger")])).await.expect(200);
    let fact = json!({"text": "likes the factfalcon", "session_key": "agent:keykestrel"});
    assert!(gateway.client().post_json("/api/memories", &fact).await.status < 300);
    // A turn that recalls the fact stores it in its own block.
    let asked = chat(&[user("what about the factfalcon?")]);
    gateway.in_session("recalls").header(SESSION_KEY, "agent:keykestrel").post_json(CHAT, &asked).await.expect(200);
    // Other conversations move rows between pages.
    for round in 0..30 {
        let text = "filler ".repeat(1 + (round * 37) % 300);
        gateway.say(&format!("other-{}", round % 5), &text).await.expect(200);
        let title = json!({"title": "t".repeat(1 + (round * 53) % 200)});
        gateway.client().send_json("PATCH", &format!("/api/sessions/other-{}", round % 5), &title).await.expect(200);
    }
    let hits = gateway.client().get("/api/search?q=questionquokka").await.expect(200);
    assert_ne!(hits["data"], json!([]));
    assert_ne!(found(gateway.herma.data(), &words), <[String; 0]>::default());

    let receipt = gateway.client().delete("/api/session-keys/agent:keykestrel").await.expect(200);
    assert_eq!(
        (&receipt["removed"]["conversations"], &receipt["left"], &receipt["kept"]),
        (&json!(3), &json!(0), &json!(0))
    );
    assert_eq!(receipt["removed"]["memories"], 1, "{receipt}");
    until_nothing_is_pending(&gateway.client(), &receipt).await;
    // A name that a client chose is an id: the event of the deletion has it.
    let text: Vec<&str> = words.iter().copied().filter(|word| *word != "slugsquirrel").collect();
    assert_eq!(found(gateway.herma.data(), &text), <[String; 0]>::default());
    gateway.say("other-0", "still here").await.expect(200);
    gateway.herma.terminate();
    gateway.herma.wait().await;
    assert_eq!(found(gateway.herma.data(), &text), <[String; 0]>::default());
}

#[tokio::test]
async fn a_session_key_is_erased_with_all_its_conversations_and_no_others() {
    let gateway = TestGateway::start().await;
    for (session, key) in [("one", "agent:ann"), ("two", "agent:ann"), ("three", "agent:Ann"), ("four", "agent:ann.")] {
        let client = gateway.in_session(session).header(SESSION_KEY, key);
        client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    }
    gateway.say("keyless", "hello").await.expect(200);
    let receipt = gateway.client().delete("/api/session-keys/agent:ann").await.expect(200);
    assert_eq!(receipt["removed"]["conversations"], 2);
    assert!(receipt.get("conversation_id").is_none(), "{receipt}");
    let mut left: Vec<String> =
        gateway.sessions().await.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    left.sort();
    assert_eq!(left, ["four", "keyless", "three"]);
    let again = gateway.client().delete("/api/session-keys/agent:ann").await;
    assert_eq!(again.expect(404)["error"]["code"], "not_found");
}

#[tokio::test]
async fn a_key_whose_turn_runs_is_not_erased() {
    let gateway = TestGateway::start().await;
    let gate = herma_testkit::Gate::new();
    gateway.upstream.push(Reply::text("slowly").held(&gate));
    let client = gateway.in_session("busy").header(SESSION_KEY, "agent:ann");
    let running = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("hello")])).await });
    gateway.upstream.until_requests(1).await;
    let refused = gateway.client().delete("/api/session-keys/agent:ann").await;
    assert_eq!(refused.expect(409)["error"]["code"], "conversation_busy");
    gate.open();
    running.await.unwrap().expect(200);
    gateway.client().delete("/api/session-keys/agent:ann").await.expect(200);
}

#[tokio::test]
async fn a_receipt_is_read_by_its_tenant_and_a_limited_key_reads_only_its_own() {
    let gateway = TestGateway::start().await;
    let limited = key_of(&gateway, "default", Some("agent:ann")).await;
    let stranger = key_of(&gateway, "elsewhere", None).await;
    let mut receipts = Vec::new();
    for client in [gateway.client(), limited.clone()] {
        let named = client.clone().header(SESSION_ID, "trip").header(SESSION_KEY, "agent:ann");
        named.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
        receipts.push(client.delete("/api/sessions/trip").await.expect(200));
    }
    let status = async |client: &Client, receipt: &Value| {
        client.get(&format!("/api/erasures/{}", receipt["id"].as_str().unwrap())).await.status
    };
    assert_eq!(
        (status(&gateway.client(), &receipts[0]).await, status(&gateway.client(), &receipts[1]).await),
        (200, 200)
    );
    assert_eq!((status(&limited, &receipts[0]).await, status(&limited, &receipts[1]).await), (404, 200));
    assert_eq!((status(&stranger, &receipts[0]).await, status(&stranger, &receipts[1]).await), (404, 404));
    let not_allowed = limited.delete("/api/session-keys/agent:bob").await;
    assert_eq!(not_allowed.expect(404)["error"]["code"], "not_found");
}

#[tokio::test]
async fn a_receipt_that_was_pending_when_the_server_was_killed_is_done_by_the_next_one() {
    let mut gateway = TestGateway::start().await;
    gateway.say("trip", "questionquokka").await.expect(200);
    let receipt = gateway.client().delete("/api/sessions/trip").await.expect(200);
    gateway.restart().await;
    until_nothing_is_pending(&gateway.client(), &receipt).await;
    assert_eq!(found(gateway.herma.data(), &["questionquokka"]), <[String; 0]>::default());
}

#[tokio::test]
async fn the_memory_of_a_session_key_is_erased_with_it() {
    let gateway = TestGateway::start().await;
    let fact = json!({"text": "likes the sea", "session_key": "agent:ann"});
    assert!(gateway.client().post_json("/api/memories", &fact).await.status < 300);
    let receipt = gateway.client().delete("/api/session-keys/agent:ann").await.expect(200);
    assert_eq!((&receipt["removed"]["memories"], &receipt["removed"]["conversations"]), (&json!(1), &json!(0)));
    let left = gateway.client().get("/api/memories?session_key=agent:ann").await.expect(200);
    assert_eq!(left["data"], json!([]));
    gateway.client().delete("/api/session-keys/agent:ann").await.expect(404);
}

#[tokio::test]
async fn what_memories_may_be_is_said() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "hello").await.expect(200);
    let refused = gateway.client().delete("/api/sessions/trip?memories=some").await;
    assert_eq!(refused.expect(400)["error"]["param"], "memories");
    gateway.client().delete("/api/sessions/trip?memories=keep").await.expect(200);
}
