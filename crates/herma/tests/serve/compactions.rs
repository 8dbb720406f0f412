//! The ledger of compactions, compactions on request, undo, and pinned messages.

use herma_gateway::access::{KeyGrant, create_key};
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Answer, Client, Herma, Launch};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, chat, data, error, lines, streamed, user};

const LEDGER: &str = "/api/sessions/trip/compactions";
const MESSAGES: &str = "/api/sessions/trip/messages?limit=200";
const MODEL_VIEW: &str = "/api/sessions/trip/messages?view=model&limit=200";

/// A gateway with the offline model, which also writes summaries.
async fn offline(window: &str) -> Herma {
    Launch::serve(env!("CARGO_BIN_EXE_herma")).args(["--context-window", window]).start().await
}

/// A message that is longer than its summary.
fn long(number: usize) -> String {
    format!("message {number}: {}", "we went on and saw one more thing. ".repeat(16))
}

/// A conversation that is long enough for a compaction on request, but too short for an automatic one.
async fn trip() -> Herma {
    let herma = offline("8000").await;
    let client = herma.client().header(SESSION_ID, "trip");
    for number in 1..=12 {
        client.post_json(CHAT, &chat_offline(&long(number))).await.expect(200);
    }
    herma
}

fn chat_offline(text: &str) -> Value {
    let mut body = chat(&[user(text)]);
    body["model"] = json!("offline");
    body
}

async fn compact(client: &Client, body: &Value) -> Answer {
    client.post_json(LEDGER, body).await
}

async fn view(client: &Client, path: &str) -> Vec<String> {
    lines(&data(&client.get(path).await))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is to be a text"))
}

/// Checks that an answer is a 409 with this code that SDKs do not retry.
fn final_refusal(answer: &Answer, code: &str) -> Value {
    let error = error(answer, 409);
    assert_eq!((error["code"].as_str(), answer.header("x-should-retry")), (Some(code), Some("false")), "{error}");
    error
}

#[tokio::test]
async fn a_split_is_a_row_of_the_ledger_and_every_old_name_leads_to_the_new_head() {
    let herma = trip().await;
    let client = herma.client();
    assert_eq!(data(&client.get(LEDGER).await), Vec::<Value>::new());
    let mut row = compact(&client, &json!({})).await.expect(200);
    let head = text(&row["session_after"]).to_owned();
    assert!(text(&row["id"]).starts_with("cmp_") && head.starts_with("sess_"), "{row}");
    for (name, expected) in [
        ("object", json!("compaction")),
        ("action", json!("compact")),
        ("mode", json!("split")),
        ("trigger", json!("manual")),
        ("outcome", json!("applied")),
        ("session_before", json!("trip")),
        ("model", json!("offline")),
        ("error", json!(null)),
        ("undoes", json!(null)),
        ("undone_by", json!(null)),
        ("turn_id", json!(null)),
    ] {
        assert_eq!(row[name], expected, "{name} in {row}");
    }
    assert_eq!(row["range"]["first_seq"], 1);
    assert!(row["tokens_after"].as_u64() < row["tokens_before"].as_u64(), "{row}");
    assert!(text(&row["summary"]).contains("message 1:"), "{row}");
    let session = row.as_object_mut().expect("a row").remove("session").expect("the head after it");
    assert_eq!(
        (&session["session_id"], &session["previous_session_id"], &session["kind"], &session["compaction_count"]),
        (&json!(head), &json!("trip"), &json!("continuation"), &json!(1))
    );
    assert_eq!(data(&client.get(LEDGER).await), [row]);
    let found = client.get("/api/sessions/trip").await.expect(200);
    assert_eq!((&found["id"], &found["provenance"]), (&json!(head), &session));
    for (children, listed) in [("false", vec![head.as_str()]), ("true", vec![head.as_str(), "trip"])] {
        let rows = data(&client.get(&format!("/api/sessions?include_children={children}")).await);
        assert_eq!(rows.iter().map(|row| text(&row["id"])).collect::<Vec<_>>(), listed);
    }
}

