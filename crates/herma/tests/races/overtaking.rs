//! Retries that overtake their own originals: the process that has the original stands still meanwhile.

use herma_testkit::Client;
use serde_json::{Value, json};

use crate::support::{CHAT, World, ask, named, retry, send_only, transcript, until};

const IN_SESSION: &str = "x-hermes-session-id: s\r\n";

#[tokio::test]
async fn an_original_that_comes_after_its_retry_joins_it() {
    let world = World::start().await;
    let other = world.another().await;
    for (session, client) in [(IN_SESSION, named(other.client(), "s")), ("", other.client())] {
        let before = world.stored().all_turns();
        world.herma.pause();
        let given_up = send_only(&world.herma, CHAT, session, &ask("one")).await;
        drop(given_up);
        retry(&client, 1).post_json(CHAT, &ask("one")).await.expect(200);
        world.herma.resume();
        let overtaken = async || world.stored().overtaken() == before + 1;
        until("the original was to join its retry", overtaken).await;
        assert_eq!(world.stored().all_turns(), before + 1);
    }
    assert_eq!(world.upstream.requests().len(), 2);
    assert_eq!(transcript(&other.client(), "s").await, ["user: one", "assistant: reply to: one"]);
    world.stored().until_settled().await;
}

#[tokio::test]
async fn an_original_whose_client_still_waits_is_a_request_of_its_own() {
    let world = World::start().await;
    let other = world.another().await;
    world.herma.pause();
    let waits = send_only(&world.herma, CHAT, IN_SESSION, &ask("one")).await;
    retry(&named(other.client(), "s"), 1).post_json(CHAT, &ask("one")).await.expect(200);
    world.herma.resume();
    world.stored().until_turns("completed", 2).await;
    assert_eq!(world.stored().overtaken(), 0);
    drop(waits);
}

#[tokio::test]
async fn an_original_and_its_retry_that_one_process_finds_together_are_one_turn() {
    let world = World::start().await;
    for round in 0..5 {
        world.herma.pause();
        let body = ask(&format!("question {round}"));
        drop(send_only(&world.herma, CHAT, IN_SESSION, &body).await);
        let (client, again): (Client, Value) = (retry(&world.session("s"), 1), body.clone());
        let retried = tokio::spawn(async move { client.post_json(CHAT, &again).await });
        // The kernel has the retry, too, before the process goes on.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        world.herma.resume();
        retried.await.unwrap().expect(200);
        let joined = async || world.stored().joined_turns() == round + 1;
        until("one of the two was to join the other", joined).await;
        assert_eq!(world.stored().all_turns(), round + 1);
    }
    assert_eq!(world.upstream.requests().len(), 5);
    world.stored().until_settled().await;
}

#[tokio::test]
async fn a_response_of_no_conversation_is_answered_once_in_any_order() {
    let world = World::start().await;
    let body = json!({"model": "m", "input": "one", "store": false});
    retry(&world.herma.client(), 1).post_json("/v1/responses", &body).await.expect(200);
    world.herma.pause();
    drop(send_only(&world.herma, "/v1/responses", "", &body).await);
    world.herma.resume();
    // A request that is answered after it was taken, too, for connections are served in the order they were made.
    world.herma.client().post_json(CHAT, &ask("two")).await.expect(200);
    assert_eq!(world.upstream.requests().len(), 2);
}
