//! Runs that are queued, stopped or killed, and whose events are read again, in any process.

use herma_testkit::upstream::Pace;
use herma_testkit::{Client, Completion, Event, EventStream, Gate, Reply};
use serde_json::{Value, json};

use crate::support::{Cluster, retry, transcript, until};

const RUNS: &str = "/v1/runs";

fn background(text: &str) -> Value {
    json!({"model": "m", "input": text, "session_id": "s", "kind": "background"})
}

fn path(run: &Value) -> String {
    format!("{RUNS}/{}", run["run_id"].as_str().unwrap())
}

async fn begun(client: &Client, text: &str) -> Value {
    client.post_json(RUNS, &background(text)).await.expect(202)
}

async fn shown(client: &Client, run: &Value) -> Value {
    client.get(&path(run)).await.expect(200)
}

async fn stopped(client: &Client, run: &Value) -> Value {
    client.post_json(&format!("{}/stop", path(run)), &json!({})).await.expect(200)
}

async fn events(client: &Client, run: &Value) -> EventStream {
    let stream = client.get_stream(&format!("{}/events", path(run))).await;
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
    stream
}

/// The events after this one, as a browser requests them when it reconnects.
async fn events_after(client: &Client, run: &Value, number: usize) -> EventStream {
    events(&client.clone().header("last-event-id", &number.to_string()), run).await
}

/// All remaining events. Checks how the stream ends.
async fn rest(stream: &mut EventStream) -> Vec<Event> {
    let mut all = stream.rest().await;
    assert_eq!(all.pop().map(|last| last.comment).as_deref().map(str::trim), Some("stream closed"));
    all.retain(|event| event.comment.is_empty());
    all
}

async fn all(client: &Client, run: &Value) -> Vec<Event> {
    rest(&mut events(client, run).await).await
}

/// Waits until a run has ended.
async fn ended(client: &Client, run: &Value) -> Value {
    until("the run ends", async || {
        !["queued", "running", "stopping"].contains(&shown(client, run).await["status"].as_str().unwrap())
    })
    .await;
    shown(client, run).await
}

fn names(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.json()["event"].as_str().unwrap().to_owned()).collect()
}

