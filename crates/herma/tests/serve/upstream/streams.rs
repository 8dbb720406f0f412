//! Failures in the middle of a stream: the stream ends with an error, and the streamed output is stored as a partial
//! answer.

use herma_testkit::{Event, EventStream, Reply};
use serde_json::{Value, json};

use super::{SECRET, check, one_good_turn};
use crate::support::{CHAT, TestGateway, chat, error_in, shown_then_failed, streamed, user};

async fn ask(gateway: &TestGateway, text: &str) -> EventStream {
    gateway.in_session("s").post_stream(CHAT, &streamed(chat(&[user(text)]))).await
}

/// Reads a stream that fails: returns its text and its final error.
async fn read_failing(mut stream: EventStream) -> (String, Value) {
    assert_eq!(stream.status, 200);
    let events = stream.rest().await;
    assert!(!stream.is_broken());
    let (done, events) = events.split_last().expect("events");
    let (error, chunks) = events.split_last().expect("an error");
    assert_eq!(done.data, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(Event::json).collect();
    assert!(chunks.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()), "{chunks:?}");
    assert!(chunks.iter().all(|chunk| chunk.get("session").is_none() && chunk.get("error").is_none()), "{chunks:?}");
    let text = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    (text, error_in(&error.json()))
}

/// Checks what is stored of a turn that failed after this text, and the next context.
async fn check_partial_answer(gateway: &TestGateway, shown: &str) {
    assert_eq!(
        gateway.transcript("s").await[2..],
        ["user: broken".to_owned(), format!("assistant (partial): {shown}")]
    );
    assert_eq!(gateway.say("s", "after").await.content(), "reply to: after");
    assert_eq!(gateway.context()[2..], ["user: broken".to_owned(), shown_then_failed(shown), "user: after".to_owned()]);
}

#[tokio::test]
async fn a_stream_that_is_cut_off_keeps_what_was_shown() {
    let mut gateway = one_good_turn().await;
    gateway.upstream.push(Reply::cut_off_after(2));
    let (text, error) = read_failing(ask(&gateway, "broken").await).await;
    assert_eq!(text, "chunk1 chunk2 ");
    check(&error, "upstream_error", "broke its answer off");
    gateway.restart().await;
    check_partial_answer(&gateway, "chunk1 chunk2 ").await;
}

#[tokio::test]
async fn an_error_frame_is_the_streams_error() {
    let gateway = one_good_turn().await;
    gateway.upstream.push(Reply::error_after(1, &format!("Out of memory; key was {SECRET}")));
    let (text, error) = read_failing(ask(&gateway, "broken").await).await;
    assert_eq!(text, "chunk1 ");
    check(&error, "upstream_error", "Out of memory; key was [redacted]");
    check_partial_answer(&gateway, "chunk1 ").await;
}

#[tokio::test]
async fn an_error_frame_before_the_first_word_is_an_answer_with_a_status() {
    let gateway = one_good_turn().await;
    gateway.upstream.push(Reply::error_after(0, "Out of memory"));
    let answer = gateway.in_session("s").post_json(CHAT, &streamed(chat(&[user("broken")]))).await;
    check(&crate::support::error(&answer, 502), "upstream_error", "Out of memory");
    assert_eq!(gateway.transcript("s").await[2..], ["user: broken"]);
}

#[tokio::test]
async fn nonsense_after_the_first_word_is_the_streams_error() {
    let gateway = one_good_turn().await;
    let good = json!({"choices": [{"index": 0, "delta": {"content": "So "}}]});
    gateway.upstream.push(Reply::garbage(format!("data: {good}\n\ndata: ]]]\n\n")));
    let (text, error) = read_failing(ask(&gateway, "broken").await).await;
    assert_eq!(text, "So ");
    check(&error, "upstream_error", "not JSON");
    check_partial_answer(&gateway, "So ").await;
}

#[tokio::test]
async fn a_stream_that_stops_without_a_reason_is_cut_off() {
    let gateway = one_good_turn().await;
    let good = json!({"choices": [{"index": 0, "delta": {"content": "So "}}]});
    gateway.upstream.push(Reply::garbage(format!("data: {good}\n\n")));
    let (_, error) = read_failing(ask(&gateway, "broken").await).await;
    check(&error, "upstream_error", "broke its answer off");
    check_partial_answer(&gateway, "So ").await;
}

#[tokio::test]
async fn half_received_tool_calls_are_dropped() {
    let gateway = one_good_turn().await;
    let text = json!({"choices": [{"index": 0, "delta": {"content": "Let me look. "}}]});
    let call = json!({"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"q\":"}}]}}]});
    gateway.upstream.push(Reply::garbage(format!("data: {text}\n\ndata: {call}\n\n")));
    let (text, _) = read_failing(ask(&gateway, "broken").await).await;
    assert_eq!(text, "Let me look. ");
    check_partial_answer(&gateway, "Let me look. ").await;
}

#[tokio::test]
async fn a_failed_stream_that_is_asked_again_is_answered_as_if_nothing_had_happened() {
    let mut gateway = one_good_turn().await;
    gateway.upstream.push(Reply::cut_off_after(2));
    read_failing(ask(&gateway, "broken").await).await;
    gateway.restart().await;
    assert_eq!(ask(&gateway, "broken").await.text().await, "reply to: broken");
    assert_eq!(gateway.context(), ["user: before", "assistant: reply to: before", "user: broken"]);
    gateway.say("s", "after").await.expect(200);
    assert_eq!(gateway.context()[2..], ["user: broken", "assistant: reply to: broken", "user: after"]);
    assert_eq!(
        gateway.transcript("s").await[2..4],
        ["user: broken", "assistant (partial): chunk1 chunk2 "],
        "the full view keeps what was shown at first"
    );
}
