//! Summaries by a model of another server.

use herma_testkit::{Gate, Recorded, Reply, ScriptedUpstream};
use serde_json::json;
use tempfile::NamedTempFile;

use super::{SUMMARY, context, ledger, many_words, send_four, small_window_gateway, summaries, summary_line, words};
use crate::support::{CHAT, TestGateway, chat, user, with};

/// A gateway whose summaries come from another server, which answers with [`SUMMARY`].
async fn with_scribe(settings: &str) -> (TestGateway, ScriptedUpstream, NamedTempFile) {
    let scribe = ScriptedUpstream::start().await;
    scribe.otherwise(|_| Reply::text(SUMMARY));
    let file = NamedTempFile::new().expect("a file");
    // The scribe has the same name at its server as the conversation's model has at its own.
    let model = "[models.scribe]\nupstream_model = \"scripted\"\ncontext_window = 4000\napi_key = \"scribe-key-0004\"";
    let url = scribe.base_url();
    let text = format!("[compaction]\nmodel = \"scribe\"\n{settings}\n{model}\nbase_url = \"{url}\"\n");
    std::fs::write(file.path(), text).expect("a file that can be written");
    let gateway = small_window_gateway(&[("HERMA_CONFIG", file.path().to_str().expect("a path"))]).await;
    (gateway, scribe, file)
}

#[tokio::test]
async fn a_summary_is_made_by_the_server_of_its_model() {
    let (gateway, scribe, _file) = with_scribe("").await;
    send_four(&gateway, "trip").await;
    assert_eq!(gateway.say("trip", &many_words(5)).await.expect(200)["session"]["rotated"], true);
    assert_eq!(context(&gateway)[0], summary_line());
    assert!(summaries(&gateway).is_empty(), "the conversation's own server is not asked for summaries");
    let asked = scribe.requests();
    assert!(!asked.is_empty() && asked.iter().all(|request| request.model() == "scripted"), "{asked:?}");
    let key = |request: &Recorded| request.header("authorization").map(str::to_owned);
    assert!(asked.iter().all(|request| key(request).as_deref() == Some("Bearer scribe-key-0004")));
    assert!(gateway.upstream.requests().iter().all(|request| key(request).is_none()));
}

#[tokio::test]
async fn a_turn_goes_on_without_a_summary_if_the_other_server_is_away() {
    let (gateway, scribe, _file) = with_scribe("timeout = \"2s\"\n[upstream]\nretries = 0").await;
    scribe.stop().await;
    send_four(&gateway, "trip").await;
    let answer = gateway.say("trip", &super::far_too_many_words()).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    assert_eq!(ledger(&gateway, "trip").await[0]["outcome"], "trimmed", "its own model could be reached");
}

#[tokio::test]
async fn a_turn_at_one_server_leaves_preparations_at_another_alone() {
    let (gateway, scribe, _file) = with_scribe("").await;
    let (summary, turn) = (Gate::new(), Gate::new());
    let held = summary.clone();
    scribe.otherwise(move |_| Reply::text(SUMMARY).held(&held));
    send_four(&gateway, "trip").await;
    gateway.say("trip", &words(5)).await.expect(200);
    summary.until_waiting(1).await;

    gateway.upstream.push(Reply::text("later").held(&turn));
    let client = gateway.in_session("other");
    let other = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("short")])).await });
    turn.until_waiting(1).await;
    summary.open();
    scribe.until_open(0).await;
    turn.open();
    other.await.expect("an end").expect(200);

    scribe.otherwise(|_| Reply::Hang);
    let body = with(chat(&[user(&many_words(6))]), "model", json!("scripted"));
    let answer = gateway.in_session("trip").post_json(CHAT, &body).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    assert_eq!(scribe.requests().len(), 1, "the prepared summary is used");
}

#[tokio::test]
async fn a_turn_of_the_conversation_itself_ends_its_preparation_at_another_server() {
    let (gateway, scribe, _file) = with_scribe("").await;
    scribe.otherwise(|_| Reply::Hang);
    send_four(&gateway, "trip").await;
    gateway.say("trip", &words(5)).await.expect(200);
    scribe.until_open(1).await;
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("noted").held(&gate));
    let client = gateway.in_session("trip");
    let turn = tokio::spawn(async move { client.post_json(CHAT, &chat(&[user("short")])).await });
    gate.until_waiting(1).await;
    scribe.until_open(0).await;
    gate.open();
    turn.await.expect("an end").expect(200);
}