#[tokio::test]
async fn the_full_view_keeps_all_that_was_said_and_marks_the_boundary() {
    let herma = trip().await;
    let client = herma.client();
    let (said, shown) = (view(&client, MESSAGES).await, view(&client, MODEL_VIEW).await);
    let done = compact(&client, &json!({})).await.expect(200);
    let rows = data(&client.get(MESSAGES).await);
    let (summaries, messages): (Vec<Value>, Vec<Value>) = rows.into_iter().partition(|row| row["kind"] == "summary");
    assert_eq!(lines(&messages), said);
    assert!(messages.iter().all(|row| row.get("kind").is_none()), "{messages:?}");
    let [summary] = &summaries[..] else { panic!("one boundary is to be marked, not {summaries:?}") };
    let names: Vec<&str> = summary.as_object().expect("a row").keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["id", "object", "seq", "role", "content", "status", "session_id", "kind", "compaction_id", "created_at"]
    );
    assert_eq!(
        (&summary["id"], &summary["compaction_id"], &summary["session_id"], &summary["content"]),
        (&done["summary_message_id"], &done["id"], &done["session_after"], &done["summary"])
    );
    let now = view(&client, MODEL_VIEW).await;
    assert!(now.len() < shown.len() && now[0].contains(text(&done["summary"])), "{now:?}");
    assert_eq!(now.last(), shown.last(), "what is new is kept word for word");
}

#[tokio::test]
async fn an_exact_session_shows_its_own_messages_and_what_the_model_was_shown_at_its_end() {
    let herma = trip().await;
    let client = herma.client();
    let (said, shown) = (view(&client, MESSAGES).await, view(&client, MODEL_VIEW).await);
    let head = text(&compact(&client, &json!({})).await.expect(200)["session_after"]).to_owned();
    client.clone().header(SESSION_ID, "trip").post_json(CHAT, &chat_offline("and home")).await.expect(200);
    assert_eq!(view(&client, &format!("{MESSAGES}&pin=exact")).await, said);
    assert_eq!(view(&client, &format!("{MODEL_VIEW}&pin=exact")).await, shown);
    let new = data(&client.get(&format!("/api/sessions/{head}/messages?pin=exact")).await);
    assert_eq!((new.len(), &new[0]["kind"], &new[1]["content"]), (3, &json!("summary"), &json!("and home")));
    assert!(new.iter().all(|row| row["session_id"] == json!(head)), "{new:?}");
    assert_eq!(view(&client, MESSAGES).await.len(), said.len() + 3);
    for query in ["pin=head", "pin=1"] {
        let refused = client.get(&format!("/api/sessions/trip/messages?{query}")).await;
        assert_eq!(error(&refused, 400)["param"], "pin", "{query}");
    }
}

#[tokio::test]
async fn an_in_place_compaction_keeps_the_session() {
    let herma = trip().await;
    let client = herma.client();
    let row = compact(&client, &json!({"mode": "in_place"})).await.expect(200);
    assert_eq!((&row["mode"], &row["session_after"]), (&json!("in_place"), &json!("trip")));
    let session = &row["session"];
    assert_eq!((&session["session_id"], &session["compaction_mode"]), (&json!("trip"), &json!("in_place")));
    assert_eq!(session.get("previous_session_id"), None, "the head never moved");
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_the_compaction_after_it_writes_that_summary() {
    let herma = trip().await;
    let client = herma.client();
    let before = (client.get("/api/sessions/trip").await.expect(200), view(&client, MODEL_VIEW).await);
    let preview = compact(&client, &json!({"dry_run": true})).await.expect(200);
    let names: Vec<&str> = preview.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "object",
            "dry_run",
            "mode",
            "range",
            "summarised",
            "kept",
            "summary",
            "model",
            "tokens_before",
            "tokens_after",
            "usage",
            "duration_ms"
        ]
    );
    assert_eq!((&preview["object"], &preview["dry_run"]), (&json!("compaction.preview"), &json!(true)));
    let kept = preview["kept"].as_array().expect("messages");
    assert_eq!(kept.len() as u64 + preview["summarised"].as_u64().expect("a number"), 24);
    assert_eq!(before, (client.get("/api/sessions/trip").await.expect(200), view(&client, MODEL_VIEW).await));
    assert_eq!(data(&client.get(LEDGER).await), Vec::<Value>::new());

    let done = compact(&client, &json!({})).await.expect(200);
    for name in ["summary", "range", "mode", "tokens_before", "tokens_after"] {
        assert_eq!(done[name], preview[name], "{name}");
    }
    let shown = view(&client, MODEL_VIEW).await;
    assert!(shown.ends_with(&lines(kept)), "{shown:?}");
}

