//! Contexts that are too long when no summary can be used: the turn continues without the oldest messages.

use herma_testkit::{Completion, Recorded, Reply};
use serde_json::{Value, json};

use super::failing::unusable_summaries;
use super::{
    SUMMARY, context, counted, far_too_many_words, is_summary, ledger, many_words, send_four, small_window_gateway,
    summaries, summaries_are, summary_line, text,
};
use crate::support::{CHAT, TestGateway, chat, data, error, lines, streamed, user};

/// The note in place of messages that were left out.
const NOTE: &str = "user: [Earlier messages of this conversation were left out here.]";

/// The model view of a conversation, as lines.
async fn model_view(gateway: &TestGateway, session: &str) -> Vec<String> {
    lines(&data(&gateway.client().get(&format!("/api/sessions/{session}/messages?view=model&limit=200")).await))
}

/// A gateway with a separate model for summaries, which has 250 ms for each.
async fn gateway_with_summary_model() -> TestGateway {
    small_window_gateway(&[("HERMA_COMPACTION__MODEL", "scribe"), ("HERMA_COMPACTION__TIMEOUT", "250ms")]).await
}

#[tokio::test]
async fn a_turn_that_does_not_fit_goes_on_without_the_oldest_part_if_no_summary_can_be_used() {
    for (name, reply) in unusable_summaries() {
        let gateway = small_window_gateway(&[]).await;
        send_four(&gateway, "trip").await;
        let said = gateway.transcript("trip").await;
        summaries_are(&gateway, move |_| reply.clone());
        let huge = far_too_many_words();
        let answer = gateway.say("trip", &huge).await.expect(200);
        assert_eq!(answer["session"]["rotated"], true, "{name}");
        assert_eq!(context(&gateway), [NOTE.to_owned(), format!("user: {huge}")], "{name}");
        assert_eq!(summaries(&gateway).len(), 2, "{name}: tried twice");
        let rows = ledger(&gateway, "trip").await;
        let [row] = &rows[..] else { panic!("{name}: one row, not {rows:?}") };
        assert_eq!(
            (&row["outcome"], &row["mode"], &row["range"], &row["turn_id"].is_null()),
            (&json!("trimmed"), &json!("split"), &json!({"first_seq": 1, "last_seq": 8}), &false),
            "{name}"
        );
        assert!(text(&row["error"]).contains("could not be summarised"), "{name}: {row}");
        assert_eq!(format!("user: {}", text(&row["summary"])), NOTE, "{name}");
        let kept: Vec<_> = gateway.rows("trip").await.into_iter().filter(|row| row["kind"] != "summary").collect();
        assert_eq!(lines(&kept)[..8], said, "{name}: all that was said stays readable");
    }
}

#[tokio::test]
async fn what_was_left_out_comes_back_by_undo_in_both_modes() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[models.large]\ncontext_window = 100000\n").expect("a file that can be written");
    let config = file.path().to_str().expect("a path");
    for (mode, rotated) in [("split", true), ("in_place", false)] {
        let mut gateway = small_window_gateway(&[("HERMA_COMPACTION__MODE", mode), ("HERMA_CONFIG", config)]).await;
        send_four(&gateway, "trip").await;
        summaries_are(&gateway, |_| Reply::status(400, "no"));
        let before = model_view(&gateway, "trip").await;
        let answer = gateway.say("trip", &far_too_many_words()).await.expect(200);
        assert_eq!(answer["session"]["rotated"], rotated, "{mode}");
        let row = ledger(&gateway, "trip").await[0].clone();
        assert_eq!((&row["outcome"], &row["mode"]), (&json!("trimmed"), &json!(mode)));
        gateway.restart().await;
        assert_eq!(model_view(&gateway, "trip").await[0], NOTE, "{mode}");
        let undo = format!("/api/sessions/trip/compactions/{}/undo", text(&row["id"]));
        let refused = gateway.client().post_json(&undo, &json!({})).await;
        assert_eq!(error(&refused, 409)["code"], "cannot_undo", "{mode}: it would not fit");
        gateway.client().post_json(&undo, &json!({"model": "large"})).await.expect(200);
        assert_eq!(model_view(&gateway, "trip").await[..before.len()], before, "{mode}");
        assert_eq!(ledger(&gateway, "trip").await[1]["outcome"], "undone", "{mode}");
    }
}

