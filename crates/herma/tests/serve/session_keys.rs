//! Session keys that look alike are different keys, through every door of HTTP.

use std::collections::BTreeSet;

use herma_testkit::{Answer, Client};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, SESSION_KEY, TestGateway, chat, data, user};

/// Keys that fall together if punctuation, case or the form of letters is not kept.
const ALIKE: [&str; 14] = [
    "agent:ann",
    "agent:Ann",
    "AGENT:ANN",
    "agent:ann.",
    "agent:ann:",
    "agent-ann",
    "agent_ann",
    "agent/ann",
    "agent ann",
    "agent:an%6E",
    "agent:\u{e5}nn",
    "agent:a\u{30a}nn",
    "agent:\u{ff41}nn",
    "agent:ann,agent:Ann",
];

fn escaped(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Makes a conversation under a key through one door, and returns its id.
async fn make(gateway: &TestGateway, door: usize, key: &str) -> String {
    let keyed = gateway.client().header(SESSION_KEY, key);
    let of = |answer: &Answer| {
        let body = answer.json();
        let id = [&body["session"]["conversation_id"], &body["conversation_id"], &body["id"]];
        id.into_iter().find_map(Value::as_str).unwrap_or_else(|| panic!("{body}")).to_owned()
    };
    match door {
        0 => of(&keyed.post_json(CHAT, &chat(&[user("hello")])).await),
        1 => of(&keyed.post_json("/v1/responses", &json!({"input": "hello"})).await),
        2 => of(&keyed.post_json("/v1/conversations", &json!({})).await),
        3 => of(&keyed.post_json("/v1/runs", &json!({"input": "hello"})).await),
        4 => of(&gateway.client().post_json("/v1/runs", &json!({"input": "hello", "session_key": key})).await),
        5 => of(&gateway.client().post_json("/api/sessions", &json!({"session_key": key})).await),
        6 => of(&keyed.post_json("/api/sessions", &json!({})).await),
        _ => of(&gateway.client().post_json(&format!("/api/session-keys/{}/new", escaped(key)), &json!({})).await),
    }
}

#[tokio::test]
async fn keys_that_look_alike_stay_apart_through_every_door() {
    let gateway = TestGateway::start().await;
    let mut made: Vec<BTreeSet<String>> = Vec::new();
    for key in ALIKE {
        let mut ids = BTreeSet::new();
        for door in 0..8 {
            ids.insert(make(&gateway, door, key).await);
        }
        assert_eq!(ids.len(), 8, "{key}: {ids:?}");
        made.push(ids);
    }
    for (key, ids) in ALIKE.iter().zip(&made) {
        for list in
            [format!("/api/session-keys/{}", escaped(key)), format!("/api/sessions?session_key={}", escaped(key))]
        {
            let rows = data(&gateway.client().get(&list).await);
            let listed: BTreeSet<String> =
                rows.iter().map(|row| row["conversation_id"].as_str().unwrap().to_owned()).collect();
            assert_eq!(&listed, ids, "{list}");
            assert!(rows.iter().all(|row| row["session_key"] == *key), "{list}");
        }
    }
    // The same name under another key is a conflict, not the same key.
    for pair in ALIKE.windows(2) {
        let named = |key: &str| {
            gateway.in_session(&format!("of {}", escaped(pair[0]).replace('%', ""))).header(SESSION_KEY, key)
        };
        let first = named(pair[0]).post_json(CHAT, &chat(&[user("hello")])).await;
        first.expect(200);
        let other = named(pair[1]).post_json(CHAT, &chat(&[user("hello")])).await;
        assert_eq!(other.expect(409)["error"]["code"], "session_key_conflict", "{pair:?}");
    }
    for (index, key) in ALIKE.iter().enumerate() {
        let receipt = gateway.client().delete(&format!("/api/session-keys/{}", escaped(key))).await.expect(200);
        let expected = if index + 1 < ALIKE.len() { 9 } else { 8 };
        assert_eq!(receipt["removed"]["conversations"], expected, "{key}");
    }
}

#[tokio::test]
async fn the_key_in_force_is_echoed_byte_for_byte() {
    let gateway = TestGateway::start().await;
    for (number, key) in ALIKE.iter().enumerate() {
        let request = gateway.in_session(&format!("s{number}")).header(SESSION_KEY, key);
        let answer = request.request("POST".parse().unwrap(), CHAT).json(&chat(&[user("hello")])).send().await.unwrap();
        assert_eq!(answer.headers()[SESSION_KEY].as_bytes(), key.as_bytes(), "{key}");
        let row = gateway.client().get(&format!("/api/sessions/s{number}")).await.expect(200);
        assert_eq!(row["session_key"], *key);
    }
}

#[tokio::test]
async fn a_key_that_is_no_key_is_refused_by_every_door() {
    let gateway = TestGateway::start().await;
    let long = "k".repeat(257);
    for key in [long.as_str(), "tab\there", "line\nbreak", "nul\0", "\u{7f}", "\u{85}"] {
        let client: Client = gateway.client();
        let bodies = [
            client.post_json("/v1/runs", &json!({"input": "hello", "session_key": key})).await,
            client.post_json("/api/sessions", &json!({"session_key": key})).await,
            client.post_json(&format!("/api/session-keys/{}/new", escaped(key)), &json!({})).await,
        ];
        for refused in bodies {
            assert_eq!(refused.status, 400, "{key:?}: {}", refused.text());
        }
        client.get(&format!("/api/session-keys/{}", escaped(key))).await.expect(404);
        client.delete(&format!("/api/session-keys/{}", escaped(key))).await.expect(404);
    }
    let refused = gateway
        .client()
        .header(SESSION_KEY, &long)
        .header(SESSION_ID, "s")
        .post_json(CHAT, &chat(&[user("hello")]))
        .await;
    assert_eq!(refused.expect(400)["error"]["param"], "X-Hermes-Session-Key");
    assert!(gateway.sessions().await.is_empty(), "no refused request leaves anything");
}

#[tokio::test]
async fn an_idempotency_key_does_not_lead_to_the_answer_of_another_session_key() {
    let gateway = TestGateway::start().await;
    let once = |key: &str| gateway.client().header("idempotency-key", "once").header(SESSION_KEY, key);
    let hello = chat(&[user("hello")]);
    let run = json!({"input": "hello"});
    for named in [None, Some("trip")] {
        let of = |key: &str| named.map_or_else(|| once(key), |name| once(key).header(SESSION_ID, name));
        let first = of("bob").post_json(CHAT, &hello).await.expect(200)["id"].clone();
        let refused = of("ann").post_json(CHAT, &hello).await;
        assert_eq!(refused.expect(422)["error"]["code"], "idempotency_mismatch");
        assert_eq!(refused.header(SESSION_KEY), None);
        assert_eq!(of("bob").post_json(CHAT, &hello).await.expect(200)["id"], first);
    }
    // The conversation's key applies to a request that sends none.
    let unsaid = gateway.client().header("idempotency-key", "once").header(SESSION_ID, "trip");
    let first = once("bob").header(SESSION_ID, "trip").post_json(CHAT, &hello).await.expect(200)["id"].clone();
    assert_eq!(unsaid.post_json(CHAT, &hello).await.expect(200)["id"], first);
    // Also if the conversation got its key only later.
    let early = gateway.client().header("idempotency-key", "early").header(SESSION_ID, "later");
    let first = early.post_json(CHAT, &hello).await.expect(200)["id"].clone();
    let keyed = gateway.client().header(SESSION_KEY, "bob").header(SESSION_ID, "later");
    keyed.post_json(CHAT, &chat(&[user("I am Bob")])).await.expect(200);
    assert_eq!(early.post_json(CHAT, &hello).await.expect(200)["id"], first);
    once("bob").post_json("/v1/runs", &run).await.expect(202);
    once("ann").post_json("/v1/runs", &run).await.expect(422);
    // The same key in the body is the same key.
    let keyed = gateway.client().header("idempotency-key", "body");
    for key in ["bob", "ann"] {
        let run = json!({"input": "hello", "session_key": key});
        keyed.post_json("/v1/runs", &run).await.expect(if key == "bob" { 202 } else { 422 });
    }
}
