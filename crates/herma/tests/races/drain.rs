//! SIGTERM: running turns finish, new turns are refused, and the process exits with success.

use herma_testkit::upstream::Pace;
use herma_testkit::{Completion, Gate};

use crate::support::{CHAT, Cluster, ask, ask_streamed, next_text, transcript, until};

/// Whether a new turn is refused: by the gateway, or because the port is closed.
async fn refuses(cluster: &Cluster) -> bool {
    let request = cluster.session("t").request("POST".parse().unwrap(), CHAT);
    match request.header("content-type", "application/json").body(ask("late").to_string()).send().await {
        Err(_) => true,
        Ok(response) => {
            let answer = herma_testkit::Answer::read(response).await;
            answer.status == 503
                && answer.json()["error"]["code"] == "draining"
                && answer.header("retry-after").is_some()
        }
    }
}

#[tokio::test]
async fn a_running_turn_finishes_and_new_ones_are_refused() {
    let mut cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    cluster.herma.terminate();
    until("new turns were to be refused", async || refuses(&cluster).await).await;
    assert!(!held.is_finished());
    gate.open();
    assert_eq!(held.await.unwrap().content(), "reply to: one");
    assert!(cluster.herma.wait().await.success());
    cluster.stored().until_settled().await;
    cluster.restart().await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
}

#[tokio::test]
async fn a_running_stream_is_shown_to_its_end() {
    let mut cluster = Cluster::start().await;
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut stream = cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    cluster.herma.terminate();
    until("new turns were to be refused", async || refuses(&cluster).await).await;
    gate.open();
    assert_eq!(stream.text().await, "whole");
    assert!(!stream.is_broken());
    assert!(cluster.herma.wait().await.success());
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_turn_whose_client_left_is_finished_too() {
    let mut cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    held.abort();
    cluster.herma.terminate();
    until("new turns were to be refused", async || refuses(&cluster).await).await;
    gate.open();
    assert!(cluster.herma.wait().await.success());
    cluster.stored().until_settled().await;
    cluster.restart().await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
}

#[tokio::test]
async fn an_idle_process_ends_at_once_with_connections_open() {
    let mut cluster = Cluster::start().await;
    let client = cluster.session("s");
    client.post_json(CHAT, &ask("one")).await.expect(200);
    cluster.herma.terminate();
    assert!(cluster.herma.wait().await.success());
}