#[tokio::test]
async fn commands_and_exports_tell_what_was_left_out() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    summaries_are(&gateway, |_| Reply::empty());
    gateway.say("trip", &far_too_many_words()).await.expect(200);
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_herma"));
        let done = command.args(["sessions"]).args(arguments).arg("--data").arg(gateway.herma.data()).output();
        let done = done.expect("a command that runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    };
    assert!(run(&["compactions", "trip"]).contains("trimmed"));
    assert!(run(&["export", "trip", "--format", "jsonl"]).contains("\"outcome\":\"trimmed\""));
    let markdown = run(&["export", "trip", "--format", "markdown"]);
    assert!(markdown.contains("the model was shown this note in place of messages 1 to 8 (split)"), "{markdown}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_cut_off_is_used_up_to_its_last_whole_sentence() {
    let sentence = "They spoke of the trip to Lisbon, booking 4711, and of the hotel. ";
    let whole = sentence.repeat(8);
    for (name, reply) in [
        ("too long", Reply::text(format!("{}And so {}", whole, "on and ".repeat(400)))),
        ("cut off", Completion::text(format!("{whole}And so")).finish_reason("length").into()),
        ("far too long", Reply::text(format!("{}And so {}", whole, "on and ".repeat(4_000)))),
    ] {
        let gateway = small_window_gateway(&[]).await;
        send_four(&gateway, "trip").await;
        summaries_are(&gateway, move |_| reply.clone());
        let answer = gateway.say("trip", &many_words(5)).await.expect(200);
        assert_eq!(answer["session"]["rotated"], true, "{name}");
        assert!(context(&gateway)[0].ends_with(whole.trim_end()), "{name}: {}", context(&gateway)[0]);
        assert_eq!((summaries(&gateway).len(), &ledger(&gateway, "trip").await[0]["outcome"]), (1, &json!("applied")));
    }
}

#[tokio::test]
async fn a_summariser_may_write_so_much_and_is_asked_again_in_simpler_words() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    gateway.upstream.push(Reply::text("and so on ".repeat(400)));
    gateway.say("trip", &many_words(5)).await.expect(200);
    let asked = summaries(&gateway);
    assert_eq!((asked.len(), context(&gateway)[0].clone()), (2, summary_line()));
    for request in &asked {
        let most = request.body["max_tokens"].as_u64().expect("a limit");
        assert!((400..=2_000).contains(&most), "{most}");
    }
    let instruction = |request: &Recorded| request.last_user_text().split_once("</conversation>").expect("one").1.len();
    assert!(instruction(&asked[1]) < instruction(&asked[0]) / 2, "simpler words");
}

#[tokio::test]
async fn a_server_that_refuses_the_limit_and_a_model_that_thinks_beyond_it_are_asked_without_it() {
    for (name, reply) in [
        ("refused", Reply::status(400, "Unsupported parameter: 'max_tokens'")),
        ("thinks", Completion::text("<think>They spoke of").finish_reason("length").into()),
        ("thinks unseen", Completion::text("").finish_reason("length").into()),
    ] {
        let gateway = small_window_gateway(&[]).await;
        send_four(&gateway, "trip").await;
        summaries_are(&gateway, move |request| match request.body.get("max_tokens") {
            Some(_) => reply.clone(),
            None => Reply::text(SUMMARY),
        });
        assert_eq!(gateway.say("trip", &many_words(5)).await.expect(200)["session"]["rotated"], true, "{name}");
        assert_eq!(context(&gateway)[0], summary_line(), "{name}");
    }
}

