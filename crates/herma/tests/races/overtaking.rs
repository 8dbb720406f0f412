//! Retries that are processed before their original request, because the original's process is stopped.

use std::time::Duration;

use herma_testkit::{Client, Herma};
use serde_json::{Value, json};

use crate::support::{CHAT, Cluster, ask, named, retry, send_only, transcript, until};

const IN_SESSION: &str = "x-hermes-session-id: s\r\n";

/// Stops a process and waits until it is stopped. The signal takes effect later, and until then the process could
/// still accept a request.
async fn stop(herma: &Herma) {
    herma.pause();
    let threads = format!("/proc/{}/task", herma.pid());
    let stands = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.is_empty() || status.contains("\nState:\tT")
    };
    until("the process was to stop", async || std::fs::read_dir(&threads).is_ok_and(|all| all.flatten().all(stands)))
        .await;
}

#[tokio::test]
async fn an_original_that_comes_after_its_retry_joins_it() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let clients = [(IN_SESSION, named(other.client(), "s")), ("", other.client())];
    for (round, (session, client)) in clients.iter().cycle().take(10).enumerate() {
        let turns = i64::try_from(round).unwrap() + 1;
        let body = ask(&format!("question {round}"));
        let overtaken = cluster.stored().overtaken();
        stop(&cluster.herma).await;
        drop(send_only(&cluster.herma, CHAT, session, &body).await);
        retry(client, 1).post_json(CHAT, &body).await.expect(200);
        cluster.herma.resume();
        until("the original was to join its retry", async || cluster.stored().overtaken() > overtaken).await;
        assert_eq!(cluster.stored().all_turns(), turns, "turns after round {round}");
    }
    assert_eq!(cluster.upstream.requests().len(), 10);
    assert_eq!(transcript(&other.client(), "s").await.len(), 10);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn an_original_whose_client_still_waits_is_a_request_of_its_own() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    stop(&cluster.herma).await;
    let waits = send_only(&cluster.herma, CHAT, IN_SESSION, &ask("one")).await;
    retry(&named(other.client(), "s"), 1).post_json(CHAT, &ask("one")).await.expect(200);
    cluster.herma.resume();
    cluster.stored().until_turns("completed", 2).await;
    assert_eq!(cluster.stored().overtaken(), 0);
    drop(waits);
}

#[tokio::test]
async fn an_original_and_its_retry_that_one_process_finds_together_are_one_turn() {
    let cluster = Cluster::start().await;
    for round in 0..5 {
        let joined = cluster.stored().joined_turns();
        stop(&cluster.herma).await;
        let body = ask(&format!("question {round}"));
        drop(send_only(&cluster.herma, CHAT, IN_SESSION, &body).await);
        let (client, again): (Client, Value) = (retry(&cluster.session("s"), 1), body.clone());
        let retried = tokio::spawn(async move { client.post_json(CHAT, &again).await });
        // Gives the kernel time to accept the retry before the process resumes.
        tokio::time::sleep(Duration::from_millis(50)).await;
        cluster.herma.resume();
        retried.await.unwrap().expect(200);
        until("one of the two was to join the other", async || cluster.stored().joined_turns() > joined).await;
        assert_eq!(cluster.stored().all_turns(), round + 1);
    }
    assert_eq!(cluster.upstream.requests().len(), 5);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_response_of_no_conversation_is_answered_once_in_any_order() {
    let cluster = Cluster::start().await;
    let body = json!({"model": "m", "input": "one", "store": false});
    retry(&cluster.herma.client(), 1).post_json("/v1/responses", &body).await.expect(200);
    stop(&cluster.herma).await;
    drop(send_only(&cluster.herma, "/v1/responses", "", &body).await);
    cluster.herma.resume();
    // When a later request has its answer, the original has been processed or dropped.
    cluster.herma.client().post_json(CHAT, &ask("two")).await.expect(200);
    assert_eq!(cluster.upstream.requests().len(), 2);
}
