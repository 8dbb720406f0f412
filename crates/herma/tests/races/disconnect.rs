//! A client that disconnects does not stop its turn, unless it asked for that.

use herma_testkit::upstream::Pace;
use herma_testkit::{Completion, Gate};

use crate::support::{CHAT, World, ask, ask_streamed, next_text, send, transcript};

const CANCEL: (&str, &str) = ("x-hermes-on-disconnect", "cancel");

fn two_pieces(world: &World) -> Gate {
    let gate = Gate::new();
    world.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    gate
}

#[tokio::test]
async fn a_stream_whose_client_left_is_finished_and_stored() {
    let world = World::start().await;
    let gate = two_pieces(&world);
    let mut stream = world.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    drop(stream);
    gate.open();
    world.stored().until_turns("completed", 1).await;
    assert_eq!(transcript(&world.herma.client(), "s").await, ["user: one", "assistant: half whole"]);
    world.stored().until_settled().await;
}

#[tokio::test]
async fn an_answer_whose_client_left_is_finished_and_stored() {
    let world = World::start().await;
    let (gate, asked) = world.hold(world.session("s"), ask("one")).await;
    asked.abort();
    assert!(asked.await.is_err());
    gate.open();
    world.stored().until_turns("completed", 1).await;
    assert_eq!(transcript(&world.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
}

#[tokio::test]
async fn cancel_ends_the_model_call_and_keeps_what_was_shown() {
    let world = World::start().await;
    let _gate = two_pieces(&world);
    let mut stream = world.session("s").header(CANCEL.0, CANCEL.1).post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    drop(stream);
    world.upstream.until_open(0).await;
    world.stored().until_turns("cancelled", 1).await;
    assert_eq!(transcript(&world.herma.client(), "s").await, ["user: one", "assistant (partial): half "]);
    world.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    assert_eq!(
        world.upstream.last_request().transcript(),
        ["user: one", "assistant: half \n\n[The reply ends here: the request was cancelled.]", "user: two"]
    );
    world.stored().until_settled().await;
}

#[tokio::test]
async fn cancel_holds_for_whole_answers_too() {
    let world = World::start().await;
    let (_gate, asked) = world.hold(world.session("s").header(CANCEL.0, CANCEL.1), ask("one")).await;
    asked.abort();
    world.upstream.until_open(0).await;
    world.stored().until_turns("cancelled", 1).await;
    assert_eq!(transcript(&world.herma.client(), "s").await, ["user: one"]);
    world.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    assert_eq!(
        world.upstream.last_request().transcript(),
        ["user: one", "assistant: [No reply was given: the request was cancelled.]", "user: two"]
    );
}

#[tokio::test]
async fn a_waiting_turn_whose_client_left_still_has_its_turn() {
    let world = World::start().await;
    let (gate, held) = world.hold(world.session("s"), ask("one")).await;
    let waiting = send(world.session("s"), ask("two"));
    world.stored().until_turns("queued", 1).await;
    waiting.abort();
    gate.open();
    held.await.unwrap().expect(200);
    world.stored().until_turns("completed", 2).await;
    assert_eq!(transcript(&world.herma.client(), "s").await[2..], ["user: two", "assistant: reply to: two"]);
    world.stored().until_settled().await;
}

#[tokio::test]
async fn a_waiting_turn_that_is_cancelled_leaves_the_line_and_nothing_else() {
    let world = World::start().await;
    let (gate, held) = world.hold(world.session("s"), ask("one")).await;
    let leaving = send(world.session("s").header(CANCEL.0, CANCEL.1), ask("two"));
    world.stored().until_turns("queued", 1).await;
    let staying = send(world.session("s"), ask("three"));
    world.stored().until_turns("queued", 2).await;
    leaving.abort();
    world.stored().until_turns("queued", 1).await;
    gate.open();
    held.await.unwrap().expect(200);
    assert_eq!(staying.await.unwrap().content(), "reply to: three");
    assert_eq!(world.upstream.requests().len(), 2);
    assert_eq!(transcript(&world.herma.client(), "s").await[2..], ["user: three", "assistant: reply to: three"]);
    world.stored().until_settled().await;
}

#[tokio::test]
async fn a_turn_whose_client_left_is_counted_once() {
    let world = World::start().await;
    let gate = two_pieces(&world);
    let mut stream = world.session("s").post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    drop(stream);
    gate.open();
    world.stored().until_turns("completed", 1).await;
    world.stored().until_settled().await;
    let mut counted = None;
    // The turn's task updates the metric a moment after the commit.
    for _ in 0..1000 {
        let metrics = world.herma.client().get("/metrics").await.text();
        counted = metrics.lines().find(|line| line.starts_with("herma_turns_total")).map(str::to_owned);
        if counted.is_some() {
            break;
        }
    }
    assert_eq!(counted.as_deref(), Some(r#"herma_turns_total{outcome="completed"} 1"#));
}
