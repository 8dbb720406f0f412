//! Compactions while others write: two processes, concurrent turns, requests for a compaction, and a kill.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use herma_testkit::{Answer, Client, Gate, Reply};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::long::{
    MODES, SUMMARY, TripView, contexts, many_words, say, send_four, small_window_cluster, summaries, summaries_are,
    summary_line, words,
};
use crate::support::{CHAT, Cluster, ask, ask_streamed, named, send, until};

const LEDGER: &str = "/api/sessions/trip/compactions";

/// About 300 tokens.
fn some_words(number: usize) -> String {
    format!("note {number}: {}", "and one thing more ".repeat(62))
}

/// Asks for a compaction without waiting for it.
fn compact(client: Client, body: Value) -> JoinHandle<Answer> {
    tokio::spawn(async move { client.post_json(LEDGER, &body).await })
}

/// Makes every summary wait at the gate.
fn hold_summaries(cluster: &Cluster) -> Gate {
    let gate = Gate::new();
    let held = gate.clone();
    summaries_are(cluster, move || Reply::text(SUMMARY).held(&held));
    gate
}

/// Sends all texts at the same time: every second one to the other process, every third one as a stream.
async fn burst(cluster: &Cluster, other: &Client, ids: &[&str], texts: &[String]) {
    let turns = texts.iter().enumerate().map(|(number, text)| {
        let client = if number % 2 == 0 { cluster.herma.client() } else { other.clone() };
        let client = named(client, ids[number % ids.len()]);
        let text = text.clone();
        tokio::spawn(async move {
            if number % 3 == 0 {
                client.post_stream(CHAT, &ask_streamed(&text)).await.text().await
            } else {
                client.post_json(CHAT, &ask(&text)).await.content()
            }
        })
    });
    let answers: Vec<String> = join_all(turns).await.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| answer == "noted"), "{answers:?}");
}

/// Checks that every context continues the one before or begins with a summary. Returns the number of contexts that
/// begin with a summary.
fn beginnings(contexts: &[Vec<String>]) -> usize {
    let pairs = contexts.windows(2).map(|pair| (&pair[0], &pair[1]));
    let begun = pairs.filter(|(before, after)| {
        let goes_on = after.len() == before.len() + 2 && after[..before.len()] == before[..];
        assert!(goes_on || after[0] == summary_line(), "{after:?} does not continue {before:?}");
        !goes_on
    });
    begun.count()
}

