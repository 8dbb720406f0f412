//! Prepared summaries: made before they are needed.

use herma_testkit::{Gate, Reply};
use serde_json::json;

use super::{
    SUMMARY, context, counted, far_too_many_words, is_summary, ledger, many_words, send_four, small_window_gateway,
    summaries, summaries_are, summary_line, words,
};
use crate::support::{CHAT, chat, user};

#[tokio::test]
async fn a_summary_is_prepared_after_the_answer_and_the_next_turn_waits_for_nothing() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let answer = gateway.say("trip", &words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], false);
    let requests = gateway.upstream.until_requests(6).await;
    assert!(is_summary(&requests[5]), "above the soft threshold");
    gateway.upstream.until_open(0).await;
    // From here on, a request for a summary is never answered.
    gateway.upstream.otherwise(|request| if is_summary(request) { Reply::Hang } else { counted(request, "noted") });
    loop {
        let answer = gateway.say("trip", &words(6)).await.expect(200);
        if answer["session"]["rotated"] == true {
            break;
        }
    }
    assert_eq!(context(&gateway)[0], summary_line());
    assert_eq!(summaries(&gateway).len(), 1);
    let ledger = gateway.client().get("/api/sessions/trip/compactions").await.expect(200)["data"][0].clone();
    assert_eq!((&ledger["trigger"], &ledger["outcome"]), (&json!("threshold"), &json!("applied")));
}

#[tokio::test]
async fn a_prepared_summary_that_no_longer_makes_enough_room_is_made_anew() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    gateway.say("trip", &words(5)).await.expect(200);
    gateway.upstream.until_requests(6).await;
    gateway.upstream.until_open(0).await;
    let huge = far_too_many_words();
    let answer = gateway.say("trip", &huge).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    assert_eq!(context(&gateway), [summary_line(), format!("user: {huge}")]);
    assert!(summaries(&gateway).len() > 1);
}

#[tokio::test]
async fn turns_do_not_wait_for_a_summary_that_is_being_prepared() {
    let gateway = small_window_gateway(&[]).await;
    let gate = Gate::new();
    let held = gate.clone();
    gateway.upstream.otherwise(move |request| {
        if is_summary(request) { Reply::text(SUMMARY).held(&held) } else { counted(request, "noted") }
    });
    send_four(&gateway, "trip").await;
    gateway.say("trip", &words(5)).await.expect(200);
    gate.until_waiting(1).await;
    gateway.say("trip", "short").await.expect(200);
    gate.open();
    gateway.say("trip", &many_words(6)).await.expect(200);
}

#[tokio::test]
async fn a_turn_frees_the_model_server_from_a_preparation_which_is_made_again_later() {
    for session in ["trip", "other"] {
        let gateway = small_window_gateway(&[]).await;
        summaries_are(&gateway, |_| Reply::Hang);
        send_four(&gateway, "trip").await;
        gateway.say("trip", &words(5)).await.expect(200);
        gateway.upstream.until_requests(6).await;
        let gate = Gate::new();
        let held = gate.clone();
        gateway.upstream.otherwise(move |request| match is_summary(request) {
            true => Reply::text(SUMMARY),
            false => counted(request, "noted").held(&held),
        });
        let client = gateway.in_session(session);
        let turn = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("short")])).await });
        gate.until_waiting(1).await;
        gateway.upstream.until_open(1).await;
        gate.open();
        turn.await.expect("an end").expect(200);
        gateway.upstream.until_requests(8).await;
        gateway.upstream.until_open(0).await;
        assert_eq!(summaries(&gateway).len(), 2, "{session}: prepared again");
        assert!(ledger(&gateway, "trip").await.is_empty(), "{session}: to make way is no failure");
        let answer = gateway.say("trip", &many_words(6)).await.expect(200);
        assert_eq!((&answer["session"]["rotated"], summaries(&gateway).len()), (&json!(true), 2), "{session}");
        assert_eq!(context(&gateway)[0], summary_line(), "{session}");
    }
}
