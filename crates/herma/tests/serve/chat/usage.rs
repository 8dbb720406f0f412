//! Token usage as the model server reports it: on the answer, in the stream on request, and summed on the row.

use herma_testkit::{Completion, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, chat, streamed, user, with};

fn counted(input: u64, output: u64) -> Value {
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    })
}

#[tokio::test]
async fn a_stream_has_a_usage_chunk_only_when_it_was_asked_for() {
    let gateway = TestGateway::start().await;
    for (options, asked) in [
        (None, false),
        (Some(json!({})), false),
        (Some(json!({"include_usage": false})), false),
        (Some(json!({"include_usage": null})), false),
        (Some(json!({"include_usage": true})), true),
    ] {
        gateway.upstream.push(Completion::text("four words it is").usage(120, 30).into());
        let mut body = streamed(chat(&[user("count")]));
        if let Some(options) = &options {
            body = with(body, "stream_options", options.clone());
        }
        let chunks = gateway.client().post_stream(CHAT, &body).await.chunks().await;
        let usage: Vec<&Value> =
            chunks.iter().filter(|chunk| chunk.get("usage").is_some_and(|it| !it.is_null())).collect();
        if asked {
            assert_eq!(usage.len(), 1, "{chunks:?}");
            let last = chunks.last().expect("chunks");
            assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &counted(120, 30)));
            assert_eq!(last.get("session"), None);
        } else {
            assert!(usage.is_empty(), "{options:?}: {usage:?}");
            assert!(chunks.iter().all(|chunk| chunk["choices"][0]["index"] == 0), "{chunks:?}");
        }
    }
}

#[tokio::test]
async fn the_row_sums_what_every_turn_used() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Completion::text("one").usage(10, 1).into());
    assert_eq!(gateway.say("s", "a").await.expect(200)["usage"], counted(10, 1));
    gateway.upstream.push(Completion::text("two").usage(20, 2).into());
    gateway.in_session("s").post_stream(CHAT, &streamed(chat(&[user("b")]))).await.rest().await;
    let row = gateway.client().get("/api/sessions/s").await.expect(200);
    assert_eq!(
        row["usage"],
        json!({"input_tokens": 30, "output_tokens": 3, "total_tokens": 33, "cached_tokens": 0, "reasoning_tokens": 0})
    );
    assert_eq!((row["message_count"].as_u64(), row["turn_count"].as_u64()), (Some(4), Some(2)));
}

#[tokio::test]
async fn cached_and_reasoning_tokens_are_reported_and_missing_usage_stays_missing() {
    let gateway = TestGateway::start().await;
    let usage = json!({
        "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 7}, "completion_tokens_details": {"reasoning_tokens": 3},
    });
    gateway.upstream.push(Reply::Completion(Completion { usage: Some(usage.clone()), ..Completion::text("ok") }));
    assert_eq!(gateway.say("s", "a").await.expect(200)["usage"], usage);
    gateway.upstream.push(Reply::Completion(Completion { usage: Some(Value::Null), ..Completion::text("ok") }));
    assert_eq!(gateway.say("s", "b").await.expect(200).get("usage"), None);
}
