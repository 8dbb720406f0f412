//! The replies of a script as a client sees them.

use herma_testkit::upstream::Pace;
use herma_testkit::{Client, Completion, Gate, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

async fn started() -> (ScriptedUpstream, Client) {
    let upstream = ScriptedUpstream::start().await;
    let client = Client::new(format!("http://{}", upstream.address()));
    (upstream, client)
}

fn ask(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

fn ask_streamed(text: &str) -> Value {
    let mut body = ask(text);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    body
}

#[tokio::test]
async fn an_empty_script_echoes_and_records() {
    let (upstream, client) = started().await;
    let answer = client.clone().key("k").post_json(CHAT, &ask("hello there")).await;
    assert_eq!(answer.content(), "reply to: hello there");
    assert_eq!(answer.json()["usage"], json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}));
    let request = upstream.last_request();
    assert_eq!(request.header("authorization"), Some("Bearer k"));
    assert_eq!(request.transcript(), ["user: hello there"]);
    assert_eq!(request.raw, ask("hello there").to_string());
}

#[tokio::test]
async fn a_stream_has_role_words_finish_usage_and_done() {
    let (_upstream, client) = started().await;
    let mut stream = client.post_stream(CHAT, &ask_streamed("hi")).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    let events = stream.rest().await;
    assert_eq!(events.last().map(|event| event.data.as_str()), Some("[DONE]"));
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|event| event.json()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let words: Vec<&str> =
        chunks[1..4].iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(words, ["reply ", "to: ", "hi"]);
    assert_eq!(chunks[4]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[5]["choices"], json!([]));
    assert_eq!(chunks[5]["usage"]["completion_tokens"], 3);
    assert_eq!(chunks.len(), 6);
}

#[tokio::test]
async fn replies_come_in_order_and_the_fallback_after_them() {
    let (upstream, client) = started().await;
    upstream.push(Reply::text("one"));
    upstream.push(Reply::rate_limited("2"));
    upstream.otherwise(|request| Reply::text(request.last_user_text().to_uppercase()));
    assert_eq!(client.post_json(CHAT, &ask("a")).await.content(), "one");
    let limited = client.post_json(CHAT, &ask("b")).await;
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("2")));
    assert_eq!(client.post_json(CHAT, &ask("c")).await.content(), "C");
    assert_eq!(upstream.replies_left(), 0);
}

#[tokio::test]
async fn tool_calls_come_whole_and_in_pieces() {
    let (upstream, client) = started().await;
    for _ in 0..2 {
        upstream.push(Reply::tool_calls([ToolCall::new("call_1", "weather", r#"{"city":"Bern"}"#)]));
    }
    let whole = client.post_json(CHAT, &ask("?")).await.expect(200);
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], r#"{"city":"Bern"}"#);
    let chunks = client.post_stream(CHAT, &ask_streamed("?")).await.chunks().await;
    let calls = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0]);
    let calls: Vec<&Value> = calls.filter(|call| !call.is_null()).collect();
    assert_eq!(calls[0]["id"], "call_1");
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"city":"Bern"}"#);
}

#[tokio::test]
async fn a_cut_stream_shows_its_chunks_and_breaks() {
    let (upstream, client) = started().await;
    upstream.push(Reply::cut_off_after(2));
    let mut stream = client.post_stream(CHAT, &ask_streamed("?")).await;
    assert_eq!(stream.text().await, "chunk1 chunk2 ");
    assert!(stream.is_broken());
    upstream.until_open(0).await;
}

#[tokio::test]
async fn a_hanging_stream_ends_when_its_client_goes() {
    let (upstream, client) = started().await;
    upstream.push(Reply::hang_after(1));
    let mut stream = client.post_stream(CHAT, &ask_streamed("?")).await;
    stream.next().await;
    assert_eq!(stream.next().await.unwrap().json()["choices"][0]["delta"]["content"], "chunk1 ");
    upstream.until_open(1).await;
    drop(stream);
    upstream.until_open(0).await;
}

#[tokio::test]
async fn a_gate_holds_the_first_byte_and_each_chunk() {
    let (upstream, client) = started().await;
    let (before, between) = (Gate::new(), Gate::new());
    let paced = Completion::chunks(["a", "b"]).pace(Pace::Gated(between.clone()));
    upstream.push(Reply::from(paced).held(&before));
    let asked = tokio::spawn(async move { client.post_stream(CHAT, &ask_streamed("?")).await });
    before.until_waiting(1).await;
    before.open();
    let mut stream = asked.await.unwrap();
    stream.next().await;
    between.until_waiting(1).await;
    between.release(1);
    assert_eq!(stream.next().await.unwrap().json()["choices"][0]["delta"]["content"], "a");
    between.open();
    assert_eq!(stream.text().await, "b");
}

#[tokio::test]
async fn failures_reach_the_client_as_scripted() {
    let (upstream, client) = started().await;
    upstream.push(Reply::context_too_long());
    upstream.push(Reply::garbage("<html>"));
    upstream.push(Reply::empty());
    upstream.push(Reply::CloseBeforeHeaders);
    let error = client.post_json(CHAT, &ask("?")).await.expect(400);
    assert_eq!(error["error"]["code"], "context_length_exceeded");
    assert_eq!(client.post_json(CHAT, &ask("?")).await.text(), "<html>");
    assert_eq!(client.post_json(CHAT, &ask("?")).await.expect(200)["choices"][0]["message"]["content"], Value::Null);
    let closed = client.request("POST".parse().unwrap(), CHAT).body(ask("?").to_string()).send().await;
    assert!(closed.is_err());
    let address = upstream.address();
    upstream.stop().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
