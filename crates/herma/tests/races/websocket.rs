//! A WebSocket whose client leaves, or whose server stops.

use herma_gateway::access::{KeyGrant, create_key};
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
use herma_testkit::upstream::Pace;
use herma_testkit::{Client, Completion, Gate, Said, Socket};
use serde_json::{Value, json};

use crate::support::{Cluster, transcript, until};

const RESPONSES: &str = "/v1/responses";

fn create(text: &str) -> Value {
    json!({"type": "response.create", "model": "scripted", "input": text})
}

/// A turn that has streamed half of its answer.
async fn half_way(cluster: &Cluster, client: Client) -> (Gate, Socket) {
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut socket = client.websocket(RESPONSES).await.expect("an upgrade");
    socket.send(&create("one")).await;
    until_delta(&mut socket).await;
    (gate, socket)
}

async fn until_delta(socket: &mut Socket) {
    loop {
        let event = socket.json().await;
        if event["type"] == "response.output_text.delta" {
            assert_eq!(event["delta"], "half ");
            return;
        }
    }
}

#[tokio::test]
async fn a_turn_whose_client_vanished_is_finished_and_stored() {
    let cluster = Cluster::start().await;
    let (gate, socket) = half_way(&cluster, cluster.session("s")).await;
    drop(socket);
    gate.open();
    cluster.stored().until_turns("completed", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: half whole"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_turn_whose_client_says_goodbye_goes_on_too() {
    let cluster = Cluster::start().await;
    let (gate, socket) = half_way(&cluster, cluster.session("s")).await;
    socket.close().await;
    gate.open();
    cluster.stored().until_turns("completed", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: half whole"]);
}

#[tokio::test]
async fn cancel_holds_for_every_turn_of_a_connection() {
    let cluster = Cluster::start().await;
    let client = cluster.session("s").header("x-hermes-on-disconnect", "cancel");
    let (_gate, socket) = half_way(&cluster, client).await;
    drop(socket);
    cluster.upstream.until_open(0).await;
    cluster.stored().until_turns("cancelled", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant (partial): half "]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_turn_on_a_connection_is_shown_to_its_end_before_the_server_stops() {
    let mut cluster = Cluster::start().await;
    let mut idle = cluster.session("idle").websocket(RESPONSES).await.expect("an upgrade");
    let (gate, mut socket) = half_way(&cluster, cluster.session("s")).await;
    cluster.herma.terminate();
    let Said::Closed(code, _) = idle.said().await else { panic!("a goodbye was to come") };
    assert_eq!(code, 1001, "one without a turn is closed at once");
    socket.send(&create("late")).await;
    gate.open();
    let last = socket.turn().await.pop().expect("an event");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "half whole");
    let late = socket.turn().await;
    assert_eq!((&late[0]["status"], &late[0]["error"]["code"]), (&json!(503), &json!("draining")), "{late:?}");
    let Said::Closed(code, _) = socket.said().await else { panic!("a goodbye was to come") };
    assert_eq!(code, 1001);
    assert!(cluster.herma.wait().await.success());
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_key_that_is_revoked_starts_no_more_turns() {
    let cluster = Cluster::start().await;
    let store = SqliteStore::open(&cluster.herma.data().join("herma.db")).unwrap();
    let key = create_key(&store, KeyGrant::of("elsewhere")).await.unwrap();
    let client = Client::new(cluster.herma.base_url()).key(&key.secret);
    let mut socket = client.websocket(RESPONSES).await.expect("an upgrade");
    socket.send(&create("one")).await;
    assert_eq!(socket.turn().await.pop().expect("an event")["type"], "response.completed");
    assert!(store.revoke_key(key.id, herma_gateway::now()).await.unwrap());
    store.close().await;
    until("the key was to be refused", async || {
        socket.send(&create("two")).await;
        let last = socket.turn().await.pop().expect("an event");
        last["status"] == 401 && last["error"]["code"] == "invalid_api_key"
    })
    .await;
}