/// Reads a stream up to its next piece of text.
async fn next_delta(stream: &mut EventStream) -> Event {
    loop {
        let event = stream.next().await.expect("a piece of text before the end");
        if event.comment.is_empty() && event.json()["event"] == "message.delta" {
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
async fn runs_of_one_session_wait_for_each_other_and_go_on_by_themselves() {
    let mut cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let first = begun(&client, "one").await;
    let second = begun(&client, "two").await;
    assert_eq!((&first["status"], &second["status"]), (&json!("running"), &json!("queued")));
    assert_eq!(shown(&client, &second).await["status"], "queued");
    let mut waiting = events(&client, &second).await;
    gate.open();
    let live = rest(&mut waiting).await;
    assert_eq!(names(&live).first().map(String::as_str), Some("run.started"));
    let done = ended(&client, &second).await;
    assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!("reply to: two")));
    assert_eq!(transcript(&client, "s").await.len(), 4, "one after the other, in one conversation");
    cluster.restart().await;
    let client = cluster.herma.client();
    assert_eq!(shown(&client, &second).await, done);
    assert_eq!(all(&client, &second).await, live, "the live events of a queued run are equal to the stored ones");
}

#[tokio::test]
async fn events_are_the_same_for_every_reader_live_and_over_from_every_number_on() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let client = cluster.herma.client();
    let gate = in_two_pieces(&cluster);
    let run = begun(&client, "one").await;
    let mut readers = Vec::new();
    for client in [&client, &client, &other.client()] {
        let mut whole = events(client, &run).await;
        assert_eq!(next_delta(&mut whole).await.json()["delta"], "half ");
        readers.push((whole, 1));
        for number in 0..4 {
            readers.push((events_after(client, &run, number).await, number));
        }
    }
    gate.open();
    let live = all(&client, &run).await;
    assert_eq!(names(&live), ["run.started", "message.delta", "message.delta", "run.completed"]);
    assert_eq!(live.iter().map(|event| event.id.clone().unwrap()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    for (mut reader, number) in readers {
        assert_eq!(rest(&mut reader).await, live[number + 1..], "live, after {number}");
    }
    let status = shown(&client, &run).await;
    cluster.restart().await;
    for client in [cluster.herma.client(), other.client()] {
        assert_eq!(shown(&client, &run).await, status);
        assert_eq!(all(&client, &run).await, live, "after its process has gone");
        for number in 0..5 {
            let expected = &live[(number + 1).min(live.len())..];
            assert_eq!(rest(&mut events_after(&client, &run, number).await).await, expected, "after {number}");
            let query = format!("{}/events?starting_after={number}", path(&run));
            assert_eq!(rest(&mut client.get_stream(&query).await).await, expected, "after {number}");
        }
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_stops_nothing() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client().header("x-hermes-on-disconnect", "cancel");
    let gate = in_two_pieces(&cluster);
    let run = begun(&client, "one").await;
    let mut reader = events(&client, &run).await;
    next_delta(&mut reader).await;
    drop(reader);
    gate.open();
    assert_eq!(ended(&client, &run).await["output"], "half whole");
}

#[tokio::test]
async fn a_run_whose_process_was_killed_is_interrupted() {
    let mut cluster = Cluster::start().await;
    let other = cluster.another().await;
    let client = cluster.herma.client();
    let gate = in_two_pieces(&cluster);
    let run = begun(&client, "one").await;
    let waiting = begun(&client, "two").await;
    let mut reader = events(&client, &run).await;
    let last: usize = next_delta(&mut reader).await.id.unwrap().parse().unwrap();
    let elsewhere = tokio::spawn({
        let (client, run) = (other.client(), run.clone());
        async move { all(&client, &run).await }
    });
    cluster.restart().await;
    drop(gate);
    let client = cluster.herma.client();
    for run in [&run, &waiting] {
        let cut_off = ended(&client, run).await;
        assert_eq!((&cut_off["status"], &cut_off["error_code"]), (&json!("interrupted"), &json!("interrupted")));
        assert_eq!(shown(&other.client(), run).await, cut_off);
    }
    let told = all(&client, &run).await;
    assert_eq!(names(&told).last().map(String::as_str), Some("run.interrupted"));
    assert_eq!(elsewhere.await.unwrap().last(), told.last(), "another process tells the same end");
    let resumed = rest(&mut events_after(&client, &run, last).await).await;
    assert_eq!(resumed.last(), told.last(), "its number was never sent before");
    assert_eq!(names(&all(&client, &waiting).await), ["run.interrupted"]);
    assert_eq!(cluster.upstream.requests().len(), 1, "a queued turn never reached the model");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_run_that_is_stopped_says_so_for_ever() {
    let mut cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let _gate = in_two_pieces(&cluster);
    let run = begun(&client, "one").await;
    let mut reader = events(&client, &run).await;
    next_delta(&mut reader).await;
    let off = stopped(&client, &run).await;
    assert_eq!((&off["run_id"], &off["status"]), (&run["run_id"], &json!("cancelled")));
    assert_eq!((&off["output"], &off["error"]), (&json!("half "), &json!(null)), "the streamed output is kept");
    let live = rest(&mut reader).await;
    assert_eq!(names(&live), ["run.cancelled"]);
    cluster.upstream.until_open(0).await;
    assert_eq!(stopped(&client, &run).await, off, "stopping it twice changes nothing");
    let completed = begun(&client, "two").await;
    ended(&client, &completed).await;
    assert_eq!(stopped(&client, &completed).await["status"], "completed", "a completed run stays completed");
    cluster.restart().await;
    let client = cluster.herma.client();
    assert_eq!(shown(&client, &run).await, off);
    assert_eq!(all(&client, &run).await[2..], live);
}

#[tokio::test]
async fn a_run_of_another_process_is_stopped_too() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let _gate = in_two_pieces(&cluster);
    let run = begun(&cluster.herma.client(), "one").await;
    let waiting = begun(&cluster.herma.client(), "two").await;
    let mut reader = events(&cluster.herma.client(), &waiting).await;
    assert_eq!(stopped(&other.client(), &waiting).await["status"], "cancelled", "one that waits");
    assert_eq!(names(&rest(&mut reader).await), ["run.cancelled"]);
    assert_eq!(stopped(&other.client(), &run).await["status"], "cancelled", "one that runs");
    cluster.upstream.until_open(0).await;
    assert_eq!(cluster.upstream.requests().len(), 1, "a queued turn never reached the model");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_run_that_is_slow_to_stop_is_stopping() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let client = other.client();
    let _gate = in_two_pieces(&cluster);
    let run = begun(&cluster.herma.client(), "one").await;
    cluster.herma.pause();
    let stopping = tokio::spawn({
        let (client, run) = (client.clone(), run.clone());
        async move { stopped(&client, &run).await }
    });
    until("the run is stopping", async || shown(&client, &run).await["status"] == "stopping").await;
    let off = stopping.await.unwrap();
    cluster.herma.resume();
    assert_eq!(off["status"], "cancelled");
    cluster.upstream.until_open(0).await;
    assert_eq!(shown(&cluster.herma.client(), &run).await, off);
}

#[tokio::test]
async fn a_run_that_was_interrupted_by_another_says_so() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let _gate = in_two_pieces(&cluster);
    let run = begun(&client, "one").await;
    let mut reader = events(&client, &run).await;
    next_delta(&mut reader).await;
    let eager = begun(&client.clone().header("x-hermes-turn-policy", "interrupt"), "two").await;
    assert_eq!(names(&rest(&mut reader).await), ["run.interrupted"]);
    assert_eq!(shown(&client, &run).await["status"], "interrupted");
    assert_eq!(ended(&client, &eager).await["status"], "completed");
    let _gate = in_two_pieces(&cluster);
    begun(&client, "three").await;
    let refused = client.header("x-hermes-turn-policy", "reject").post_json(RUNS, &background("four")).await;
    assert_eq!(refused.expect(409)["error"]["code"], "conversation_busy");
}

#[tokio::test]
async fn a_request_for_a_run_that_comes_again_is_the_same_run() {
    let mut cluster = Cluster::start().await;
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let body = json!({"model": "m", "input": "one"});
    let keyed = |cluster: &Cluster| cluster.herma.client().header("idempotency-key", "k");
    let first = keyed(&cluster).post_json(RUNS, &body).await.expect(202);
    let second = retry(&keyed(&cluster), 1).post_json(RUNS, &body).await.expect(202);
    assert_eq!(first["run_id"], second["run_id"]);
    gate.open();
    ended(&keyed(&cluster), &first).await;
    cluster.restart().await;
    let third = keyed(&cluster).post_json(RUNS, &body).await.expect(202);
    assert_eq!((&third["run_id"], &third["status"]), (&first["run_id"], &json!("completed")));
    let other = keyed(&cluster).post_json(RUNS, &json!({"model": "m", "input": "two"})).await;
    assert_eq!(other.expect(422)["error"]["code"], "idempotency_mismatch");
    assert_eq!(cluster.upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_sdks_retry_for_a_run_of_a_session_is_the_same_run_while_it_runs() {
    let cluster = Cluster::start().await;
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let client = cluster.herma.client();
    let first = begun(&client, "one").await;
    gate.until_waiting(1).await;
    until("the answer counts as delivered", async || cluster.stored().delivered() == 1).await;
    for count in [1, 2] {
        let again = begun(&retry(&client, count), "one").await;
        assert_eq!(again["run_id"], first["run_id"], "retry {count}");
    }
    gate.open();
    assert_eq!(ended(&client, &first).await["output"], "reply to: one");
    assert_eq!((cluster.upstream.requests().len(), cluster.stored().all_turns()), (1, 1));
}

#[tokio::test]
async fn a_request_that_comes_again_after_a_crash_tries_its_run_again() {
    let mut cluster = Cluster::start().await;
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let keyed = |cluster: &Cluster| cluster.herma.client().header("idempotency-key", "k");
    let first = keyed(&cluster).post_json(RUNS, &background("one")).await.expect(202);
    gate.until_waiting(1).await;
    cluster.restart().await;
    let client = keyed(&cluster);
    assert_eq!(ended(&client, &first).await["status"], "interrupted");
    let again = client.post_json(RUNS, &background("one")).await.expect(202);
    assert_eq!(again["run_id"], first["run_id"]);
    assert_eq!(ended(&client, &again).await["output"], "reply to: one");
    assert_eq!(transcript(&client, "s").await, ["user: one", "assistant: reply to: one"], "the model is called once");
}