#[tokio::test]
async fn a_burst_of_turns_in_two_processes_passes_the_threshold_with_one_compaction() {
    for mode in MODES {
        let cluster = small_window_cluster(mode).await;
        let other = cluster.another().await;
        send_four(&cluster).await;
        let texts: Vec<String> = (0..6).map(some_words).collect();
        let conversation =
            cluster.herma.client().get("/api/sessions/trip").await.expect(200)["conversation_id"].clone();
        burst(&cluster, &other.client(), &["trip", conversation.as_str().unwrap()], &texts).await;
        let now = TripView::by(&other.client()).await;
        assert_eq!((now.ledger.len(), &now.ledger[0]["outcome"]), (1, &json!("applied")), "{mode}");
        assert_eq!(now.sessions.len(), if mode == "split" { 2 } else { 1 }, "{mode}");
        assert!(texts.iter().all(|text| now.count(&format!("user: {text}")) == 1), "{mode}");
        assert_eq!((now.said.len(), contexts(&cluster).len()), (20, 10), "{mode}: each was answered once");
        assert_eq!(beginnings(&contexts(&cluster)), 1, "{mode}: one line of turns");
        assert_eq!(now, TripView::by(&cluster.herma.client()).await, "{mode}");
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn bursts_by_old_and_new_ids_leave_one_chain_and_one_compaction_for_each_passing() {
    for mode in MODES {
        let cluster = small_window_cluster(mode).await;
        let other = cluster.another().await;
        send_four(&cluster).await;
        for round in 0..4 {
            let ids = TripView::by(&other.client()).await.sessions;
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let texts: Vec<String> = (0..6).map(|number| words(100 + 10 * round + number)).collect();
            burst(&cluster, &other.client(), &ids, &texts).await;
            let now = TripView::by(&other.client()).await;
            assert!(texts.iter().all(|text| now.count(&format!("user: {text}")) == 1), "{mode}");
            assert_eq!(now.said.len(), 2 * (4 + 6 * (round + 1)), "{mode}");
            let applied = now.ledger.iter().filter(|row| row["outcome"] == "applied").count();
            assert_eq!((applied, &now.compactions), (beginnings(&contexts(&cluster)), &json!(applied)), "{mode}");
            assert_eq!(now.sessions.len(), if mode == "split" { applied + 1 } else { 1 }, "{mode}");
            for row in &now.ledger {
                let (before, after) = (row["tokens_before"].as_u64(), row["tokens_after"].as_u64());
                assert!(before > Some(3_000) && after <= Some(3_000), "{mode}: {row}");
            }
        }
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn only_one_of_two_compactions_at_once_in_two_processes_happens() {
    for mode in MODES {
        let cluster = small_window_cluster(mode).await;
        let other = cluster.another().await;
        send_four(&cluster).await;
        let gate = hold_summaries(&cluster);
        let asked = [cluster.herma.client(), other.client()].map(|client| compact(client, json!({})));
        gate.until_waiting(2).await;
        gate.open();
        let mut answers: Vec<Answer> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
        answers.sort_by_key(|answer| answer.status);
        let done = answers[0].expect(200);
        let refused = answers[1].expect(409)["error"].clone();
        assert_eq!(refused["code"], "nothing_to_compact", "{mode}: {refused}");
        assert_eq!(answers[1].header("x-should-retry"), Some("false"));
        let now = TripView::by(&other.client()).await;
        assert_eq!((now.ledger.len(), &now.ledger[0]["id"], now.summaries), (1, &done["id"], 1), "{mode}");
        assert_eq!((&now.head, now.said.len()), (&done["session_after"].as_str().unwrap().to_owned(), 8), "{mode}");
        for client in [cluster.herma.client(), other.client()] {
            say(&client, "trip", "and?").await.expect(200);
            assert_eq!(contexts(&cluster).last().unwrap()[0], summary_line(), "{mode}");
        }
    }
}

#[tokio::test]
async fn a_compaction_waits_for_the_running_turn_and_loses_none_that_comes_between() {
    for mode in MODES {
        let cluster = small_window_cluster(mode).await;
        let other = cluster.another().await;
        send_four(&cluster).await;
        let (gate, running) = cluster.hold(cluster.session("trip"), ask("running")).await;
        cluster.stored().until_turns("running", 1).await;
        let queued = send(named(other.client(), "trip"), ask("queued"));
        cluster.stored().until_turns("queued", 1).await;
        let asked = compact(other.client(), json!({}));
        until("a summary was to be made", async || summaries(&cluster) == 1).await;
        let waiting = TripView::by(&cluster.herma.client()).await;
        assert!(!asked.is_finished() && waiting.ledger.is_empty() && waiting.head == "trip", "{mode}: {waiting:?}");
        gate.open();
        assert_eq!(running.await.unwrap().content(), "reply to: running", "{mode}");
        assert_eq!(queued.await.unwrap().content(), "noted", "{mode}");
        let done = asked.await.unwrap().expect(200);
        assert_eq!((&done["trigger"], &done["outcome"]), (&json!("manual"), &json!("applied")), "{mode}");
        let now = TripView::by(&cluster.herma.client()).await;
        assert_eq!((now.ledger.len(), now.said.len(), now.summaries), (1, 12, 1), "{mode}");
        let said = ["user: running", "assistant: reply to: running", "user: queued", "assistant: noted"];
        assert_eq!(now.said[8..], said, "{mode}");
        assert_eq!(now.model[0], summary_line(), "{mode}");
        assert!(now.model.ends_with(&said.map(str::to_owned)), "{mode}: {:?}", now.model);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn killed_while_it_waits_for_a_summary_nothing_has_changed_and_the_other_process_goes_on_at_once() {
    for mode in MODES {
        let mut cluster = small_window_cluster(mode).await;
        let other = cluster.another().await;
        send_four(&cluster).await;
        let before = TripView::by(&other.client()).await;
        let gate = hold_summaries(&cluster);
        let lost = send(cluster.session("trip"), ask(&many_words(5)));
        gate.until_waiting(1).await;
        lost.abort();
        cluster.herma.kill();
        summaries_are(&cluster, || Reply::text(SUMMARY));
        let now = TripView::by(&other.client()).await;
        assert_eq!((&now.ledger, &now.sessions, now.summaries), (&before.ledger, &before.sessions, 0), "{mode}");
        let began = Instant::now();
        say(&other.client(), "trip", "and?").await.expect(200);
        assert!(began.elapsed() < Duration::from_secs(1), "{mode}: {:?}", began.elapsed());
        let now = TripView::by(&other.client()).await;
        assert_eq!((now.said.len(), now.ledger.len()), (11, 1), "{mode}: the lost message, and the next turn");
        assert_eq!(cluster.upstream.last_request().transcript(), now.model[..now.model.len() - 1], "{mode}");
        assert_eq!(cluster.stored().turns("interrupted"), 1, "{mode}");
        cluster.stored().until_settled().await;
    }
}

/// How many messages of the full view each of these sessions has.
async fn messages_of<const N: usize>(cluster: &Cluster, sessions: [&str; N]) -> [usize; N] {
    let rows = cluster.herma.client().get("/api/sessions/trip/messages?limit=200").await.expect(200)["data"].clone();
    let rows = rows.as_array().unwrap();
    sessions.map(|session| rows.iter().filter(|row| row["session_id"] == session).count())
}

#[tokio::test]
async fn no_message_of_the_session_that_ends_is_copied_or_moved() {
    let cluster = small_window_cluster("split").await;
    send_four(&cluster).await;
    let done = cluster.herma.client().post_json(LEDGER, &json!({})).await.expect(200);
    let second = done["session_after"].as_str().unwrap();
    assert_eq!(messages_of(&cluster, ["trip", second]).await, [8, 1], "eight, and the summary");
    for number in 5..=7 {
        say(&cluster.herma.client(), "trip", &words(number)).await.expect(200);
    }
    let gate = hold_summaries(&cluster);
    let asked = send(cluster.session("trip"), ask(&many_words(8)));
    gate.until_waiting(1).await;
    assert_eq!(messages_of(&cluster, ["trip", second]).await, [8, 8], "six, and what is asked now");
    gate.open();
    let third = asked.await.unwrap().expect(200)["session"]["session_id"].as_str().unwrap().to_owned();
    assert_ne!(third, second);
    let counts = messages_of(&cluster, ["trip", second, &third]).await;
    assert_eq!(counts, [8, 8, 2], "the summary and the answer are all that is new");
    cluster.stored().until_settled().await;
}
