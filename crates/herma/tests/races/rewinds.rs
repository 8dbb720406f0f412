//! Rewinds, and requests with `If-Match`, with several processes and crashes.

use serde_json::json;

use crate::support::{CHAT, Cluster, ask, named, transcript};

#[tokio::test]
async fn only_one_of_many_requests_with_one_etag_succeeds() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    for round in 0..5 {
        let row = cluster.herma.client().get("/api/sessions/s").await;
        let tag = row.header("etag").expect("an ETag").to_owned();
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..9 {
            let herma = if number % 2 == 0 { &cluster.herma } else { &other };
            let client = named(herma.client(), "s").header("if-match", &tag);
            clients.spawn(async move {
                match number % 3 {
                    0 => client.post_json(CHAT, &ask(&format!("{round} {number}"))).await.status,
                    1 => client.send_json("PATCH", "/api/sessions/s", &json!({"title": "Mine"})).await.status,
                    _ => client.post_json("/api/sessions/s/rewind", &json!({"turns": 1})).await.status,
                }
            });
        }
        let statuses = clients.join_all().await;
        let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
        // One change succeeds. It makes the ETag of all others old.
        assert_eq!(count(200), 1, "round {round}: {statuses:?}");
        assert_eq!(count(200) + count(412), 9, "round {round}: {statuses:?}");
        cluster.session("s").post_json(CHAT, &ask("go on")).await.expect(200);
    }
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_rewind_outlives_a_crash_and_is_known_to_every_process() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    for text in ["one", "two", "three"] {
        cluster.session("s").post_json(CHAT, &ask(text)).await.expect(200);
        named(other.client(), "t").post_json(CHAT, &ask(text)).await.expect(200);
    }
    // The first process has the conversation in its cache; the other one rewinds it.
    other.client().post_json("/api/sessions/s/rewind", &json!({"turns": 1})).await.expect(200);
    cluster.session("s").post_json(CHAT, &ask("four")).await.expect(200);
    let shown = ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two", "user: four"];
    assert_eq!(cluster.upstream.last_request().transcript(), shown);
    cluster.herma.client().post_json("/api/sessions/s/rewind", &json!({"turns": 2})).await.expect(200);
    cluster.restart().await;
    cluster.session("s").post_json(CHAT, &ask("five")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one", "assistant: reply to: one", "user: five"]);
    assert_eq!(transcript(&cluster.herma.client(), "s").await.len(), 10);
    cluster.stored().until_settled().await;
}