#[tokio::test]
async fn a_turn_that_needs_a_summary_tries_in_spite_of_a_pause() {
    let gateway = gateway_with_summary_model().await;
    for session in ["trip", "other"] {
        send_four(&gateway, session).await;
    }
    summaries_are(&gateway, |_| Reply::status(503, "away"));
    assert_eq!(gateway.say("trip", &many_words(5)).await.expect(200)["session"]["rotated"], false, "it fits");
    let tried = summaries(&gateway).len();
    assert_eq!(gateway.say("trip", "short").await.expect(200)["session"]["rotated"], false);
    assert_eq!(summaries(&gateway).len(), tried, "a turn that fits does not try");
    summaries_are(&gateway, |_| Reply::text(SUMMARY));
    for session in ["trip", "other"] {
        let huge = far_too_many_words();
        assert_eq!(gateway.say(session, &huge).await.expect(200)["session"]["rotated"], true, "{session}");
        assert_eq!(context(&gateway), [summary_line(), format!("user: {huge}")], "{session}");
    }
}

#[tokio::test]
async fn a_summary_model_of_its_own_that_is_away_or_slow_does_not_stop_a_turn() {
    for (name, reply) in [("away", Reply::status(503, "away")), ("slow", Reply::Hang)] {
        let gateway = gateway_with_summary_model().await;
        send_four(&gateway, "trip").await;
        summaries_are(&gateway, move |_| reply.clone());
        gateway.say("trip", &far_too_many_words()).await.expect(200);
        assert_eq!(context(&gateway)[0], NOTE, "{name}");
        let row = ledger(&gateway, "trip").await[0].clone();
        assert_eq!((&row["outcome"], &row["model"]), (&json!("trimmed"), &json!("scribe")), "{name}");
    }
}

#[tokio::test]
async fn a_turn_whose_own_model_takes_too_long_to_summarise_goes_on() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__TIMEOUT", "250ms")]).await;
    send_four(&gateway, "trip").await;
    summaries_are(&gateway, |_| Reply::Hang);
    gateway.say("trip", &far_too_many_words()).await.expect(200);
    assert_eq!(context(&gateway)[0], NOTE);
}

#[tokio::test]
async fn a_turn_whose_own_model_is_away_fails_like_any_turn_and_nothing_is_left_out() {
    for streaming in [false, true] {
        let gateway = small_window_gateway(&[]).await;
        send_four(&gateway, "trip").await;
        gateway.upstream.otherwise(|_: &Recorded| Reply::status(503, "away"));
        let body = chat(&[user(&far_too_many_words())]);
        let body = if streaming { streamed(body) } else { body };
        assert_eq!(gateway.in_session("trip").post_json(CHAT, &body).await.status, 502, "{streaming}");
        let outcomes: Vec<Value> = ledger(&gateway, "trip").await.iter().map(|row| row["outcome"].clone()).collect();
        assert_eq!(outcomes, [json!("failed")]);
        summaries_are(&gateway, |_| Reply::text(SUMMARY));
        gateway.in_session("trip").post_json(CHAT, &body).await;
        assert_eq!(context(&gateway)[0], summary_line(), "{streaming}: the same words are another attempt");
        assert_eq!(context(&gateway).len(), 2);
    }
}

#[tokio::test]
async fn only_new_input_that_cannot_fit_by_itself_is_refused() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let before = gateway.client().get("/api/sessions/trip").await.expect(200);
    let refused = error(&gateway.say("trip", &far_too_many_words().repeat(2)).await, 400);
    assert_eq!((&refused["code"], &refused["param"]), (&json!("context_length_exceeded"), &json!("messages")));
    assert_eq!(gateway.client().get("/api/sessions/trip").await.expect(200), before);
    // The message takes almost the whole context window. Neither a summary nor the pinned message fits beside it.
    let first = data(&gateway.client().get("/api/sessions/trip/messages").await)[0].clone();
    let pin = format!("/api/sessions/trip/messages/{}/pin", text(&first["id"]));
    gateway.client().send_json("PUT", &pin, &json!({})).await.expect(200);
    let huge = "and far more ".repeat(1_205);
    gateway.say("trip", &huge).await.expect(200);
    assert_eq!(context(&gateway), [NOTE.to_owned(), format!("user: {huge}")]);
    assert!(summaries(&gateway).is_empty());
}

