//! A client that disconnects does not stop its turn, unless it asked for that.

use herma_testkit::upstream::Pace;
use herma_testkit::{Completion, Gate};

use crate::support::{CHAT, Cluster, ask, ask_streamed, next_text, send, send_bare, send_only, transcript};

const CANCEL: (&str, &str) = ("x-hermes-on-disconnect", "cancel");

fn two_pieces(cluster: &Cluster) -> Gate {
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    gate
}

#[tokio::test]
async fn a_stream_whose_client_left_is_finished_and_stored() {
    let cluster = Cluster::start().await;
    let gate = two_pieces(&cluster);
    let mut stream = cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    drop(stream);
    gate.open();
    cluster.stored().until_turns("completed", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: half whole"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn an_answer_whose_client_left_is_finished_and_stored() {
    let cluster = Cluster::start().await;
    let (gate, asked) = cluster.hold(cluster.session("s"), ask("one")).await;
    asked.abort();
    assert!(asked.await.is_err());
    gate.open();
    cluster.stored().until_turns("completed", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
}

#[tokio::test]
async fn a_request_whose_client_leaves_at_once_is_answered_and_stored() {
    let cluster = Cluster::start().await;
    for _ in 0..20 {
        drop(send_only(&cluster.herma, CHAT, "x-hermes-session-id: s\r\n", &ask("one")).await);
        drop(send_only(&cluster.herma, CHAT, "", &ask("one")).await);
    }
    cluster.stored().until_turns("completed", 40).await;
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_deletion_whose_client_leaves_at_once_happens() {
    let cluster = Cluster::start().await;
    for round in 0..20 {
        cluster.session("s").post_json(CHAT, &ask(&format!("one {round}"))).await.expect(200);
        drop(send_bare(&cluster.herma, "DELETE /api/sessions/s").await);
        cluster.stored().until_turns("completed", 0).await;
    }
}

/// Large requests are served by another runtime than their connection.
#[tokio::test]
async fn a_large_request_whose_client_left_is_finished_or_cancelled_like_any_other() {
    let cluster = Cluster::start().await;
    let question = "word ".repeat(100_000);
    let (gate, asked) = cluster.hold(cluster.session("s"), ask(&question)).await;
    asked.abort();
    assert!(asked.await.is_err());
    gate.open();
    cluster.stored().until_turns("completed", 1).await;
    let (_gate, asked) = cluster.hold(cluster.session("t").header(CANCEL.0, CANCEL.1), ask(&question)).await;
    asked.abort();
    cluster.upstream.until_open(0).await;
    cluster.stored().until_turns("cancelled", 1).await;
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn cancel_ends_the_model_call_and_keeps_what_was_shown() {
    let cluster = Cluster::start().await;
    let _gate = two_pieces(&cluster);
    let mut stream = cluster.session("s").header(CANCEL.0, CANCEL.1).post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    drop(stream);
    cluster.upstream.until_open(0).await;
    cluster.stored().until_turns("cancelled", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant (partial): half "]);
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    assert_eq!(
        cluster.upstream.last_request().transcript(),
        ["user: one", "assistant: half \n\n[The reply ends here: the request was cancelled.]", "user: two"]
    );
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn cancel_holds_for_whole_answers_too() {
    let cluster = Cluster::start().await;
    let (_gate, asked) = cluster.hold(cluster.session("s").header(CANCEL.0, CANCEL.1), ask("one")).await;
    asked.abort();
    cluster.upstream.until_open(0).await;
    cluster.stored().until_turns("cancelled", 1).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one"]);
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    assert_eq!(
        cluster.upstream.last_request().transcript(),
        ["user: one", "assistant: [No reply was given: the request was cancelled.]", "user: two"]
    );
}

#[tokio::test]
async fn a_waiting_turn_whose_client_left_still_has_its_turn() {
    let cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let waiting = send(cluster.session("s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    waiting.abort();
    gate.open();
    held.await.unwrap().expect(200);
    cluster.stored().until_turns("completed", 2).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await[2..], ["user: two", "assistant: reply to: two"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_waiting_turn_that_is_cancelled_leaves_the_line_and_nothing_else() {
    let cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let leaving = send(cluster.session("s").header(CANCEL.0, CANCEL.1), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    let staying = send(cluster.session("s"), ask("three"));
    cluster.stored().until_turns("queued", 2).await;
    leaving.abort();
    cluster.stored().until_turns("queued", 1).await;
    gate.open();
    held.await.unwrap().expect(200);
    assert_eq!(staying.await.unwrap().content(), "reply to: three");
    assert_eq!(cluster.upstream.requests().len(), 2);
    assert_eq!(transcript(&cluster.herma.client(), "s").await[2..], ["user: three", "assistant: reply to: three"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_turn_whose_client_left_is_counted_once() {
    let cluster = Cluster::start().await;
    let gate = two_pieces(&cluster);
    let mut stream = cluster.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    drop(stream);
    gate.open();
    cluster.stored().until_turns("completed", 1).await;
    cluster.stored().until_settled().await;
    let mut counted = None;
    // The turn's task updates the metric a moment after the commit.
    for _ in 0..1000 {
        let metrics = cluster.herma.client().get("/metrics").await.text();
        counted = metrics.lines().find(|line| line.starts_with("herma_turns_total")).map(str::to_owned);
        if counted.is_some() {
            break;
        }
    }
    assert_eq!(counted.as_deref(), Some(r#"herma_turns_total{outcome="completed"} 1"#));
}
