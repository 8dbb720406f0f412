//! Which waiting turns a change wakes. The tests count lines in the logs of the processes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use herma_testkit::upstream::Pace;
use herma_testkit::{Answer, Completion, Event, Gate, Herma};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Cluster, ask, named, send, transcript, until};

const RESPONSES: &str = "/v1/responses";
/// The first turn in the queue asks for the lease again after this time, if nothing wakes it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Starts processes that log the counted lines.
async fn logging() -> Cluster {
    Cluster::with_settings(&[("HERMA_LOG", "warn,herma_gateway=debug,herma_store_sqlite=debug")]).await
}

/// How often a process has asked the store for a lease.
fn admissions(herma: &Herma) -> usize {
    herma.stderr().matches("the lease is asked for").count()
}

/// The bytes of journals that a process has read.
fn journal_bytes(herma: &Herma) -> usize {
    let log = herma.stderr();
    let read = log.lines().filter(|line| line.contains("a journal is read"));
    read.filter_map(|line| line.rsplit_once("bytes=")?.1.trim().parse::<usize>().ok()).sum()
}

async fn answered(waiters: impl IntoIterator<Item = JoinHandle<Answer>>) {
    for answer in join_all(waiters).await {
        answer.unwrap().expect(200);
    }
}

#[tokio::test]
async fn a_turn_that_ends_wakes_one_waiter_of_its_conversation_and_no_other() {
    const WAITERS: usize = 50;
    let cluster = logging().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("first")).await;
    let (other_gate, other_held) = cluster.hold(cluster.session("t"), ask("first")).await;
    let wait =
        |name| (0..WAITERS).map(|number| send(cluster.session(name), ask(&number.to_string()))).collect::<Vec<_>>();
    let (waiters, others) = (wait("s"), wait("t"));
    cluster.stored().until_turns("queued", 2 * WAITERS as i64).await;
    // The lines of a busy process reach its log a moment later.
    until("all turns were to ask", async || admissions(&cluster.herma) >= 2 * WAITERS + 2).await;
    // All have waited longer than `LOOK_AGAIN`. Only the first in the queue may ask again by itself.
    let first = admissions(&cluster.herma);
    until("the first in line was to ask by itself", async || admissions(&cluster.herma) >= first + 4).await;
    let (before, began) = (admissions(&cluster.herma), Instant::now());
    assert!(before - first < WAITERS, "{} of those who wait have asked by themselves", before - first);
    gate.open();
    held.await.unwrap().expect(200);
    answered(waiters).await;
    let took = began.elapsed();
    until("all turns were to be admitted", async || admissions(&cluster.herma) >= before + WAITERS).await;
    let asked = admissions(&cluster.herma) - before;
    // One request for the lease per turn. A notice that arrives while a commit is synced may cause a second one. The
    // first waiter of the other conversation asks by itself.
    let most = 2 * WAITERS + 2 + (took.as_millis() / LOOK_AGAIN.as_millis()) as usize;
    assert!(asked <= most, "{asked} admissions for {WAITERS} turns");
    assert!(took < LOOK_AGAIN * WAITERS as u32 / 15, "{WAITERS} turns took {took:?}: they were not woken");
    other_gate.open();
    other_held.await.unwrap().expect(200);
    answered(others).await;
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn waiters_of_two_processes_are_woken_in_the_order_in_which_they_came() {
    const WAITERS: usize = 10;
    let cluster = logging().await;
    let other = cluster.another().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("first")).await;
    let mut waiters = Vec::new();
    for (number, herma) in [&other, &cluster.herma].into_iter().cycle().take(WAITERS).enumerate() {
        waiters.push(send(named(herma.client(), "s"), ask(&number.to_string())));
        cluster.stored().until_turns("queued", number as i64 + 1).await;
    }
    let began = Instant::now();
    gate.open();
    held.await.unwrap().expect(200);
    answered(waiters).await;
    // Each lease goes to the other process. Without a notice, each change would take half a second on average.
    assert!(began.elapsed() < LOOK_AGAIN * WAITERS as u32 / 3, "{:?}: they were not woken", began.elapsed());
    let said = transcript(&cluster.herma.client(), "s").await;
    let asked: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("user: ")).collect();
    let order: Vec<_> =
        std::iter::once("first".to_owned()).chain((0..WAITERS).map(|number| number.to_string())).collect();
    assert_eq!(asked, order);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn when_the_process_of_the_running_turn_dies_only_the_first_waiter_notices() {
    const WAITERS: usize = 20;
    let mut cluster = logging().await;
    let other = cluster.another().await;
    let (_gate, lost) = cluster.hold(cluster.session("s"), ask("lost")).await;
    let mut waiters = Vec::new();
    for number in 0..WAITERS {
        waiters.push(send(named(other.client(), "s"), ask(&number.to_string())));
        cluster.stored().until_turns("queued", number as i64 + 1).await;
    }
    let (before, began) = (admissions(&other), Instant::now());
    cluster.herma.kill();
    lost.abort();
    answered(waiters).await;
    let (took, asked) = (began.elapsed(), admissions(&other) - before);
    let most = 2 * WAITERS + 2 + (took.as_millis() / LOOK_AGAIN.as_millis()) as usize;
    assert!(asked <= most, "{asked} admissions for {WAITERS} turns");
    let said = transcript(&other.client(), "s").await;
    let asked: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("user: ")).skip(1).collect();
    assert_eq!(asked, (0..WAITERS).map(|number| number.to_string()).collect::<Vec<_>>());
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_waiter_in_the_middle_of_the_line_ends_when_another_process_cancels_it() {
    let cluster = logging().await;
    let other = cluster.another().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let before = send(cluster.session("s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    let begin = async |input| {
        let body = json!({"model": "m", "input": input, "background": true});
        cluster.session("s").post_json(RESPONSES, &body).await.expect(200)["id"].as_str().unwrap().to_owned()
    };
    let (cancelled, kept) = (begin("three").await, begin("four").await);
    let live = async || {
        let metrics = cluster.herma.client().get("/metrics").await.text();
        metrics.lines().find_map(|line| line.strip_prefix("herma_live_turns ")?.parse::<usize>().ok()).unwrap()
    };
    assert_eq!(live().await, 4);
    let off = other.client().post_json(&format!("{RESPONSES}/{cancelled}/cancel"), &json!({})).await.expect(200);
    assert_eq!(off["status"], "cancelled");
    until("the waiter was to end", async || live().await == 3).await;
    assert!(!before.is_finished(), "the other turn is still queued");
    gate.open();
    answered([held, before]).await;
    let path = format!("{RESPONSES}/{kept}");
    let is_answered = async || other.client().get(&path).await.expect(200)["status"] == "completed";
    until("the last one was to be answered", is_answered).await;
    let said = transcript(&cluster.herma.client(), "s").await;
    let asked: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("user: ")).collect();
    assert_eq!(asked, ["one", "two", "four"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn the_next_in_line_goes_on_when_the_first_gives_up() {
    let cluster = Cluster::with_settings(&[("HERMA_ADMISSION__QUEUE_TIMEOUT", "2s")]).await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let first = send(cluster.session("s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    tokio::time::sleep(LOOK_AGAIN).await;
    let second = send(cluster.session("s"), ask("three"));
    cluster.stored().until_turns("queued", 2).await;
    first.await.unwrap().expect(409);
    let began = Instant::now();
    gate.open();
    answered([held, second]).await;
    assert!(began.elapsed() < LOOK_AGAIN, "{:?}: it was not woken", began.elapsed());
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said, ["user: one", "assistant: reply to: one", "user: three", "assistant: reply to: three"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_follower_in_another_process_reads_what_is_shown_once() {
    const PIECES: usize = 200;
    const PIECE: usize = 1000;
    let cluster = logging().await;
    let other = cluster.another().await;
    let gate = Gate::new();
    let texts: Vec<String> = (0..PIECES).map(|number| format!("{number:0>PIECE$}")).collect();
    cluster.upstream.push(Completion::chunks(&texts).pace(Pace::Gated(gate.clone())).into());
    let body = json!({"model": "m", "input": "tell", "background": true, "stream": true});
    let created = cluster.session("s").post_stream(RESPONSES, &body).await.next().await.unwrap().json();
    let path = format!("{RESPONSES}/{}?stream=true", created["response"]["id"].as_str().unwrap());
    let mut stream = other.client().get_stream(&path).await;
    let mut shown = Vec::new();
    while shown.len() < PIECES {
        gate.release(10);
        let wanted = shown.len() + 10;
        while shown.len() < wanted {
            let event = stream.next().await.expect("a piece").json();
            shown.extend(
                event["delta"].as_str().filter(|_| event["type"] == "response.output_text.delta").map(str::to_owned),
            );
        }
    }
    assert_eq!(shown, texts);
    gate.open();
    let rest = stream.rest().await;
    let last: Value = rest.iter().filter(|event| event.data.starts_with('{')).map(Event::json).next_back().unwrap();
    assert_eq!(last["type"], "response.completed");
    let (read, written) = (journal_bytes(&other), PIECES * PIECE);
    // The journal also records the pieces, but that record is short compared with their text.
    assert!((written / 2..=written + written / 10).contains(&read), "{read} bytes were read of {written}");
    cluster.stored().until_settled().await;
}
