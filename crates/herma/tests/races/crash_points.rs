//! The process dies at each named point of a turn and is started again on the same data.

use std::time::{Duration, Instant};

use herma_gateway::crash::{ADMITTED, ANSWERED, COMMITTED, POINTS, SHOWN, VISIBLE};
use herma_testkit::Client;

use crate::long::Form;
use crate::support::{CHAT, Cluster, ask, ask_streamed, named, retry, send, stream_error, streamed, transcript};

/// Every crash point with every form of answer. Without streaming, a turn never passes `SHOWN`.
fn cases() -> impl Iterator<Item = (&'static str, Form)> {
    let cases = POINTS.into_iter().flat_map(|point| [(point, Form::Whole), (point, Form::Streamed)]);
    cases.filter(|case| *case != (SHOWN, Form::Whole))
}

/// Whether the end of the turn is stored at this point.
fn is_committed(point: &str) -> bool {
    point == VISIBLE || point == COMMITTED
}

/// Completes one turn in `s`, lets the process die at this point of the next turn, and starts it again.
async fn died_at(point: &str, form: Form, client: impl Fn(&Cluster) -> Client) -> Cluster {
    let mut cluster = Cluster::start().await;
    assert_eq!(cluster.session("s").post_json(CHAT, &ask("zero")).await.content(), "reply to: zero");
    cluster.herma.kill();
    let data = cluster.herma.data().to_owned();
    let launch = herma_testkit::Launch::serve(env!("CARGO_BIN_EXE_herma")).upstream(&cluster.upstream.base_url());
    cluster.herma = launch.data(data).env("HERMA_CRASH_AT", point).start().await;
    let request = client(&cluster).request("POST".parse().unwrap(), CHAT).header("content-type", "application/json");
    if let Ok(mut response) = request.body(form.body("one").to_string()).send().await {
        while let Ok(Some(_)) = response.chunk().await {}
    }
    assert!(!cluster.herma.wait().await.success(), "the process was to die at {point}");
    cluster.restart().await;
    cluster
}

#[tokio::test]
async fn after_a_crash_anywhere_the_conversation_takes_a_turn_within_a_second() {
    for (point, form) in cases() {
        let cluster = died_at(point, form, |cluster| cluster.session("s")).await;
        let began = Instant::now();
        assert_eq!(cluster.session("s").post_json(CHAT, &ask("two")).await.content(), "reply to: two");
        assert!(began.elapsed() < Duration::from_secs(1), "{point} {form:?}: {:?}", began.elapsed());

        let context = cluster.upstream.last_request().transcript();
        cluster.stored().until_settled().await;
        if point == ADMITTED && context.len() == 3 {
            // The process died before the admission was durable, so nothing of the turn is stored.
            assert_eq!(context, ["user: zero", "assistant: reply to: zero", "user: two"]);
            continue;
        }
        assert_eq!(context[..3], ["user: zero", "assistant: reply to: zero", "user: one"], "{point} {form:?}");
        assert_eq!(context[4..], ["user: two"], "{point} {form:?}");
        let between = context[3].as_str();
        if is_committed(point) {
            assert_eq!(between, "assistant: reply to: one");
        } else if form == Form::Whole || point == ADMITTED {
            assert_eq!(between, "assistant: [No reply was given: the request was interrupted.]", "{point} {form:?}");
        } else {
            // The journal is written every 250 ms, so the last streamed output may be missing.
            let shown = between.strip_suffix("[The reply ends here: it was interrupted.]").map(str::trim_end);
            let shown = shown.and_then(|text| text.strip_prefix("assistant: "));
            let nothing = between == "assistant: [No reply was given: the request was interrupted.]";
            assert!(nothing || shown.is_some_and(|text| "reply to: one".starts_with(text)), "{point}: {between}");
        }
        let interrupted = i64::from(!is_committed(point));
        assert_eq!(cluster.stored().turns("interrupted"), interrupted, "{point} {form:?}");
        let said = transcript(&cluster.herma.client(), "s").await;
        let asked: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("user: ")).collect();
        assert_eq!(asked, ["zero", "one", "two"], "{point} {form:?}");
    }
}

