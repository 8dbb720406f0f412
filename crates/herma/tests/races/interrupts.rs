//! `X-Hermes-Turn-Policy: interrupt`: the running turn ends, and its streamed output is kept.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use herma_testkit::upstream::Pace;
use herma_testkit::{Client, Completion, EventStream, Gate, Reply};
use serde_json::json;

use crate::support::{CHAT, Cluster, ask, ask_streamed, named, next_text, retry, send, stream_error, transcript};

fn interrupting(client: Client) -> Client {
    client.header("x-hermes-turn-policy", "interrupt")
}

/// A stream that has shown `half ` and whose rest waits for the gate.
async fn half_shown(cluster: &Cluster, client: Client) -> (Gate, EventStream) {
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    let mut stream = client.post_stream(CHAT, &ask_streamed("one")).await;
    assert_eq!(next_text(&mut stream).await, "half ");
    (gate, stream)
}

const AFTERWARDS: [&str; 4] = ["user: one", "assistant (partial): half ", "user: two", "assistant: reply to: two"];
const SHOWN_TO_THE_MODEL: [&str; 3] =
    ["user: one", "assistant: half \n\n[The reply ends here: it was interrupted.]", "user: two"];

#[tokio::test]
async fn an_interrupted_stream_ends_with_an_error_and_keeps_what_it_showed() {
    let cluster = Cluster::start().await;
    let (_gate, mut old) = half_shown(&cluster, cluster.session("s")).await;
    let new = interrupting(cluster.session("s")).post_json(CHAT, &ask("two")).await;
    assert_eq!(new.content(), "reply to: two");
    assert_eq!(stream_error(&old.rest().await)["code"], "interrupted");
    cluster.upstream.until_open(0).await;
    assert_eq!(transcript(&cluster.herma.client(), "s").await, AFTERWARDS);
    assert_eq!(cluster.upstream.last_request().transcript(), SHOWN_TO_THE_MODEL);
    assert_eq!(cluster.stored().turns("interrupted"), 1);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn an_interrupted_client_that_was_shown_nothing_is_told_not_to_retry() {
    let cluster = Cluster::start().await;
    let (_gate, old) = cluster.hold(cluster.session("s"), ask("one")).await;
    interrupting(cluster.session("s")).post_json(CHAT, &ask("two")).await.expect(200);
    let old = old.await.unwrap();
    assert_eq!(old.expect(409)["error"]["code"], "interrupted");
    assert_eq!(old.header("x-should-retry"), Some("false"));
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(context, ["user: one", "assistant: [No reply was given: the request was interrupted.]", "user: two"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_turn_of_another_process_yields_too() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (_gate, mut old) = half_shown(&cluster, cluster.session("s")).await;
    let new = interrupting(named(other.client(), "s")).post_json(CHAT, &ask("two")).await;
    assert_eq!(new.content(), "reply to: two");
    assert_eq!(stream_error(&old.rest().await)["code"], "interrupted");
    assert_eq!(transcript(&cluster.herma.client(), "s").await, AFTERWARDS);
    assert_eq!(cluster.upstream.last_request().transcript(), SHOWN_TO_THE_MODEL);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_process_that_stands_still_is_cut_off_and_cannot_commit_later() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let (gate, old) = cluster.hold(cluster.session("s"), ask("one")).await;
    cluster.herma.pause();
    let new = interrupting(named(other.client(), "s")).post_json(CHAT, &ask("two")).await;
    gate.open();
    cluster.herma.resume();
    assert_eq!(new.content(), "reply to: two");
    assert_eq!(old.await.unwrap().expect(409)["error"]["code"], "interrupted");
    let said = transcript(&other.client(), "s").await;
    assert_eq!(said, ["user: one", "user: two", "assistant: reply to: two"]);
    cluster.stored().until_settled().await;
}

/// Interrupts a held turn while another turn is queued. The interrupting turn runs before the queued one, which gets
/// this reply. Returns the answer to the queued turn.
async fn overtaken(cluster: &Cluster, waiting: Reply) -> herma_testkit::Answer {
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    cluster.upstream.push(Reply::Echo);
    cluster.upstream.push(waiting);
    let first = send(cluster.session("s"), ask("one"));
    gate.until_waiting(1).await;
    let waiter = send(cluster.session("s"), ask("waiting"));
    cluster.stored().until_turns("queued", 1).await;
    let interrupting = interrupting(cluster.session("s")).post_json(CHAT, &ask("interrupting")).await;
    assert_eq!(interrupting.content(), "reply to: interrupting");
    first.await.unwrap().expect(409);
    waiter.await.unwrap()
}

#[tokio::test]
async fn an_interrupting_turn_goes_before_those_that_wait_and_harms_none_of_them() {
    let cluster = Cluster::start().await;
    let waited = overtaken(&cluster, Reply::Echo).await;
    assert_eq!(waited.content(), "reply to: waiting");
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(
        said,
        [
            "user: one",
            "user: interrupting",
            "assistant: reply to: interrupting",
            "user: waiting",
            "assistant: reply to: waiting"
        ]
    );
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn an_overtaken_turn_that_failed_can_be_tried_again() {
    let cluster = Cluster::start().await;
    overtaken(&cluster, Reply::status(400, "no")).await.expect(502);
    let again = retry(&cluster.session("s"), 1).post_json(CHAT, &ask("waiting")).await;
    assert_eq!(again.content(), "reply to: waiting");
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said.iter().filter(|line| *line == "user: waiting").count(), 1);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn items_whose_addition_is_interrupted_are_not_there() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let items = |number: usize| json!({"items": [{"role": "user", "content": format!("item {number}")}]});
    let mut added = BTreeSet::new();
    for round in 0..40 {
        let both = [cluster.herma.client(), other.client()].into_iter().cycle().take(4).enumerate();
        let answers = both.map(|(place, client)| async move {
            let number = round * 4 + place;
            let answer = interrupting(client).post_json("/v1/conversations/s/items", &items(number)).await;
            (number, answer)
        });
        for (number, answer) in join_all(answers).await {
            match answer.status {
                200 => drop(added.insert(format!("user: item {number}"))),
                _ => assert_eq!(answer.expect(409)["error"]["code"], "interrupted"),
            }
        }
    }
    let said: BTreeSet<String> = transcript(&cluster.herma.client(), "s").await.into_iter().skip(2).collect();
    assert_eq!(said, added, "only refused turns are missing");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_second_prompt_on_a_busy_conversation_becomes_a_branch_if_asked() {
    let cluster = Cluster::start().await;
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let (gate, held) = cluster.hold(cluster.session("s"), ask("two")).await;
    let leaving = cluster.session("s").header("x-hermes-turn-policy", "branch");
    let branch = leaving.post_json(CHAT, &ask("three")).await.expect(200);
    assert_eq!(branch["session"]["resolution"], "branched");
    assert_eq!(branch["session"]["provenance"]["parent_session_id"], "s");
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(
        context,
        ["user: one", "assistant: reply to: one", "user: three"],
        "the branch has nothing of the running turn"
    );
    gate.open();
    held.await.unwrap().expect(200);
    let expected = ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two"];
    assert_eq!(transcript(&cluster.herma.client(), "s").await, expected);
    let id = branch["session"]["session_id"].as_str().unwrap().to_owned();
    cluster.session(&id).post_json(CHAT, &ask("four")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().transcript().len(), 5);
    let idle = leaving.post_json(CHAT, &ask("five")).await.expect(200);
    assert_eq!(idle["session"]["resolution"], "head", "no turn is running");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_response_that_continues_a_busy_conversation_becomes_a_branch_if_asked() {
    let cluster = Cluster::start().await;
    let first =
        cluster.session("s").post_json("/v1/responses", &json!({"model": "m", "input": "one"})).await.expect(200);
    let (gate, held) = cluster.hold(cluster.session("s"), ask("two")).await;
    let leaving = cluster.herma.client().header("x-hermes-turn-policy", "branch");
    let body = json!({"model": "m", "input": "three", "previous_response_id": first["id"]});
    let branch = leaving.post_json("/v1/responses", &body).await.expect(200);
    assert_eq!(branch["session"]["resolution"], "branched");
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(
        context,
        ["user: one", "assistant: reply to: one", "user: three"],
        "the branch has nothing of the running turn"
    );
    gate.open();
    held.await.unwrap().expect(200);
    cluster.stored().until_settled().await;
}