#[tokio::test]
async fn an_undo_gives_the_model_everything_back_once() {
    let herma = trip().await;
    let client = herma.client();
    let (said, shown) = (view(&client, MESSAGES).await, view(&client, MODEL_VIEW).await);
    let done = compact(&client, &json!({})).await.expect(200);
    let path = format!("{LEDGER}/{}/undo", text(&done["id"]));
    let undone = client.post_bytes(&path, "").await.expect(200);
    assert_eq!(
        (&undone["action"], &undone["undoes"], &undone["summary"], &undone["range"]),
        (&json!("undo"), &done["id"], &json!(null), &done["range"])
    );
    assert_eq!(undone["session"]["session_id"], undone["session_after"]);
    assert_eq!(view(&client, MODEL_VIEW).await, shown);
    assert!(view(&client, MESSAGES).await.len() >= said.len());
    let ledger = data(&client.get(LEDGER).await);
    let told: Vec<_> = ledger.iter().map(|row| (&row["id"], &row["outcome"], &row["undone_by"])).collect();
    assert_eq!(
        told,
        [(&undone["id"], &json!("applied"), &json!(null)), (&done["id"], &json!("undone"), &undone["id"])]
    );
    final_refusal(&client.post_bytes(&path, "").await, "cannot_undo");
    let undo_of_undo = format!("{LEDGER}/{}/undo", text(&undone["id"]));
    final_refusal(&client.post_bytes(&undo_of_undo, "").await, "cannot_undo");
    let page = client.get(&format!("{LEDGER}?limit=1")).await.expect(200);
    let next = text(&page["next_cursor"]);
    assert_eq!(data(&client.get(&format!("{LEDGER}?limit=1&cursor={next}")).await), ledger[1..]);
}

#[tokio::test]
async fn a_pinned_message_is_kept_word_for_word() {
    let herma = trip().await;
    let client = herma.client();
    let first = data(&client.get(MESSAGES).await)[0].clone();
    let pin = format!("/api/sessions/trip/messages/{}/pin", text(&first["id"]));
    let pinned = json!({"id": first["id"], "object": "message.pin", "pinned": true});
    for _ in 0..2 {
        assert_eq!(client.send_json("PUT", &pin, &json!({})).await.expect(200), pinned, "pinning twice is no failure");
    }
    let rows = data(&client.get(MESSAGES).await);
    assert_eq!(rows.iter().map(|row| row.get("pinned")).filter(Option::is_some).count(), 1);
    assert_eq!(rows[0]["pinned"], true);

    let preview = compact(&client, &json!({"dry_run": true})).await.expect(200);
    assert_eq!(preview["kept"][0]["id"], first["id"], "what is carried comes first");
    let done = compact(&client, &json!({})).await.expect(200);
    assert_eq!(done["carried"], json!([1]));
    let shown = view(&client, MODEL_VIEW).await;
    assert!(shown.contains(&lines(std::slice::from_ref(&first))[0]), "{shown:?}");

    let unpinned = json!({"id": first["id"], "object": "message.pin", "pinned": false});
    for _ in 0..2 {
        assert_eq!(client.delete(&pin).await.expect(200), unpinned);
    }
    assert!(data(&client.get(MESSAGES).await).iter().all(|row| row.get("pinned").is_none()));
}