#[tokio::test]
async fn after_a_crash_anywhere_a_retry_ends_with_one_turn_answered_once() {
    for (point, form) in cases() {
        let cluster = died_at(point, form, |cluster| cluster.session("s")).await;
        let answer = match form {
            Form::Whole => retry(&cluster.session("s"), 1).post_json(CHAT, &ask("one")).await.content(),
            Form::Streamed => {
                retry(&cluster.session("s"), 1).post_stream(CHAT, &ask_streamed("one")).await.text().await
            }
        };
        assert_eq!(answer, "reply to: one", "{point} {form:?}");
        let context = cluster.upstream.last_request().transcript();
        assert_eq!(context, ["user: zero", "assistant: reply to: zero", "user: one"], "{point} {form:?}");
        let said = transcript(&cluster.herma.client(), "s").await;
        let whole: Vec<&String> = said.iter().filter(|line| !line.contains("(partial)")).collect();
        assert_eq!(whole[2..], ["user: one", "assistant: reply to: one"], "{point} {form:?}");
        let calls = if is_committed(point) { 2 } else { 3 };
        let called = cluster.upstream.requests().len();
        // A process that died at `ADMITTED` may not have called the model yet.
        assert!(called == calls || (point == ADMITTED && called == 2), "{point} {form:?}: {called}");
        assert_eq!(cluster.stored().all_turns(), 2, "{point} {form:?}");
        cluster.stored().until_settled().await;
    }
}

/// The turn in line is woken before the end of the turn before it is on disk.
#[tokio::test]
async fn after_a_crash_behind_which_a_turn_waits_both_turns_are_answered_once() {
    let mut cluster = Cluster::start().await;
    cluster.restart_with("HERMA_CRASH_AT", VISIBLE).await;
    let (gate, first) = cluster.hold(cluster.session("s"), ask("one")).await;
    let second = send(cluster.session("s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    gate.open();
    assert!(!cluster.herma.wait().await.success(), "the process was to die");
    first.abort();
    second.abort();
    cluster.restart().await;
    let called = cluster.upstream.requests().len();
    assert_eq!(retry(&cluster.session("s"), 1).post_json(CHAT, &ask("one")).await.content(), "reply to: one");
    assert_eq!(cluster.upstream.requests().len(), called, "the first answer was stored");
    assert_eq!(retry(&cluster.session("s"), 1).post_json(CHAT, &ask("two")).await.content(), "reply to: two");
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said, ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two"]);
    cluster.stored().until_settled().await;
}

/// A panic in one turn must not end the process or block the conversation.
#[tokio::test]
async fn after_a_panic_anywhere_the_conversation_takes_a_turn_at_once() {
    for (point, form) in cases() {
        let cluster = Cluster::start_with(|launch| launch.env("HERMA_PANIC_AT", point)).await;
        let mut stream = cluster.session("s").post_stream(CHAT, &form.body("one")).await;
        let events = if stream.status == 200 { stream.rest().await } else { Vec::new() };
        let told = if events.is_empty() {
            stream.into_answer().await.expect(500)["error"].clone()
        } else {
            stream_error(&events)
        };
        assert_eq!(told["code"], "internal_error", "{point} {form:?}");
        let other = cluster.another().await;
        for herma in [&other, &cluster.herma] {
            let began = Instant::now();
            assert_eq!(named(herma.client(), "s").post_json(CHAT, &ask("two")).await.content(), "reply to: two");
            assert!(began.elapsed() < Duration::from_secs(1), "{point} {form:?}: {:?}", began.elapsed());
        }
        assert_eq!(cluster.upstream.last_request().messages().len(), 5, "{point} {form:?}");
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn after_a_crash_a_retry_without_a_session_finds_its_conversation() {
    for (point, form) in [(ADMITTED, Form::Whole), (ANSWERED, Form::Streamed), (COMMITTED, Form::Whole)] {
        let cluster = died_at(point, form, |cluster| cluster.herma.client()).await;
        let client = retry(&cluster.herma.client(), 1);
        let answer = match form {
            Form::Whole => client.post_json(CHAT, &form.body("one")).await.content(),
            Form::Streamed => client.post_stream(CHAT, &form.body("one")).await.text().await,
        };
        assert_eq!(answer, "reply to: one", "{point} {form:?}");
        assert_eq!((cluster.stored().conversations(), cluster.stored().all_turns()), (2, 2), "{point} {form:?}");
    }
}

#[tokio::test]
async fn after_a_crash_an_idempotency_key_leads_to_the_same_turn() {
    for (point, form) in [(ADMITTED, Form::Streamed), (ANSWERED, Form::Whole), (COMMITTED, Form::Streamed)] {
        let keyed = |cluster: &Cluster| named(cluster.herma.client(), "s").header("idempotency-key", "k");
        let cluster = died_at(point, form, keyed).await;
        let first = keyed(&cluster).post_json(CHAT, &form.body("one")).await;
        let again = keyed(&cluster).post_json(CHAT, &form.body("one")).await;
        assert_eq!((first.status, again.status), (200, 200), "{point} {form:?}");
        let other = if form == Form::Whole { streamed(form.body("one")) } else { ask("one") };
        keyed(&cluster).post_json(CHAT, &other).await.expect(422);
        assert_eq!(cluster.stored().all_turns(), 2, "{point} {form:?}");
        let said = transcript(&cluster.herma.client(), "s").await;
        assert_eq!(said.iter().filter(|line| *line == "assistant: reply to: one").count(), 1, "{point} {form:?}");
    }
}
