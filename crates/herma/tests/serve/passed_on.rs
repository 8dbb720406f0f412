//! Requests that are forwarded to the model server, with only the model name replaced: text completions and
//! embeddings. Also the list of its models.

use herma_testkit::{Answer, Completion, Launch, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{TestGateway, error};

const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";

async fn passed(gateway: &TestGateway, path: &str, body: &Value) -> Answer {
    gateway.client().header("x-request-id", "mine").post_json(path, body).await
}

#[tokio::test]
async fn a_request_and_its_answer_go_through_as_they_are() {
    let gateway = TestGateway::start().await;
    for (path, body) in [
        (EMBEDDINGS, json!({"model": "default", "input": ["one", "two"], "dimensions": 2})),
        (COMPLETIONS, json!({"model": "default", "prompt": "Once upon", "logprobs": 1})),
    ] {
        let answer =
            json!({"object": "any", "data": [0.5, -1], "odd": {"b": 1, "a": 2}, "usage": {"prompt_tokens": 4}});
        gateway.upstream.push(Reply::garbage(answer.to_string()));
        let told = passed(&gateway, path, &body).await;
        assert_eq!((told.expect(200), told.header("x-request-id")), (answer, Some("mine")));
        let sent = gateway.upstream.last_request();
        assert_eq!(sent.path, path);
        let mut expected = body.clone();
        expected["model"] = json!("scripted");
        assert_eq!(sent.body, expected, "the model by the model server's name, the rest as it was");
    }
    assert_eq!(gateway.sessions().await, [] as [Value; 0], "nothing is stored");
    let metrics = gateway.client().get("/metrics").await.text();
    assert!(metrics.contains(r#"herma_passed_on_total{outcome="completed"} 2"#), "{metrics}");
}

#[tokio::test]
async fn a_completion_is_streamed_as_it_comes() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Completion::chunks(["a ", "b"]).into());
    let body = json!({"model": "scripted", "prompt": "x", "stream": true});
    let mut stream = gateway.client().post_stream(COMPLETIONS, &body).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.text().await, "a b");
    gateway.upstream.push(Reply::cut_off_after(1));
    let events = gateway.client().post_stream(COMPLETIONS, &body).await.rest().await;
    let [.., failed, done] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&failed.json()["error"]["code"], &*done.data), (&json!("upstream_error"), "[DONE]"));
}

#[tokio::test]
async fn a_refusal_has_the_model_servers_status_and_words_without_secrets() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    for (status, kind) in [(404, "not_found_error"), (400, "invalid_request_error"), (503, "server_error")] {
        gateway.upstream.push(Reply::status(status, "no such thing, key sk-abcdef0123456789"));
        let refused = error(&passed(&gateway, EMBEDDINGS, &json!({"model": "x", "input": "a"})).await, status);
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("no such thing") && !message.contains("abcdef"), "{message}");
        assert_eq!((&refused["code"], &refused["type"]), (&json!("upstream_error"), &json!(kind)));
    }
    gateway.upstream.push(Reply::rate_limited("7"));
    let limited = passed(&gateway, EMBEDDINGS, &json!({"model": "x", "input": "a"})).await;
    error(&limited, 429);
    assert_eq!(limited.header("retry-after"), Some("7"));
    gateway.upstream.push(Reply::garbage("<html>"));
    error(&passed(&gateway, COMPLETIONS, &json!({"model": "x", "prompt": "a"})).await, 502);
    assert_eq!(error(&passed(&gateway, COMPLETIONS, &json!({"model": 1})).await, 400)["param"], "model");
    assert_eq!(error(&gateway.client().post_bytes(COMPLETIONS, "{").await, 400)["code"], "invalid_request");
}

#[tokio::test]
async fn the_offline_model_says_what_to_do() {
    let data = TempDir::new().expect("a directory");
    let herma = Launch::serve(env!("CARGO_BIN_EXE_herma")).data(data.path()).start().await;
    for path in [COMPLETIONS, EMBEDDINGS] {
        let refused = error(&herma.client().post_json(path, &json!({"input": "a", "prompt": "a"})).await, 400);
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("offline model") && message.contains("HERMA_UPSTREAM"), "{message}");
    }
}

#[tokio::test]
async fn models_are_listed_while_the_model_server_is_away() {
    let data = TempDir::new().expect("a directory");
    std::fs::write(data.path().join("herma.toml"), "[models.mine]\nupstream_model = \"scripted\"\n").expect("a file");
    let upstream = herma_testkit::ScriptedUpstream::start().await;
    let base_url = upstream.base_url();
    let launch = || Launch::serve(env!("CARGO_BIN_EXE_herma")).data(data.path()).args(["--upstream", &base_url]);
    let names = async |herma: &herma_testkit::Herma| -> Vec<String> {
        let list = herma.client().get("/v1/models").await.expect(200);
        list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
    };
    let herma = launch().start().await;
    assert_eq!(names(&herma).await, ["mine", "scripted"], "configured names first, then what the server has");
    upstream.stop().await;
    assert_eq!(names(&herma).await, ["mine", "scripted"], "the list is remembered for a while");
    drop(herma);
    let herma = launch().start().await;
    let began = std::time::Instant::now();
    assert_eq!(names(&herma).await, ["mine"], "a dead model server leaves the configured names");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}
