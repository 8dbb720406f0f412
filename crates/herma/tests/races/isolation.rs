//! No data crosses tenants. Within a tenant, a restricted key sees only its own session keys.

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::KeyScope;
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
use herma_testkit::Client;
use serde_json::json;

use crate::support::{CHAT, Cluster, ask, named, retry, send, transcript};

/// A client with a new key of a tenant. The key is created outside the gateway process, in the same database.
async fn key_of(cluster: &Cluster, tenant: &str, session_keys: Option<&str>) -> Client {
    let store = SqliteStore::open(&cluster.herma.data().join("herma.db")).unwrap();
    let key = create_key(&store, KeyGrant::of(tenant).for_session_keys(KeyScope::parse(session_keys))).await.unwrap();
    store.close().await;
    Client::new(cluster.herma.base_url()).key(&key.secret)
}

#[tokio::test]
async fn a_tenant_finds_nothing_of_another_by_any_name() {
    let cluster = Cluster::start().await;
    let stranger = key_of(&cluster, "elsewhere", None).await;
    let ours = cluster.session("s").header("x-hermes-session-key", "agent:main").post_json(CHAT, &ask("secret")).await;
    let ours = ours.expect(200);
    let handle = ours["session"]["conversation_id"].as_str().unwrap();
    let row = cluster.herma.client().get("/api/sessions/s/messages").await.expect(200);
    let (message, turn) = (row["data"][0]["id"].as_str().unwrap(), row["data"][0]["turn_id"].as_str().unwrap());
    for name in ["s", handle, message, turn] {
        for path in ["", "?pin=exact", "/messages", "/messages?view=model"] {
            let answer = stranger.get(&format!("/api/sessions/{name}{path}")).await;
            assert_eq!(answer.expect(404)["error"]["code"], "not_found", "{name}{path}");
        }
    }
    for name in [handle, message, turn] {
        named(stranger.clone(), name).post_json(CHAT, &ask("guess")).await.expect(404);
        let by_handle = stranger.clone().header("x-hermes-conversation-id", name);
        by_handle.post_json(CHAT, &ask("guess")).await.expect(404);
    }
    stranger.clone().header("x-hermes-conversation-id", "s").post_json(CHAT, &ask("guess")).await.expect(404);
    for query in ["", "?session_key=agent:main", "?source=api", "?limit=200"] {
        assert_eq!(stranger.get(&format!("/api/sessions{query}")).await.expect(200)["data"], json!([]));
    }
    assert_eq!((cluster.upstream.requests().len(), cluster.stored().conversations()), (1, 1));
}

#[tokio::test]
async fn the_same_session_id_is_another_conversation_for_another_tenant() {
    let cluster = Cluster::start().await;
    let stranger = named(key_of(&cluster, "elsewhere", None).await, "s");
    let (gate, held) = cluster.hold(cluster.session("s"), ask("ours")).await;
    let theirs = stranger.post_json(CHAT, &ask("theirs")).await.expect(200);
    assert_eq!(theirs["session"]["resolution"], "created");
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: theirs"]);
    gate.open();
    let ours = held.await.unwrap().expect(200);
    assert_ne!(ours["session"]["conversation_id"], theirs["session"]["conversation_id"]);
    assert_eq!(transcript(&stranger, "s").await, ["user: theirs", "assistant: reply to: theirs"]);
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: ours", "assistant: reply to: ours"]);
}

#[tokio::test]
async fn neither_a_retry_nor_a_key_reaches_the_turn_of_another_caller() {
    let cluster = Cluster::start().await;
    let stranger = key_of(&cluster, "elsewhere", None).await;
    let colleague = key_of(&cluster, "default", None).await;
    let (gate, held) = cluster.hold(cluster.herma.client().header("idempotency-key", "k"), ask("one")).await;
    for other in [stranger, colleague] {
        let retried = retry(&other, 1).post_json(CHAT, &ask("one")).await;
        let keyed = other.header("idempotency-key", "k").post_json(CHAT, &ask("one")).await;
        assert_eq!((retried.content(), keyed.content()), ("reply to: one".to_owned(), "reply to: one".to_owned()));
    }
    assert!(!held.is_finished());
    gate.open();
    held.await.unwrap().expect(200);
    assert_eq!((cluster.stored().conversations(), cluster.stored().all_turns()), (5, 5));
}

#[tokio::test]
async fn a_restricted_key_sees_only_conversations_of_its_session_keys() {
    let cluster = Cluster::start().await;
    let restricted = key_of(&cluster, "default", Some("team:a:*")).await;
    for (id, key) in [("a", Some("team:a:1")), ("b", Some("team:b:1")), ("none", None)] {
        let client = cluster.session(id);
        let client = key.map_or(client.clone(), |key| client.clone().header("x-hermes-session-key", key));
        client.post_json(CHAT, &ask("one")).await.expect(200);
    }
    named(restricted.clone(), "a").post_json(CHAT, &ask("two")).await.expect(200);
    named(restricted.clone(), "none").post_json(CHAT, &ask("two")).await.expect(200);
    // The answer is 404 for every path, although the conversation is in the cache.
    let whole =
        json!({"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "reply to: one"}]});
    for body in [ask("two"), whole] {
        let answer = named(restricted.clone(), "b").post_json(CHAT, &body).await;
        assert_eq!(answer.expect(404)["error"]["code"], "not_found");
        cluster.session("b").post_json(CHAT, &ask("in memory again")).await.expect(200);
    }
    restricted.get("/api/sessions/b").await.expect(404);
    restricted.get("/api/sessions/b/messages").await.expect(404);
    let forbidden = named(restricted.clone(), "c").header("x-hermes-session-key", "team:b:1");
    assert_eq!(forbidden.post_json(CHAT, &ask("x")).await.expect(403)["error"]["code"], "session_key_not_allowed");
    let listed = restricted.get("/api/sessions").await.expect(200);
    let mut ids: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "none"]);
}

#[tokio::test]
async fn a_session_key_is_stored_at_its_first_use_and_applies_from_then_on() {
    let cluster = Cluster::start().await;
    let keyed = |key: &str| cluster.session("s").header("x-hermes-session-key", key);
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    assert_eq!(keyed("mine").post_json(CHAT, &ask("two")).await.header("x-hermes-session-key"), Some("mine"));
    let without = cluster.session("s").post_json(CHAT, &ask("three")).await;
    assert_eq!((without.status, without.header("x-hermes-session-key")), (200, Some("mine")));
    let conflict = keyed("yours").post_json(CHAT, &ask("four")).await;
    assert_eq!(conflict.expect(409)["error"]["code"], "session_key_conflict");
    assert_eq!(conflict.header("x-should-retry"), Some("false"));
    assert_eq!(transcript(&cluster.herma.client(), "s").await.len(), 6);
    assert_eq!(cluster.herma.client().get("/api/sessions/s").await.expect(200)["session_key"], "mine");
}

#[tokio::test]
async fn one_of_two_first_keys_at_once_wins_and_the_other_is_a_conflict() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("zero")).await;
    let clients = [(&cluster.herma, "mine"), (&other, "yours")];
    let both =
        clients.map(|(herma, key)| send(named(herma.client(), "s").header("x-hermes-session-key", key), ask(key)));
    cluster.stored().until_turns("queued", 2).await;
    gate.open();
    held.await.unwrap().expect(200);
    let mut statuses = Vec::new();
    for answer in both {
        statuses.push(answer.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(transcript(&cluster.herma.client(), "s").await.len(), 4);
    cluster.stored().until_settled().await;
}
