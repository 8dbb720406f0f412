//! Background responses that run, wait, are cancelled and are read again, in any process.

use herma_testkit::upstream::Pace;
use herma_testkit::{Client, Completion, Event, EventStream, Gate, Reply};
use serde_json::{Value, json};

use crate::support::{Cluster, ask, named, retry, transcript, until};

const RESPONSES: &str = "/v1/responses";

fn background(text: &str) -> Value {
    json!({"model": "m", "input": text, "conversation": "s", "background": true})
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

fn path(response: &Value) -> String {
    format!("{RESPONSES}/{}", response["id"].as_str().unwrap())
}

async fn fetched(client: &Client, response: &Value) -> Value {
    client.get(&path(response)).await.expect(200)
}

async fn cancelled(client: &Client, response: &Value) -> Value {
    client.post_json(&format!("{}/cancel", path(response)), &json!({})).await.expect(200)
}

/// The input of a response.
async fn asked(client: &Client, response: &Value) -> String {
    let items = client.get(&format!("{}/input_items", path(response))).await.expect(200);
    items["data"][0]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Waits until a response has ended.
async fn ended(client: &Client, response: &Value) -> Value {
    until("the response ends", async || {
        !["queued", "in_progress"].contains(&fetched(client, response).await["status"].as_str().unwrap())
    })
    .await;
    fetched(client, response).await
}

/// The data of all events that are left.
async fn frames(stream: &mut EventStream) -> Vec<String> {
    stream.rest().await.into_iter().filter(|event| event.comment.is_empty()).map(|event| event.data).collect()
}

fn number(event: &Event) -> u64 {
    event.json()["sequence_number"].as_u64().unwrap()
}

/// Reads a stream up to its next piece of text.
async fn next_delta(stream: &mut EventStream) -> Event {
    loop {
        let event = stream.next().await.expect("a piece of text before the end");
        if event.name.as_deref() == Some("response.output_text.delta") {
            return event;
        }
    }
}

/// Scripts the next answer in two pieces. The second waits until the gate is opened.
fn in_two_pieces(cluster: &Cluster) -> Gate {
    let gate = Gate::new();
    cluster.upstream.push(Completion::chunks(["half ", "whole"]).pace(Pace::Gated(gate.clone())).into());
    gate.release(1);
    gate
}

#[tokio::test]
async fn a_response_in_the_background_is_answered_at_once_and_completed_by_itself() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let begun = client.post_json(RESPONSES, &background("one")).await.expect(200);
    assert_eq!((&begun["status"], &begun["background"]), (&json!("in_progress"), &json!(true)));
    assert_eq!(begun["session"]["session_id"], "s");
    let waiting = client.post_json(RESPONSES, &background("two")).await.expect(200);
    assert_eq!(waiting["status"], "queued");
    assert_eq!(fetched(&client, &waiting).await["status"], "queued");
    assert_eq!(asked(&client, &waiting).await, "two", "the input is readable while the turn is queued");
    gate.open();
    let two = ended(&client, &waiting).await;
    assert_eq!((&two["status"], &two["created_at"]), (&json!("completed"), &waiting["created_at"]));
    assert_eq!(fetched(&client, &begun).await["output"][0]["content"][0]["text"], "reply to: one");
    let expected = ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two"];
    assert_eq!(transcript(&client, "s").await, expected);
}

#[tokio::test]
async fn what_cannot_be_fetched_is_not_made_in_the_background() {
    let cluster = Cluster::start().await;
    let mut body = background("one");
    body["store"] = json!(false);
    let refused = cluster.herma.client().post_json(RESPONSES, &body).await.expect(400);
    assert_eq!(refused["error"]["param"], "background");
    assert_eq!(cluster.stored().turns("completed"), 0);
}

#[tokio::test]
async fn a_response_that_is_called_off_says_so_for_ever() {
    let mut cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let _gate = in_two_pieces(&cluster);
    let begun = client.post_json(RESPONSES, &background("one")).await.expect(200);
    next_delta(&mut client.get_stream(&format!("{}?stream=true", path(&begun))).await).await;
    let off = cancelled(&client, &begun).await;
    assert_eq!((&off["status"], &off["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(off["output"][0]["content"][0]["text"], "half ", "the streamed output is kept");
    cluster.upstream.until_open(0).await;
    assert_eq!(cancelled(&client, &begun).await, off, "cancelling twice changes nothing");
    cluster.restart().await;
    let client = cluster.herma.client();
    assert_eq!(fetched(&client, &begun).await, off);
    let completed = client.post_json(RESPONSES, &json!({"model": "m", "input": "two"})).await.expect(200);
    assert_eq!(cancelled(&client, &completed).await["status"], "completed", "a completed response stays completed");
    client.post_json(&format!("{RESPONSES}/resp_{}/cancel", "0".repeat(32)), &json!({})).await.expect(404);
}

#[tokio::test]
async fn a_response_of_another_process_is_called_off_too() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let _gate = in_two_pieces(&cluster);
    let begun = cluster.herma.client().post_json(RESPONSES, &background("one")).await.expect(200);
    let waiting = cluster.herma.client().post_json(RESPONSES, &background("two")).await.expect(200);
    assert_eq!(cancelled(&other.client(), &waiting).await["status"], "cancelled", "one that waits");
    assert_eq!(asked(&other.client(), &waiting).await, "two", "the input is kept");
    assert_eq!(cancelled(&other.client(), &begun).await["status"], "cancelled", "one that runs");
    cluster.upstream.until_open(0).await;
    named(other.client(), "s").post_json(crate::support::CHAT, &ask("three")).await.expect(200);
    assert_eq!(cluster.upstream.requests().len(), 2, "a queued turn never reached the model");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_process_that_hangs_does_not_keep_a_response_from_being_called_off() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let _gate = in_two_pieces(&cluster);
    let begun = cluster.herma.client().post_json(RESPONSES, &background("one")).await.expect(200);
    cluster.herma.pause();
    let off = cancelled(&other.client(), &begun).await;
    cluster.herma.resume();
    assert_eq!(off["status"], "cancelled");
    cluster.upstream.until_open(0).await;
    assert_eq!(fetched(&cluster.herma.client(), &begun).await, off);
}

#[tokio::test]
async fn responses_of_a_killed_process_fail_and_are_never_sent_to_the_model_again() {
    let mut cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let begun = client.post_json(RESPONSES, &background("one")).await.expect(200);
    let waiting = client.post_json(RESPONSES, &background("two")).await.expect(200);
    gate.until_waiting(1).await;
    cluster.restart().await;
    let client = cluster.herma.client();
    for response in [&begun, &waiting] {
        let failed = ended(&client, response).await;
        assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("interrupted")));
    }
    assert_eq!(cluster.upstream.requests().len(), 1);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_stream_is_read_again_while_it_runs_and_when_it_is_over_with_the_same_events() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let client = cluster.herma.client();
    let gate = in_two_pieces(&cluster);
    let mut first = client.post_stream(RESPONSES, &streamed(background("one"))).await;
    let created = first.next().await.unwrap();
    let id = created.json()["response"].clone();
    let again = format!("{}?stream=true", path(&id));
    let readers =
        [client.get_stream(&again).await, client.get_stream(&again).await, other.client().get_stream(&again).await];
    let mut seen = Vec::new();
    for mut reader in readers {
        assert_eq!(reader.next().await.unwrap(), created);
        let delta = next_delta(&mut reader).await;
        assert_eq!(delta.json()["delta"], "half ");
        seen.push((reader, number(&delta)));
    }
    gate.open();
    let whole: Vec<String> = std::iter::once(created.data).chain(frames(&mut first).await).collect();
    assert_eq!(whole.last().map(String::as_str), Some("[DONE]"));
    for (mut reader, number) in seen {
        assert_eq!(frames(&mut reader).await, whole[number as usize + 1..]);
    }
    cluster.restart().await;
    for client in [cluster.herma.client(), other.client()] {
        assert_eq!(frames(&mut client.get_stream(&again).await).await, whole, "after its process has gone");
        for after in [0, 4, whole.len() - 3, whole.len() - 2, 1000] {
            let path = format!("{again}&starting_after={after}");
            let rest = frames(&mut client.get_stream(&path).await).await;
            assert_eq!(rest, whole[(after + 1).min(whole.len() - 1)..], "after {after}");
        }
    }
}

#[tokio::test]
async fn a_killed_stream_ends_with_a_number_that_was_never_sent() {
    let mut cluster = Cluster::start().await;
    let gate = in_two_pieces(&cluster);
    let mut first = cluster.herma.client().post_stream(RESPONSES, &streamed(background("one"))).await;
    let response = first.next().await.unwrap().json()["response"].clone();
    let last = number(&next_delta(&mut first).await);
    cluster.restart().await;
    drop(gate);
    let client = cluster.herma.client();
    ended(&client, &response).await;
    let path = format!("{}?stream=true&starting_after={last}", path(&response));
    let rest = client.get_stream(&path).await.rest().await;
    let end = rest.iter().find(|event| event.name.as_deref() == Some("response.failed")).expect("an end");
    assert!(number(end) > last + 1000);
    assert_eq!(end.json()["response"]["error"]["code"], "interrupted");
}

#[tokio::test]
async fn a_stream_that_failed_is_read_again_as_it_was() {
    let mut cluster = Cluster::start().await;
    cluster.upstream.push(Reply::error_after(2, "no more"));
    let mut first =
        cluster.herma.client().post_stream(RESPONSES, &streamed(json!({"model": "m", "input": "one"}))).await;
    let whole = frames(&mut first).await;
    let response: Value = serde_json::from_str(&whole[0]).unwrap();
    assert!(whole[whole.len() - 2].contains("response.failed"), "{whole:?}");
    cluster.restart().await;
    let again = format!("{}?stream=true", path(&response["response"]));
    assert_eq!(frames(&mut cluster.herma.client().get_stream(&again).await).await, whole);
}

#[tokio::test]
async fn an_sdks_retry_of_a_response_in_the_background_is_the_same_response() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client().header("idempotency-key", "k");
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let body = json!({"model": "m", "input": "one", "background": true});
    let first = client.post_json(RESPONSES, &body).await.expect(200);
    let second = retry(&client, 1).post_json(RESPONSES, &body).await.expect(200);
    assert_eq!(first["id"], second["id"]);
    gate.open();
    assert_eq!(ended(&client, &first).await["status"], "completed");
    let third = client.post_json(RESPONSES, &body).await.expect(200);
    assert_eq!((&third["id"], &third["status"]), (&first["id"], &json!("completed")));
    assert_eq!(cluster.upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_chain_goes_on_from_a_response_that_still_waits() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    client.post_json(RESPONSES, &background("one")).await.expect(200);
    let waiting = client.post_json(RESPONSES, &background("two")).await.expect(200);
    let after = json!({"model": "m", "input": "three", "previous_response_id": waiting["id"], "background": true});
    let last = client.post_json(RESPONSES, &after).await.expect(200);
    assert_eq!(last["status"], "queued");
    gate.open();
    assert_eq!(ended(&client, &last).await["status"], "completed");
    assert_eq!(transcript(&client, "s").await.len(), 6, "one conversation, in order");
}

#[tokio::test]
async fn what_waited_and_became_a_branch_is_in_the_branch_alone() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let one =
        client.post_json(RESPONSES, &json!({"model": "m", "input": "one", "conversation": "s"})).await.expect(200);
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    client.post_json(RESPONSES, &background("two")).await.expect(200);
    let after = |previous: &Value, text: &str| {
        let previous = &previous["id"];
        json!({"model": "m", "input": text, "previous_response_id": previous, "background": true})
    };
    let waiting = client.post_json(RESPONSES, &after(&one, "other")).await.expect(200);
    assert_eq!(waiting["status"], "queued");
    gate.open();
    let branch = ended(&client, &waiting).await;
    assert_eq!(branch["session"]["resolution"], "branched");
    assert_ne!(branch["session"]["conversation_id"], one["session"]["conversation_id"]);
    let input = client.get(&format!("{}/input_items", path(&branch))).await.expect(200);
    assert_eq!(input["data"][0]["content"][0]["text"], "other");
    let more = client.post_json(RESPONSES, &after(&branch, "more")).await.expect(200);
    assert_eq!(ended(&client, &more).await["session"]["resolution"], "head");
    let expected = ["user: one", "assistant: reply to: one", "user: other", "assistant: reply to: other"];
    let told = transcript(&client, branch["session"]["conversation_id"].as_str().unwrap()).await;
    assert_eq!(
        (&told[..4], told.len(), transcript(&client, "s").await.len()),
        (&expected.map(str::to_owned)[..], 6, 4)
    );
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_cancelled_turn_stays_cancelled_when_it_is_asked_for_again() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client().header("idempotency-key", "k");
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let body = json!({"model": "m", "input": "one", "background": true});
    let begun = client.post_json(RESPONSES, &body).await.expect(200);
    let off = cancelled(&client, &begun).await;
    let again = client.post_json(RESPONSES, &body).await.expect(200);
    assert_eq!((&again["id"], &again["status"]), (&begun["id"], &json!("cancelled")));
    assert_eq!(fetched(&client, &begun).await, off);
    assert_eq!(cluster.upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_chain_goes_on_from_a_response_that_was_called_off_before_it_began() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    client.post_json(RESPONSES, &background("one")).await.expect(200);
    let waiting = client.post_json(RESPONSES, &background("two")).await.expect(200);
    cancelled(&client, &waiting).await;
    gate.open();
    let after = json!({"model": "m", "input": "three", "previous_response_id": waiting["id"]});
    let third = client.post_json(RESPONSES, &after).await.expect(200);
    assert_eq!(third["session"]["resolution"], "head");
    let expected = ["user: one", "assistant: reply to: one", "user: three", "assistant: reply to: three"];
    assert_eq!(transcript(&client, "s").await, expected);
}

#[tokio::test]
async fn a_cancelled_request_that_is_sent_again_is_a_new_turn() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let body = json!({"model": "m", "input": "one", "conversation": "s", "stream": true});
    let _gate = in_two_pieces(&cluster);
    let mut stream = client.post_stream(RESPONSES, &body).await;
    let response = stream.next().await.unwrap().json()["response"].clone();
    next_delta(&mut stream).await;
    let off = cancelled(&client, &response).await;
    let again = client.post_stream(RESPONSES, &body).await.rest().await;
    assert_ne!(again[0].json()["response"]["id"], response["id"]);
    assert_eq!(fetched(&client, &response).await, off, "a cancelled response stays cancelled");
    let _gate = in_two_pieces(&cluster);
    let mut stream = client.post_stream(RESPONSES, &body).await;
    let response = stream.next().await.unwrap().json()["response"].clone();
    next_delta(&mut stream).await;
    let off = cancelled(&client, &response).await;
    named(client.clone(), "s").post_json(crate::support::CHAT, &ask("one")).await.expect(200);
    assert_eq!(fetched(&client, &response).await, off);
}