#[tokio::test]
async fn an_earlier_summary_is_left_out_too_if_only_that_makes_room() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    summaries_are(&gateway, |_| Reply::text("They spoke of the trip to Lisbon. ".repeat(40)));
    gateway.say("trip", &many_words(5)).await.expect(200);
    assert!(context(&gateway)[0].contains("Lisbon"));
    summaries_are(&gateway, |_| Reply::empty());
    let huge = "and far more ".repeat(1_150);
    for _ in 0..2 {
        gateway.say("trip", &huge).await.expect(200);
        assert_eq!(context(&gateway), [NOTE.to_owned(), format!("user: {huge}")]);
    }
}

#[tokio::test]
async fn a_context_that_the_model_server_finds_too_long_is_trimmed_once_and_tried_once_more() {
    for fits_then in [true, false] {
        let gateway = small_window_gateway(&[("HERMA_CONTEXT_WINDOW", "100000")]).await;
        send_four(&gateway, "trip").await;
        gateway.upstream.otherwise(move |request: &Recorded| match (is_summary(request), request.messages().len()) {
            (true, _) => Reply::empty(),
            (false, 0..=4) if fits_then => counted(request, "noted"),
            (false, _) => Reply::context_too_long(),
        });
        let calls =
            |gateway: &TestGateway| gateway.upstream.requests().iter().filter(|request| !is_summary(request)).count();
        let before = calls(&gateway);
        let answer = gateway.say("trip", "and?").await;
        assert_eq!(answer.status, if fits_then { 200 } else { 400 }, "{}", answer.text());
        assert_eq!(calls(&gateway), before + 2, "one more try");
        assert_eq!(context(&gateway)[0], NOTE);
        let rows = ledger(&gateway, "trip").await;
        assert_eq!(rows.len(), 1);
        assert_eq!((&rows[0]["outcome"], &rows[0]["trigger"]), (&json!("trimmed"), &json!("context_length")));
    }
}

#[tokio::test]
async fn a_summariser_that_finds_the_request_too_long_gets_smaller_parts() {
    let gateway = small_window_gateway(&[("HERMA_CONTEXT_WINDOW", "100000")]).await;
    send_four(&gateway, "trip").await;
    gateway.upstream.otherwise(|request: &Recorded| match (is_summary(request), request.raw.len()) {
        (true, 0..=7_500) => Reply::text(SUMMARY),
        (false, 0..=4_000) => counted(request, "noted"),
        _ => Reply::context_too_long(),
    });
    gateway.say("trip", "and?").await.expect(200);
    assert_eq!(context(&gateway)[0], summary_line());
    assert!(summaries(&gateway).len() > 2);
}

#[tokio::test]
async fn a_small_model_that_cannot_summarise_never_ends_a_conversation() {
    let gateway = small_window_gateway(&[("HERMA_CONTEXT_WINDOW", "1024")]).await;
    let replies = unusable_summaries().map(|(_, reply)| reply);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    gateway.upstream.otherwise(move |request: &Recorded| {
        // This server counts more tokens than Herma estimates, and refuses requests beyond its context window.
        let tokens = request.raw.len() as u64 * 3 / 10;
        let most = request.body["max_tokens"].as_u64().unwrap_or(0);
        match is_summary(request) {
            _ if tokens + most > 1_024 => Reply::context_too_long(),
            true => replies[asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % replies.len()].clone(),
            false => Completion::text("noted ".repeat(20)).usage(tokens, 30).into(),
        }
    });
    for number in 0..30 {
        let said = format!("message {number}: {}", "and then more ".repeat(10 + number * 7 % 40));
        let answer = gateway.say("trip", &said).await;
        assert_eq!(answer.status, 200, "{number}: {}", answer.text());
    }
    let rows = ledger(&gateway, "trip").await;
    assert!(rows.iter().filter(|row| row["outcome"] == "trimmed").count() > 3, "{rows:?}");
    assert!(!rows.iter().any(|row| row["outcome"] == "applied"));
    let all = data(&gateway.client().get("/api/sessions/trip/messages?limit=200").await);
    let said = all.iter().filter(|row| row["kind"] != "summary").count();
    assert_eq!(said, 60, "all messages stay stored");
}
