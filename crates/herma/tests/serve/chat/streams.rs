//! Streamed answers: the chunks, their order, and the fields of the last one.

use herma_testkit::Reply;
use serde_json::{Value, json};

use crate::support::{CHAT, CONVERSATION_ID, SESSION_ID, SESSION_KEY, TestGateway, chat, streamed, user, with};

/// The chunks of a stream without the fields that differ between runs. Checks that these are equal in all chunks.
fn plain(chunks: &[Value]) -> Vec<Value> {
    let same = |name: &str| chunks.iter().all(|chunk| !chunk[name].is_null() && chunk[name] == chunks[0][name]);
    assert!(same("id") && same("created") && same("object") && same("model"), "{chunks:?}");
    assert_eq!(chunks[0]["object"], "chat.completion.chunk");
    let mut plain = chunks.to_vec();
    for chunk in &mut plain {
        let fields = chunk.as_object_mut().expect("an object");
        fields.retain(|name, _| !matches!(name.as_str(), "id" | "created" | "object" | "model"));
    }
    plain
}

#[tokio::test]
async fn a_stream_opens_with_the_role_and_ends_with_reason_session_and_done() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::chunks(["Hel", "lo", " ✓"]));
    let client = gateway.in_session("s").header(SESSION_KEY, "k");
    let mut stream = client.post_stream(CHAT, &streamed(chat(&[user("hi")]))).await;
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!((stream.header(SESSION_ID), stream.header(SESSION_KEY)), (Some("s"), Some("k")));
    assert!(stream.header("x-request-id").is_some());
    let conversation = stream.header(CONVERSATION_ID).expect("a handle").to_owned();

    let events = stream.rest().await;
    assert!(!stream.is_broken());
    assert!(events.iter().all(|event| event.name.is_none() && event.id.is_none()), "{events:?}");
    let (done, chunks) = events.split_last().expect("events");
    assert_eq!(done.data, "[DONE]");
    let mut chunks = plain(&chunks.iter().map(|event| event.json()).collect::<Vec<_>>());
    let session = chunks.last_mut().and_then(|last| last.as_object_mut()?.remove("session")).expect("a session");
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    assert_eq!(
        chunks,
        [
            delta(json!({"role": "assistant", "content": ""})),
            delta(json!({"content": "Hel"})),
            delta(json!({"content": "lo"})),
            delta(json!({"content": " ✓"})),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        ]
    );
    assert_eq!(session["conversation_id"], *conversation);
    assert_eq!((session["resolution"].as_str(), session["requested_id"].as_str()), (Some("created"), Some("s")));
    let row = gateway.client().get("/api/sessions/s").await.expect(200);
    assert_eq!(session["provenance"], row["provenance"]);
    assert_eq!(gateway.transcript("s").await, ["user: hi", "assistant: Hello ✓"]);
}

#[tokio::test]
async fn words_arrive_as_they_are_said() {
    let gateway = TestGateway::start().await;
    let gate = herma_testkit::Gate::new();
    let pace = herma_testkit::upstream::Pace::Gated(gate.clone());
    gateway.upstream.push(herma_testkit::Completion::chunks(["one ", "two"]).pace(pace).into());
    gate.release(1);
    let mut stream = gateway.in_session("s").post_stream(CHAT, &streamed(chat(&[user("count")]))).await;
    let mut next = async || stream.next().await.expect("an event").json()["choices"][0]["delta"].clone();
    assert_eq!(next().await, json!({"role": "assistant", "content": ""}));
    assert_eq!(next().await, json!({"content": "one "}));
    gate.until_waiting(1).await;
    gate.release(1);
    assert_eq!(next().await, json!({"content": "two"}));
    assert!(stream.rest().await.last().is_some_and(|event| event.data == "[DONE]"));
}

#[tokio::test]
async fn streaming_is_decided_by_the_body_and_never_by_accept() {
    let gateway = TestGateway::start().await;
    let body = chat(&[user("hi")]);
    let plain = gateway.client().header("accept", "text/event-stream").post_json(CHAT, &body).await;
    assert_eq!((plain.header("content-type"), plain.content()), (Some("application/json"), "reply to: hi".to_owned()));
    let plain = gateway.client().post_json(CHAT, &with(body.clone(), "stream", json!(false))).await;
    assert_eq!(plain.header("content-type"), Some("application/json"));
    let mut stream = gateway.client().header("accept", "application/json").post_stream(CHAT, &streamed(body)).await;
    assert_eq!(stream.text().await, "reply to: hi");
}

#[tokio::test]
async fn a_stream_and_a_json_answer_leave_the_same_transcript() {
    let gateway = TestGateway::start().await;
    for session in ["plain", "streamed"] {
        gateway.upstream.push(Reply::text("The answer is 42."));
        let body = chat(&[user("what is it?")]);
        if session == "plain" {
            assert_eq!(gateway.in_session(session).post_json(CHAT, &body).await.content(), "The answer is 42.");
        } else {
            let mut stream = gateway.in_session(session).post_stream(CHAT, &streamed(body)).await;
            assert_eq!(stream.text().await, "The answer is 42.");
        }
    }
    let plain = gateway.transcript("plain").await;
    assert_eq!(plain, ["user: what is it?", "assistant: The answer is 42."]);
    assert_eq!(gateway.transcript("streamed").await, plain);
}
