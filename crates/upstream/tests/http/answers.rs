//! Calls that succeed.

use std::time::Duration;

use futures_util::StreamExt;
use herma_model::{FinishReason, ModelEvent, Usage};
use herma_upstream::{Connections, HttpModelServer, HttpSettings, ModelInfo, ModelServer};

use crate::scripted::{KEY, Reply, Scripted, call, outcome};

pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Time for a task of `hyper` to put the connection back into the pool. There is no event to wait for.
const TO_THE_POOL: Duration = Duration::from_millis(20);

pub(crate) const ANSWER: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;

pub(crate) const STREAM: &[&str] = &[
    "data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel",
    "lo\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n",
    "\n: still here\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n",
    "data: [DONE]\n\n",
];

pub(crate) fn text_of(events: &[ModelEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(run) => Some(run.whole().to_owned()),
        ModelEvent::Delta(delta) => delta.content.clone(),
        ModelEvent::Answered(answer) => answer.content.clone(),
        ModelEvent::Finished(_) => None,
    });
    texts.collect()
}

#[tokio::test]
async fn a_whole_answer_comes_back_as_one_event() {
    let server = Scripted::start([Reply::json("200 OK", ANSWER)]).await;
    let (events, failure) = outcome(&server.client(LONG, 0), false).await;
    assert_eq!(failure, None);
    let [ModelEvent::Answered(answer)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(answer.content.as_deref(), Some("Hello"));
    assert_eq!(answer.finish.usage, Some(Usage { input: 3, output: 1, ..Usage::default() }));
    assert_eq!(answer.finish.model.as_deref(), Some("m-1"));

    let requests = server.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    for header in [format!("authorization: bearer {KEY}"), "content-type: application/json".to_owned()] {
        assert!(head.contains(&header), "{head}");
    }
    assert!(!head.contains("accept-encoding"), "{head}");
    assert_eq!(body, r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.5}"#);
}

#[tokio::test]
async fn each_server_gets_its_own_headers_and_its_own_query() {
    let azure = Scripted::start([Reply::json("200 OK", ANSWER)]).await;
    let other = Scripted::start([Reply::json("200 OK", ANSWER)]).await;
    let headers = [("api-key", "azure-key"), ("Authorization", "Basic abc")];
    let settings = HttpSettings {
        base_url: format!("{}/deployments/x?api-version=2024-10-21", azure.settings().base_url),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..azure.settings()
    };
    let connections = Connections::default();
    let server = |settings| HttpModelServer::new(settings, &connections).unwrap();
    for (scripted, server) in [(&azure, server(settings)), (&other, server(other.settings()))] {
        assert_eq!(outcome(&server, false).await.1, None);
        assert!(!server.describe().contains('?'), "{}", server.describe());
        assert_eq!(scripted.requests().len(), 1);
    }
    let [sent, plain] = [azure, other].map(|server| server.requests()[0].to_lowercase());
    assert!(sent.starts_with("post /v1/deployments/x/chat/completions?api-version=2024-10-21 http/1.1\r\n"), "{sent}");
    assert!(sent.contains("api-key: azure-key\r\n") && sent.contains("authorization: basic abc\r\n"), "{sent}");
    assert!(!sent.contains(KEY) && !plain.contains("azure-key"), "{sent}\n{plain}");
    assert!(plain.contains(&format!("authorization: bearer {KEY}")), "{plain}");
}

#[tokio::test]
async fn a_stream_comes_back_piece_by_piece() {
    for reply in [Reply::events(STREAM), Reply::chunked_events(STREAM), Reply::events(&STREAM[..3])] {
        let server = Scripted::start([reply]).await;
        let (events, failure) = outcome(&server.client(LONG, 0), true).await;
        assert_eq!((failure, text_of(&events).as_str()), (None, "Hello"));
        let Some(ModelEvent::Finished(finish)) = events.last() else { panic!("{events:?}") };
        assert_eq!((finish.reason, finish.model.as_deref()), (FinishReason::Stop, Some("m-1")));
        let body = server.requests()[0].clone();
        assert!(
            body.ends_with(r#""temperature":0.5,"stream":true,"stream_options":{"include_usage":true}}"#),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_connection_is_used_again_after_answers_of_either_form() {
    let server = Scripted::start([
        Reply::chunked_events(STREAM),
        Reply::json("200 OK", ANSWER),
        Reply::chunked_events(STREAM),
        Reply::json("503 Busy", "{}"),
        Reply::json("200 OK", ANSWER),
    ])
    .await;
    let client = server.client(LONG, 0);
    for streaming in [true, false, true, false, false] {
        // The connection must be reused even if the stream is dropped right after its end.
        if let Ok(mut stream) = client.call(call(streaming)).await {
            let is_end = |event: &ModelEvent| matches!(event, ModelEvent::Finished(_) | ModelEvent::Answered(_));
            while !stream.next().await.unwrap().unwrap().iter().any(is_end) {}
        }
        tokio::time::sleep(TO_THE_POOL).await;
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let server = Scripted::start([Reply::json("200 OK", ANSWER)]).await;
    let (events, failure) = outcome(&server.client(LONG, 0), true).await;
    assert_eq!((failure, text_of(&events).as_str(), events.len()), (None, "Hello", 2));
    assert!(matches!(&events[1], ModelEvent::Finished(finish) if finish.usage.is_some()));
}

#[tokio::test]
async fn dropping_a_stream_ends_the_call() {
    let server = Scripted::start([Reply::chunked_events(&STREAM[..1]).then_silence()]).await;
    let client = server.client(LONG, 0);
    drop(client.call(call(true)).await.unwrap());
    tokio::time::timeout(LONG, server.hang_up()).await.unwrap();
}

#[tokio::test]
async fn models_are_listed() {
    let list = r#"{"object":"list","data":[{"id":"a","object":"model","created":5,"owned_by":"me"}]}"#;
    let server = Scripted::start([Reply::json("200 OK", list)]).await;
    let models = server.client(LONG, 0).models().await.unwrap();
    assert_eq!(models, [ModelInfo { id: "a".to_owned(), created: 5, owned_by: "me".to_owned() }]);
    assert!(server.requests()[0].starts_with("GET /v1/models HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_description_has_no_secret() {
    let server = Scripted::start([]).await;
    assert_eq!(server.client(LONG, 0).describe(), format!("the model server at {}", server.base_url));
}
