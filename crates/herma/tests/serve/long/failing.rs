//! A failed summary changes nothing.

use herma_testkit::{Completion, Recorded, Reply};
use serde_json::json;

use super::{
    SUMMARY, context, counted, is_summary, many_words, send_four, small_window_gateway, summaries, summaries_are,
    summary_line, words,
};
use crate::support::{CHAT, TestGateway, chat, error, user};

/// Replies that cannot be used as a summary.
pub(super) fn unusable_summaries() -> [(&'static str, Reply); 6] {
    [
        ("error", Reply::status(400, "no")),
        ("empty", Reply::empty()),
        ("refused", Completion::text("No.").finish_reason("content_filter").into()),
        ("cut off", Completion::text("They").finish_reason("length").into()),
        ("too long", Reply::text("and so on ".repeat(400))),
        ("broken", Reply::cut_off_after(1)),
    ]
}

#[tokio::test]
async fn a_useless_summary_changes_nothing_and_the_turn_goes_on_if_it_fits() {
    for (name, reply) in unusable_summaries() {
        let gateway = small_window_gateway(&[]).await;
        send_four(&gateway, "trip").await;
        summaries_are(&gateway, move |_| reply.clone());
        let answer = gateway.say("trip", &many_words(5)).await.expect(200);
        assert_eq!(
            (&answer["session"]["session_id"], &answer["session"]["provenance"]["compaction_count"]),
            (&json!("trip"), &json!(0)),
            "{name}"
        );
        assert_eq!(context(&gateway).len(), 9, "{name}: the whole history is shown");
        assert_eq!(summaries(&gateway).len(), 2, "{name}: tried twice");
        assert_eq!(gateway.rows("trip").await.len(), 10, "{name}: no summary, no error text");
        let ledger = gateway.client().get("/api/sessions/trip/compactions").await.expect(200)["data"].clone();
        assert_eq!(
            (&ledger[0]["outcome"], &ledger[0]["summary"]),
            (&json!("failed"), &json!(null)),
            "{name}: {ledger}"
        );
        gateway.say("trip", "short").await.expect(200);
        assert_eq!(summaries(&gateway).len(), 2, "{name}: the summariser is left alone for a while");
    }
}

#[tokio::test]
async fn a_summary_that_works_at_the_second_try_is_used() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    gateway.upstream.push(Reply::empty());
    let answer = gateway.say("trip", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    assert_eq!((context(&gateway)[0].clone(), summaries(&gateway).len()), (summary_line(), 2));
}

#[tokio::test]
async fn a_summariser_that_takes_too_long_is_not_waited_for() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__TIMEOUT", "200ms")]).await;
    send_four(&gateway, "trip").await;
    summaries_are(&gateway, |_| Reply::Hang);
    let answer = gateway.say("trip", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], false);
    assert_eq!(summaries(&gateway).len(), 2);
}

#[tokio::test]
async fn a_summary_model_of_its_own_is_asked_and_fed_in_parts_that_fit_it() {
    let settings =
        "[compaction]\nmodel = \"scribe\"\n[models.scribe]\nupstream_model = \"scribe-1\"\ncontext_window = 2600\n";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), settings).expect("a file that can be written");
    let gateway = small_window_gateway(&[("HERMA_CONFIG", file.path().to_str().expect("a path"))]).await;
    send_four(&gateway, "trip").await;
    assert_eq!(gateway.say("trip", &many_words(5)).await.expect(200)["session"]["rotated"], true);
    let asked = summaries(&gateway);
    assert!(asked.len() > 1 && asked.iter().all(|request| request.model() == "scribe-1"), "{}", asked.len());
    assert!(asked[1].last_user_text().starts_with(&format!("Summary of what came before:\n{SUMMARY}")));
    let parts: String = asked.iter().map(Recorded::last_user_text).collect();
    for number in 1..=4 {
        assert!(parts.contains(&words(number)), "part {number} is read");
    }
}

#[tokio::test]
async fn an_interrupt_does_not_wait_for_a_summary() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    summaries_are(&gateway, |_| Reply::Hang);
    let client = gateway.in_session("trip");
    let slow = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user(&many_words(5))])).await });
    gateway.upstream.until_requests(5).await;
    let interrupting = gateway.in_session("trip").header("x-hermes-turn-policy", "interrupt");
    summaries_are(&gateway, |_| Reply::text(SUMMARY));
    interrupting.post_json(CHAT, &chat(&[user("stop")])).await.expect(200);
    assert_eq!(error(&slow.await.expect("an end"), 409)["code"], "interrupted");
}

#[tokio::test]
async fn absurd_usage_does_not_stop_a_conversation() {
    for tokens in [i64::MAX as u64, u64::MAX] {
        let gateway = small_window_gateway(&[]).await;
        gateway.upstream.otherwise(move |_: &Recorded| Completion::text("noted").usage(tokens, 10).into());
        for number in 1..=3 {
            gateway.say("trip", &words(number)).await.expect(200);
        }
    }
}

#[tokio::test]
async fn what_one_conversation_is_refused_for_does_not_stop_another() {
    let gateway = small_window_gateway(&[]).await;
    gateway.upstream.otherwise(|request: &Recorded| match is_summary(request) {
        true if request.messages().last().unwrap().to_string().contains("forbidden") => {
            Reply::status(400, "content policy")
        }
        true => Reply::text(SUMMARY),
        false => counted(request, "noted"),
    });
    for number in 1..=4 {
        gateway.say("bad", &format!("forbidden {}", words(number))).await.expect(200);
    }
    gateway.say("bad", &many_words(5)).await.expect(200);
    send_four(&gateway, "good").await;
    let answer = gateway.say("good", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], json!(true));
}

#[tokio::test]
async fn a_summary_that_calls_tools_is_none() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    gateway.upstream.otherwise(|request: &Recorded| match is_summary(request) {
        true => Completion::text("Let me look that up.").finish_reason("tool_calls").into(),
        false => counted(request, "noted"),
    });
    let answer = gateway.say("trip", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], json!(false));
}

#[tokio::test]
async fn a_short_conversation_whose_summary_would_be_no_shorter_has_nothing_to_compact() {
    let gateway = TestGateway::start().await;
    summaries_are(&gateway, |_| Reply::text("and so on ".repeat(60)));
    for number in 1..=3 {
        gateway.say("trip", &format!("question {number}: {}", "and then more ".repeat(14))).await.expect(200);
    }
    let path = "/api/sessions/trip/compactions";
    for body in [json!({}), json!({"dry_run": true})] {
        assert_eq!(error(&gateway.client().post_json(path, &body).await, 409)["code"], "nothing_to_compact", "{body}");
    }
    summaries_are(&gateway, |_| Reply::text(format!("{} {}", SUMMARY, "And so on. ".repeat(60))));
    for body in [json!({"dry_run": true}), json!({})] {
        let done = gateway.client().post_json(path, &body).await.expect(200);
        let summary = done["summary"].as_str().expect("a summary");
        assert!(summary.contains(SUMMARY) && summary.ends_with("on.") && summary.len() < 300, "{summary}");
    }
}