#[tokio::test]
async fn too_many_pins_are_refused_with_the_limit() {
    let herma = offline("100000").await;
    let client = herma.client().header(SESSION_ID, "trip");
    for number in 0..51 {
        client.post_json(CHAT, &chat_offline(&format!("message {number}"))).await.expect(200);
    }
    let rows = data(&client.get(MESSAGES).await);
    let pin = |row: &Value| format!("/api/sessions/trip/messages/{}/pin", text(&row["id"]));
    for row in &rows[..100] {
        client.send_json("PUT", &pin(row), &json!({})).await.expect(200);
    }
    let refused = client.send_json("PUT", &pin(&rows[100]), &json!({})).await;
    assert!(text(&final_refusal(&refused, "too_many_pins")["message"]).contains("100"));
    let capabilities = client.get("/v1/capabilities").await.expect(200);
    assert_eq!(capabilities["limits"]["pinned_messages_per_conversation"], 100);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_changes_nothing() {
    let herma = trip().await;
    let client = herma.client();
    for (body, param) in [
        (json!({"dryrun": true}), json!("dryrun")),
        (json!({"dry_run": "yes"}), json!("dry_run")),
        (json!({"mode": "off"}), json!("mode")),
        (json!({"mode": 1}), json!("mode")),
        (json!({"model": 1}), json!("model")),
        (json!([]), json!(null)),
    ] {
        let refused = error(&compact(&client, &body).await, 400);
        assert_eq!((&refused["code"], &refused["param"]), (&json!("invalid_request"), &param), "{body}");
    }
    for (query, param) in [("limit=0", "limit"), ("cursor=x", "cursor"), ("view=full", "view")] {
        assert_eq!(error(&client.get(&format!("{LEDGER}?{query}")).await, 400)["param"], param, "{query}");
    }
    assert_eq!(data(&client.get(LEDGER).await), Vec::<Value>::new());
}

/// Requests with these names, as methods and paths.
fn strange_paths(alias: &str, message: &str, compaction: &str) -> [(&'static str, String); 5] {
    [
        ("GET", format!("/api/sessions/{alias}/compactions")),
        ("POST", format!("/api/sessions/{alias}/compactions")),
        ("POST", format!("/api/sessions/{alias}/compactions/{compaction}/undo")),
        ("PUT", format!("/api/sessions/{alias}/messages/{message}/pin")),
        ("DELETE", format!("/api/sessions/{alias}/messages/{message}/pin")),
    ]
}

async fn not_found(client: &Client, method: &str, path: &str) {
    let answer = client.send_json(method, path, &json!({})).await;
    assert_eq!(error(&answer, 404)["code"], "not_found", "{method} {path}");
}

#[tokio::test]
async fn ids_that_lead_nowhere_are_not_found_and_nothing_crosses_tenants() {
    let herma = trip().await;
    let client = herma.client();
    let message = text(&data(&client.get(MESSAGES).await)[0]["id"]).to_owned();
    let compaction = text(&compact(&client, &json!({})).await.expect(200)["id"]).to_owned();
    for (method, path) in strange_paths("nobody", &message, &compaction) {
        not_found(&client, method, &path).await;
    }
    let zeros = "0".repeat(32);
    for (message, compaction) in [
        ("1".to_owned(), "1".to_owned()),
        (format!("msg_{zeros}"), format!("cmp_{zeros}")),
        (compaction.clone(), message.clone()),
    ] {
        for (method, path) in &strange_paths("trip", &message, &compaction)[2..] {
            not_found(&client, method, path).await;
        }
    }
    let store = SqliteStore::open(&herma.data().join("herma.db")).expect("the store");
    let key = create_key(&store, KeyGrant::of("elsewhere")).await.expect("a key");
    store.close().await;
    let stranger = Client::new(herma.base_url()).key(&key.secret);
    for (method, path) in strange_paths("trip", &message, &compaction) {
        not_found(&stranger, method, &path).await;
    }
    assert_eq!(data(&client.get(LEDGER).await).len(), 1);
}

#[tokio::test]
async fn a_conversation_that_is_all_recent_has_nothing_to_compact() {
    let herma = offline("8000").await;
    let client = herma.client().header(SESSION_ID, "trip");
    client.post_json(CHAT, &chat_offline("hello")).await.expect(200);
    for body in [json!({}), json!({"dry_run": true})] {
        final_refusal(&compact(&client, &body).await, "nothing_to_compact");
    }
    assert_eq!(client.get("/api/sessions/trip").await.expect(200)["id"], "trip");
}

#[tokio::test]
async fn a_stream_tells_of_a_compaction_only_to_who_asks() {
    for (asks, told) in [(Some("1"), true), (Some("0"), false), (Some(""), false), (None, false)] {
        let herma = offline("2000").await;
        let mut client = herma.client().header(SESSION_ID, "trip");
        if let Some(value) = asks {
            client = client.header("x-hermes-events", value);
        }
        let mut events = Vec::new();
        for number in 1..=12 {
            let mut stream = client.post_stream(CHAT, &streamed(chat_offline(&long(number)))).await;
            let head = stream.header(SESSION_ID).expect("a head").to_owned();
            let named = stream.rest().await.into_iter().filter(|event| event.name.is_some());
            events.extend(named.map(|event| (head.clone(), event)));
        }
        let ledger = data(&client.get(LEDGER).await);
        let applied = ledger.iter().filter(|row| row["outcome"] == "applied").count();
        assert!(applied > 0, "twelve long messages are to outgrow a small window");
        assert_eq!(events.len(), if told { applied } else { 0 }, "{asks:?}");
        for (head, event) in events {
            let session = event.json();
            assert_eq!(event.name.as_deref(), Some("session.compacted"));
            assert_eq!((&session["session_id"], &session["rotated"]), (&json!(head), &json!(true)), "{session}");
        }
    }
}

#[tokio::test]
async fn an_events_header_that_says_neither_is_refused() {
    let herma = offline("8000").await;
    let client = herma.client().header("x-hermes-events", "yes");
    let refused = error(&client.post_json(CHAT, &chat_offline("hello")).await, 400);
    assert_eq!((&refused["code"], &refused["param"]), (&json!("invalid_header"), &json!("X-Hermes-Events")));
}
