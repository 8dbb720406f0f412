//! Facts in long-term memory, as the person they are about reads, corrects and forgets them.

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::KeyScope;
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
use herma_testkit::Client;
use serde_json::{Value, json};

use crate::support::{TestGateway, data, error};

const MEMORIES: &str = "/api/memories";

async fn add(client: &Client, key: &str, text: &str) -> Value {
    client.post_json(MEMORIES, &json!({ "session_key": key, "text": text })).await.expect(201)
}

async fn texts(client: &Client, query: &str) -> Vec<String> {
    let rows = data(&client.get(&format!("{MEMORIES}{query}")).await);
    rows.iter().map(|row| row["text"].as_str().expect("a text").to_owned()).collect()
}

#[tokio::test]
async fn facts_are_added_listed_corrected_and_forgotten() {
    let mut gateway = TestGateway::start().await;
    let ann = add(&gateway.client(), "ann", " Ann is allergic to nuts ").await;
    let id = ann["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("mem_"));
    assert_eq!(
        ann,
        json!({
            "id": id, "object": "memory", "text": "Ann is allergic to nuts", "session_key": "ann", "source": "api",
            "created_at": ann["created_at"],
        })
    );
    assert_eq!(add(&gateway.client(), "ann", "Ann is allergic to nuts").await, ann, "nothing is known twice");
    add(&gateway.client(), "bob", "Bob plays chess").await;
    gateway.restart().await;
    let client = gateway.client();
    assert_eq!(texts(&client, "").await, ["Bob plays chess", "Ann is allergic to nuts"]);
    assert_eq!(texts(&client, "?session_key=ann").await, ["Ann is allergic to nuts"]);
    let page = client.get(&format!("{MEMORIES}?limit=1")).await.expect(200);
    assert_eq!(page["has_more"], true);
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    assert_eq!(texts(&client, &format!("?limit=1&cursor={cursor}")).await, ["Ann is allergic to nuts"]);
    let changed =
        client.send_json("PATCH", &format!("{MEMORIES}/{id}"), &json!({ "text": "Ann likes nuts" })).await.expect(200);
    assert_eq!((&changed["text"], &changed["created_at"]), (&json!("Ann likes nuts"), &ann["created_at"]));
    assert_eq!(client.get(&format!("{MEMORIES}/{id}")).await.expect(200), changed);
    let forgotten = client.delete(&format!("{MEMORIES}/{id}")).await.expect(200);
    assert_eq!(forgotten, json!({ "object": "memory.deleted", "id": id, "deleted": true }));
    assert_eq!(error(&client.delete(&format!("{MEMORIES}/{id}")).await, 404)["code"], "not_found");
    let all = client.delete(&format!("{MEMORIES}?session_key=bob")).await.expect(200);
    assert_eq!(all, json!({ "object": "memories.deleted", "deleted": 1 }));
    assert!(texts(&client, "").await.is_empty());
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let gateway = TestGateway::start().await;
    let client = gateway.client();
    for body in [json!({}), json!({ "text": "a" }), json!({ "session_key": "ann" }), json!({ "text": "a", "key": "b" })]
    {
        assert_eq!(client.post_json(MEMORIES, &body).await.status, 400, "{body}");
    }
    assert_eq!(client.delete(MEMORIES).await.status, 400, "all facts of all keys are never deleted at once");
    for path in ["/api/memories/mem_1", "/api/memories/nothing"] {
        assert_eq!(client.get(path).await.status, 404, "{path}");
    }
    assert_eq!(client.get("/api/memories?key=ann").await.status, 400);
}

#[tokio::test]
async fn a_fact_does_not_exist_for_those_who_may_not_see_it() {
    let gateway = TestGateway::start().await;
    let fact = add(&gateway.client(), "ann", "secret").await;
    let path = format!("{MEMORIES}/{}", fact["id"].as_str().expect("an id"));
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).expect("the store");
    let other_tenant = create_key(&store, KeyGrant::of("other")).await.expect("a key").secret;
    let bobs = KeyGrant::of("default").for_session_keys(KeyScope::parse(Some("bob*")));
    let bobs = create_key(&store, bobs).await.expect("a key").secret;
    store.close().await;
    for secret in [other_tenant, bobs.clone()] {
        let client = Client::new(gateway.herma.base_url()).key(&secret);
        assert!(texts(&client, "").await.is_empty() && texts(&client, "?session_key=ann").await.is_empty());
        assert_eq!(client.get(&path).await.status, 404);
        assert_eq!(client.send_json("PATCH", &path, &json!({ "text": "known" })).await.status, 404);
        assert_eq!(client.delete(&path).await.status, 404);
        let none = client.delete(&format!("{MEMORIES}?session_key=ann")).await.expect(200);
        assert_eq!(none["deleted"], 0);
    }
    let refused = Client::new(gateway.herma.base_url())
        .key(&bobs)
        .post_json(MEMORIES, &json!({ "session_key": "ann", "text": "x" }))
        .await;
    assert_eq!(error(&refused, 403)["code"], "session_key_not_allowed");
    assert_eq!(texts(&gateway.client(), "").await, ["secret"]);
}
