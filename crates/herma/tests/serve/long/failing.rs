//! A failed summary changes nothing.

use herma_testkit::{Completion, Recorded, Reply};
use serde_json::json;

use super::{
    SUMMARY, context, counted, is_summary, long_world, many_words, shown_summary, summaries, summaries_are, tell_four,
    words,
};
use crate::support::{CHAT, World, chat, error, user};

/// Replies that cannot be used as a summary.
pub(super) fn useless() -> [(&'static str, Reply); 6] {
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
    for (name, reply) in useless() {
        let world = long_world(&[]).await;
        tell_four(&world, "trip").await;
        summaries_are(&world, move |_| reply.clone());
        let answer = world.say("trip", &many_words(5)).await.expect(200);
        assert_eq!(
            (&answer["session"]["session_id"], &answer["session"]["provenance"]["compaction_count"]),
            (&json!("trip"), &json!(0)),
            "{name}"
        );
        assert_eq!(context(&world).len(), 9, "{name}: the whole history is shown");
        assert_eq!(summaries(&world).len(), 2, "{name}: tried twice");
        assert_eq!(world.rows("trip").await.len(), 10, "{name}: no summary, no error text");
        let ledger = world.client().get("/api/sessions/trip/compactions").await.expect(200)["data"].clone();
        assert_eq!(
            (&ledger[0]["outcome"], &ledger[0]["summary"]),
            (&json!("failed"), &json!(null)),
            "{name}: {ledger}"
        );
        world.say("trip", "short").await.expect(200);
        assert_eq!(summaries(&world).len(), 2, "{name}: the summariser is left alone for a while");
    }
}

#[tokio::test]
async fn a_summary_that_works_at_the_second_try_is_used() {
    let world = long_world(&[]).await;
    tell_four(&world, "trip").await;
    world.upstream.push(Reply::empty());
    let answer = world.say("trip", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    assert_eq!((context(&world)[0].clone(), summaries(&world).len()), (shown_summary(), 2));
}

#[tokio::test]
async fn a_summariser_that_takes_too_long_is_not_waited_for() {
    let world = long_world(&[("HERMA_COMPACTION__TIMEOUT", "200ms")]).await;
    tell_four(&world, "trip").await;
    summaries_are(&world, |_| Reply::Hang);
    let answer = world.say("trip", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], false);
    assert_eq!(summaries(&world).len(), 2);
}

#[tokio::test]
async fn a_summary_model_of_its_own_is_asked_and_fed_in_parts_that_fit_it() {
    let settings =
        "[compaction]\nmodel = \"scribe\"\n[models.scribe]\nupstream_model = \"scribe-1\"\ncontext_window = 2600\n";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), settings).expect("a file that can be written");
    let world = long_world(&[("HERMA_CONFIG", file.path().to_str().expect("a path"))]).await;
    tell_four(&world, "trip").await;
    assert_eq!(world.say("trip", &many_words(5)).await.expect(200)["session"]["rotated"], true);
    let asked = summaries(&world);
    assert!(asked.len() > 1 && asked.iter().all(|request| request.model() == "scribe-1"), "{}", asked.len());
    assert!(asked[1].last_user_text().starts_with(&format!("Summary of what came before:\n{SUMMARY}")));
    let parts: String = asked.iter().map(Recorded::last_user_text).collect();
    for number in 1..=4 {
        assert!(parts.contains(&words(number)), "part {number} is read");
    }
}

#[tokio::test]
async fn an_interrupt_does_not_wait_for_a_summary() {
    let world = long_world(&[]).await;
    tell_four(&world, "trip").await;
    summaries_are(&world, |_| Reply::Hang);
    let client = world.in_session("trip");
    let slow = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user(&many_words(5))])).await });
    world.upstream.until_requests(5).await;
    let interrupting = world.in_session("trip").header("x-hermes-turn-policy", "interrupt");
    summaries_are(&world, |_| Reply::text(SUMMARY));
    interrupting.post_json(CHAT, &chat(&[user("stop")])).await.expect(200);
    assert_eq!(error(&slow.await.expect("an end"), 409)["code"], "interrupted");
}

#[tokio::test]
async fn absurd_usage_does_not_stop_a_conversation() {
    for tokens in [i64::MAX as u64, u64::MAX] {
        let world = long_world(&[]).await;
        world.upstream.otherwise(move |_: &Recorded| Completion::text("noted").usage(tokens, 10).into());
        for number in 1..=3 {
            world.say("trip", &words(number)).await.expect(200);
        }
    }
}

#[tokio::test]
async fn what_one_conversation_is_refused_for_does_not_stop_another() {
    let world = long_world(&[]).await;
    world.upstream.otherwise(|request: &Recorded| match is_summary(request) {
        true if request.messages().last().unwrap().to_string().contains("forbidden") => {
            Reply::status(400, "content policy")
        }
        true => Reply::text(SUMMARY),
        false => counted(request, "noted"),
    });
    for number in 1..=4 {
        world.say("bad", &format!("forbidden {}", words(number))).await.expect(200);
    }
    world.say("bad", &many_words(5)).await.expect(200);
    tell_four(&world, "good").await;
    let answer = world.say("good", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], json!(true));
}

#[tokio::test]
async fn a_summary_that_calls_tools_is_none() {
    let world = long_world(&[]).await;
    tell_four(&world, "trip").await;
    world.upstream.otherwise(|request: &Recorded| match is_summary(request) {
        true => Completion::text("Let me look that up.").finish_reason("tool_calls").into(),
        false => counted(request, "noted"),
    });
    let answer = world.say("trip", &many_words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], json!(false));
}

#[tokio::test]
async fn a_short_conversation_whose_summary_would_be_no_shorter_has_nothing_to_compact() {
    let world = World::start().await;
    summaries_are(&world, |_| Reply::text("and so on ".repeat(60)));
    for number in 1..=3 {
        world.say("trip", &format!("question {number}: {}", "and then more ".repeat(14))).await.expect(200);
    }
    let path = "/api/sessions/trip/compactions";
    for body in [json!({}), json!({"dry_run": true})] {
        assert_eq!(error(&world.client().post_json(path, &body).await, 409)["code"], "nothing_to_compact", "{body}");
    }
    summaries_are(&world, |_| Reply::text(format!("{} {}", SUMMARY, "And so on. ".repeat(60))));
    for body in [json!({"dry_run": true}), json!({})] {
        let done = world.client().post_json(path, &body).await.expect(200);
        let summary = done["summary"].as_str().expect("a summary");
        assert!(summary.contains(SUMMARY) && summary.ends_with("on.") && summary.len() < 300, "{summary}");
    }
}
