//! The process dies, or a turn panics, just before or just after a compaction is written.

use std::time::{Duration, Instant};

use herma_gateway::crash::{COMPACTED, SUMMARISED};
use herma_testkit::{Client, Herma};
use serde_json::{Value, json};

use crate::long::{Form, MODES, TripView, many_words, say, send_four, small_window_cluster, summary_line};
use crate::support::{CHAT, Cluster, named, retry, stream_error};

const AT_ONCE: Duration = Duration::from_secs(1);

/// The crash point, the form of the answer and the compaction mode.
#[derive(Clone, Copy, Debug)]
struct Case {
    point: &'static str,
    form: Form,
    mode: &'static str,
}

fn cases() -> impl Iterator<Item = Case> {
    let forms = [SUMMARISED, COMPACTED].into_iter().flat_map(|point| [(point, Form::Whole), (point, Form::Streamed)]);
    forms.flat_map(|(point, form)| MODES.map(|mode| Case { point, form, mode }))
}

/// Lets the process die at the crash point of the fifth turn and starts it again. Also returns the view before that
/// turn.
async fn died(case: Case) -> (Cluster, TripView) {
    let mut cluster = small_window_cluster(case.mode).await;
    send_four(&cluster).await;
    let before = TripView::by(&cluster.herma.client()).await;
    cluster.restart_with("HERMA_CRASH_AT", case.point).await;
    let request = cluster.session("trip").request("POST".parse().unwrap(), CHAT);
    let request = request.header("content-type", "application/json").body(case.form.body(&many_words(5)).to_string());
    if let Ok(mut response) = request.send().await {
        while let Ok(Some(_)) = response.chunk().await {}
    }
    assert!(!cluster.herma.wait().await.success(), "the process was to die: {case:?}");
    cluster.restart().await;
    (cluster, before)
}

/// Before the compaction is written nothing of it is visible, afterwards all of it.
fn check_all_or_nothing(case: Case, before: &TripView, now: &TripView) {
    let asked = format!("user: {}", many_words(5));
    assert_eq!(now.said, [&before.said[..], std::slice::from_ref(&asked)].concat(), "{case:?}");
    if case.point == SUMMARISED {
        assert_eq!((&now.ledger, &now.sessions, now.summaries), (&before.ledger, &before.sessions, 0), "{case:?}");
        assert_eq!((now.head.as_str(), &now.compactions), ("trip", &json!(0)), "{case:?}");
        assert_eq!(now.model[..9], [&before.model[..], &[asked]].concat(), "{case:?}");
    } else {
        check_complete(case, now);
        assert_eq!(now.model[..2], [summary_line(), asked], "{case:?}");
    }
}

/// Checks that one compaction is there with all that belongs to it.
fn check_complete(case: Case, now: &TripView) {
    let [row] = &now.ledger[..] else { panic!("one compaction was to be written, {case:?}: {:?}", now.ledger) };
    assert_eq!((&row["outcome"], &row["mode"]), (&json!("applied"), &json!(case.mode)), "{case:?}");
    assert_eq!((&row["session_before"], &row["session_after"]), (&json!("trip"), &json!(now.head)), "{case:?}");
    assert_eq!((&now.compactions, now.summaries), (&json!(1), 1), "{case:?}");
    assert_eq!(now.sessions.len(), if case.mode == "split" { 2 } else { 1 }, "{case:?}");
    assert_eq!(now.head == "trip", case.mode == "in_place", "{case:?}");
}

/// Sends the fifth message again and checks that the answer comes in time.
async fn send_again(case: Case, client: &Client) {
    let began = Instant::now();
    let body = case.form.body(&many_words(5));
    let text = match case.form {
        Form::Whole => client.post_json(CHAT, &body).await.content(),
        Form::Streamed => client.post_stream(CHAT, &body).await.text().await,
    };
    assert_eq!(text, "noted", "{case:?}");
    assert!(began.elapsed() < AT_ONCE, "{case:?}: {:?}", began.elapsed());
}

/// Checks that the fifth turn was answered once, with one compaction, and that every id continues the conversation.
async fn check_continues(case: Case, cluster: &Cluster, herma: &Herma) {
    let client = herma.client();
    let now = TripView::by(&client).await;
    check_complete(case, &now);
    assert_eq!(now.count(&format!("user: {}", many_words(5))), 1, "{case:?}");
    assert_eq!(now.said.last().map(String::as_str), Some("assistant: noted"), "{case:?}");
    assert_eq!((now.count("assistant: noted"), cluster.stored().all_turns()), (5, 5), "{case:?}");
    assert_eq!(cluster.upstream.last_request().transcript(), now.model[..now.model.len() - 1], "{case:?}");
    for id in &now.sessions {
        say(&client, id, "and?").await.expect(200);
    }
    assert_eq!(TripView::by(&client).await.said.len(), now.said.len() + 2 * now.sessions.len(), "{case:?}");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_compacts_leaves_all_of_the_compaction_or_nothing() {
    for case in cases() {
        let (cluster, before) = died(case).await;
        check_all_or_nothing(case, &before, &TripView::by(&cluster.herma.client()).await);
        send_again(case, &cluster.session("trip")).await;
        check_continues(case, &cluster, &cluster.herma).await;
    }
}

#[tokio::test]
async fn after_a_death_while_compacting_an_sdk_that_tries_again_ends_the_same_turn() {
    for case in cases() {
        let (cluster, _) = died(case).await;
        send_again(case, &retry(&cluster.session("trip"), 1)).await;
        check_continues(case, &cluster, &cluster.herma).await;
    }
}

#[tokio::test]
async fn after_a_death_while_compacting_another_message_goes_on_at_once() {
    for case in cases() {
        let (cluster, _) = died(case).await;
        let began = Instant::now();
        say(&cluster.herma.client(), "trip", "and?").await.expect(200);
        assert!(began.elapsed() < AT_ONCE, "{case:?}: {:?}", began.elapsed());
        let now = TripView::by(&cluster.herma.client()).await;
        check_complete(case, &now);
        assert_eq!(now.said.len(), 11, "{case:?}: {:?}", now.said);
        let context = cluster.upstream.last_request().transcript();
        assert_eq!(context, now.model[..now.model.len() - 1], "{case:?}");
        let note = "assistant: [No reply was given: the request was interrupted.]".to_owned();
        let end = [note, "user: and?".to_owned()];
        assert!(case.point == SUMMARISED || context.ends_with(&end), "{case:?}: {context:?}");
        assert_eq!(cluster.stored().turns("interrupted"), 1, "{case:?}");
        cluster.stored().until_settled().await;
    }
}

/// The error that the client got.
async fn error_of(client: &Client, body: &Value) -> Value {
    let mut stream = client.post_stream(CHAT, body).await;
    if stream.status == 200 {
        stream_error(&stream.rest().await)
    } else {
        stream.into_answer().await.json()["error"].clone()
    }
}

#[tokio::test]
async fn a_panic_while_compacting_leaves_all_of_the_compaction_or_nothing() {
    for case in cases() {
        let mut cluster = small_window_cluster(case.mode).await;
        send_four(&cluster).await;
        let before = TripView::by(&cluster.herma.client()).await;
        cluster.restart_with("HERMA_PANIC_AT", case.point).await;
        let error = error_of(&cluster.session("trip"), &case.form.body(&many_words(5))).await;
        assert_eq!(error["code"], "internal_error", "{case:?}");
        let other = cluster.another().await;
        check_all_or_nothing(case, &before, &TripView::by(&other.client()).await);
        send_again(case, &named(other.client(), "trip")).await;
        check_continues(case, &cluster, &cluster.herma).await;
    }
}
