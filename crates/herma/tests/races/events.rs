//! Event streams over several processes and crashes: no event is missed or repeated.

use std::time::{Duration, Instant};

use herma_testkit::{Client, Event, EventStream};
use serde_json::json;

use crate::support::{CHAT, Cluster, ask, send};

const EVENTS: &str = "/api/events";
const SESSIONS: &str = "/api/sessions";

/// The longest time until a change in another process is in the stream.
const SOON: Duration = Duration::from_secs(2);

async fn follow_after(client: Client, id: &str) -> EventStream {
    let stream = client.header("last-event-id", id).get_stream(EVENTS).await;
    assert_eq!(stream.status, 200);
    stream
}

/// The next frame that has data.
async fn next(stream: &mut EventStream) -> Option<Event> {
    loop {
        let event = stream.next().await?;
        if !event.data.is_empty() {
            return Some(event);
        }
    }
}

fn line(event: &Event) -> String {
    format!("{} {}", event.name.as_deref().unwrap(), event.json()["session_id"].as_str().unwrap())
}

#[tokio::test]
async fn a_change_of_another_process_is_told_soon() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let mut streams = [follow_after(cluster.herma.client(), "0").await, follow_after(other.client(), "0").await];
    for (at, client) in [cluster.herma.client(), other.client(), cluster.herma.client()].into_iter().enumerate() {
        let began = Instant::now();
        let id = format!("s{at}");
        client.post_json(SESSIONS, &json!({"id": id})).await.expect(201);
        for stream in &mut streams {
            assert_eq!(line(&next(stream).await.unwrap()), format!("session.created {id}"));
        }
        assert!(began.elapsed() < SOON, "it was told after {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn simultaneous_first_uses_are_told_as_one_creation() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let clients = [cluster.herma.client(), other.client()];
    let asked = (0..8).map(|at: usize| {
        let client = clients[at % 2].clone().header("x-hermes-session-id", "s");
        send(client, ask(&format!("{at}")))
    });
    for answer in asked.collect::<Vec<_>>() {
        answer.await.unwrap().expect(200);
    }
    other.client().post_json(SESSIONS, &json!({"id": "last"})).await.expect(201);
    let mut stream = follow_after(cluster.herma.client(), "0").await;
    for told in ["session.created s", "session.renamed s", "session.created last"] {
        assert_eq!(line(&next(&mut stream).await.unwrap()), told);
    }
}

/// Creates conversations, every second one with a turn, until the process is killed.
async fn make_until_killed(client: Client, maker: usize) {
    for number in 0.. {
        let (path, body) = match number % 2 {
            0 => (SESSIONS, json!({})),
            _ => (CHAT, ask(&format!("{maker} {number}"))),
        };
        let request = client.request("POST".parse().unwrap(), path).header("content-type", "application/json");
        if request.body(body.to_string()).send().await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_follower_misses_and_repeats_nothing_over_crashes() {
    let mut cluster = Cluster::start().await;
    let mut seen: Vec<Event> = Vec::new();
    for _ in 0..3 {
        let makers: Vec<_> =
            (0..4).map(|maker| tokio::spawn(make_until_killed(cluster.herma.client(), maker))).collect();
        let after = seen.last().and_then(|event| event.id.clone()).unwrap_or_else(|| "0".to_owned());
        let mut stream = follow_after(cluster.herma.client(), &after).await;
        for _ in 0..25 {
            seen.push(next(&mut stream).await.unwrap());
        }
        cluster.herma.kill();
        while let Some(event) = next(&mut stream).await {
            seen.push(event);
        }
        for maker in makers {
            maker.await.unwrap();
        }
        cluster.restart().await;
    }
    cluster.herma.client().post_json(SESSIONS, &json!({"id": "last"})).await.expect(201);
    let is_last = |event: &Event| line(event) == "session.created last";
    let mut stream = follow_after(cluster.herma.client(), seen.last().unwrap().id.as_deref().unwrap()).await;
    while !seen.last().is_some_and(is_last) {
        seen.push(next(&mut stream).await.unwrap());
    }
    let mut stream = follow_after(cluster.herma.client(), "0").await;
    let mut all = Vec::new();
    while !all.last().is_some_and(is_last) {
        all.push(next(&mut stream).await.unwrap());
    }
    assert_eq!(seen, all, "the follower got every event once");
    let made = all.iter().filter(|event| event.name.as_deref() == Some("session.created")).count();
    assert_eq!(made as i64, cluster.stored().conversations(), "every conversation was created once");
}

#[tokio::test]
async fn a_stream_ends_when_the_server_stops() {
    let mut cluster = Cluster::start().await;
    let mut stream = cluster.herma.client().get_stream(EVENTS).await;
    assert!(stream.next().await.is_some_and(|place| place.id.is_some()));
    let began = Instant::now();
    cluster.herma.terminate();
    let rest = stream.rest().await;
    assert_eq!(rest.iter().map(|event| event.comment.trim_end()).collect::<Vec<_>>(), ["stream closed"]);
    assert!(!stream.is_broken());
    assert!(cluster.herma.wait().await.success());
    assert!(began.elapsed() < SOON, "a drain does not wait for readers, but it took {:?}", began.elapsed());
}
