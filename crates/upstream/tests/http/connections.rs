//! What happens to connections: closed by the server, silent, broken, redirected, never made.

use std::time::Duration;

use futures_util::StreamExt;
use herma_model::ModelEvent;
use herma_model::generation::ModelFailureKind as Kind;
use herma_upstream::{Connections, HttpModelServer, ModelServer, PassedAnswer, PassedTo};

use crate::answers::{ANSWER, LONG, STREAM, text_of};
use crate::scripted::{Reply, Scripted, call, outcome};

const SHORT: Duration = Duration::from_millis(60);

fn closing_json() -> Reply {
    // The server does not announce that it will close.
    Reply::raw(&format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    ))
}

#[tokio::test]
async fn a_connection_that_the_server_closed_between_two_calls_is_not_used() {
    let server = Scripted::start([closing_json(), closing_json(), Reply::json("200 OK", ANSWER)]).await;
    let client = server.client(LONG, 0);
    for made in 1..=3 {
        let (events, failure) = outcome(&client, false).await;
        assert_eq!((failure, text_of(&events).as_str()), (None, "Hello"));
        assert_eq!(server.connections(), made);
        server.closed(made.min(2)).await;
    }
}

#[tokio::test]
async fn a_connection_is_used_by_one_call_at_a_time() {
    let script = [Reply::chunked_events(STREAM), Reply::json("200 OK", ANSWER), Reply::json("200 OK", ANSWER)];
    let server = Scripted::start(script).await;
    let client = server.client(LONG, 0);
    let mut stream = client.call(call(true)).await.unwrap();
    let mut events = stream.next().await.unwrap().unwrap();
    assert!(matches!(events[..], [ModelEvent::Text(_), ..]), "{events:?}");
    assert_eq!(outcome(&client, false).await.1, None);
    assert_eq!(server.connections(), 2, "the first connection has not ended its answer");
    while !matches!(events.last(), Some(ModelEvent::Finished(_))) {
        events = stream.next().await.unwrap().unwrap();
    }
    assert_eq!(outcome(&client, false).await.1, None);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn servers_at_one_address_share_their_connections() {
    let server = Scripted::start([1, 2].map(|_| Reply::json("200 OK", ANSWER))).await;
    let connections = Connections::default();
    for _ in 0..2 {
        let client = HttpModelServer::new(server.settings(), &connections).unwrap();
        assert_eq!(outcome(&client, false).await.1, None);
    }
    assert_eq!((server.requests().len(), server.connections()), (2, 1));
}

#[tokio::test]
async fn a_connection_serves_the_runtime_that_made_it() {
    let server = Scripted::start([1, 2, 3].map(|_| Reply::json("200 OK", ANSWER))).await;
    let connections = Connections::default();
    let client = HttpModelServer::new(server.settings(), &connections).unwrap();
    assert_eq!(outcome(&client, false).await.1, None);
    let elsewhere = HttpModelServer::new(server.settings(), &connections).unwrap();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { outcome(&elsewhere, false).await.1 })
    });
    assert_eq!(tokio::task::spawn_blocking(|| other.join().unwrap()).await.unwrap(), None);
    assert_eq!(server.connections(), 2, "the other runtime makes its own connection");
    assert_eq!(outcome(&client, false).await.1, None);
    assert_eq!(server.connections(), 2, "this runtime uses the first one again");
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_gets_a_connection_for_each_call() {
    let closing = "Content-Type: application/json\r\nConnection: close\r\n";
    let server = Scripted::start([1, 2].map(|_| Reply::document("200 OK", closing, ANSWER))).await;
    let client = server.client(LONG, 0);
    for made in 1..=2 {
        assert_eq!(outcome(&client, false).await.1, None);
        assert_eq!(server.connections(), made);
    }
}

#[tokio::test]
async fn half_a_head_is_no_answer() {
    let half = "HTTP/1.1 200 OK\r\nContent-Le";
    let server = Scripted::start([Reply::raw(half)]).await;
    let failure = outcome(&server.client(LONG, 0), false).await.1.unwrap();
    assert_eq!(failure.kind, Kind::Unreachable, "{failure}");
    assert!(failure.message.ends_with("connection closed before message completed"), "{failure}");

    let server = Scripted::start([Reply::raw(half).then_silence()]).await;
    let failure = outcome(&server.client(SHORT, 3), true).await.1.unwrap();
    assert_eq!(failure.kind, Kind::Timeout, "{failure}");
    assert!(failure.message.ends_with("did not answer within 60ms"), "{failure}");
    tokio::time::timeout(LONG, server.hang_up()).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_a_failure() {
    let server = Scripted::start([Reply::raw("SSH-2.0-OpenSSH_9.6\r\n")]).await;
    let failure = outcome(&server.client(LONG, 0), false).await.1.unwrap();
    assert_eq!(failure.kind, Kind::Unreachable, "{failure}");
    assert!(failure.message.contains("cannot be reached: invalid HTTP"), "{failure}");
}

#[tokio::test]
async fn a_body_that_ends_too_early_is_cut_off_and_its_connection_is_not_used_again() {
    let half = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", ANSWER.len(), &ANSWER[..40]);
    let server = Scripted::start([Reply::raw(&half), Reply::json("200 OK", ANSWER)]).await;
    let client = server.client(LONG, 5);
    let failure = outcome(&client, false).await.1.unwrap();
    assert_eq!((failure.kind, server.requests().len()), (Kind::CutOff, 1), "{failure}");
    assert_eq!(outcome(&client, false).await.1, None);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn neither_the_key_nor_the_messages_follow_a_redirect() {
    let elsewhere = Scripted::start([Reply::json("200 OK", ANSWER)]).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = format!("Location: {}/chat/completions\r\n", elsewhere.base_url);
        let server = Scripted::start([Reply::document(status, &location, "")]).await;
        let failure = outcome(&server.client(LONG, 3), false).await.1.unwrap();
        assert_eq!((failure.kind, server.requests().len()), (Kind::Status, 1), "{failure}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn an_interim_response_is_not_the_answer() {
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{ANSWER}", ANSWER.len());
    let server = Scripted::start([Reply::raw(&format!("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n{answer}"))]).await;
    let (events, failure) = outcome(&server.client(LONG, 0), false).await;
    assert_eq!((failure, text_of(&events).as_str()), (None, "Hello"));
}

#[tokio::test]
async fn a_large_request_and_a_large_answer_arrive_whole() {
    let input = format!(r#"{{"input":"{}"}}"#, "x".repeat(4 << 20));
    let answer = format!(r#"{{"data":"{}"}}"#, "y".repeat(4 << 20));
    let server = Scripted::start([Reply::json("200 OK", &answer)]).await;
    let passed = server.client(LONG, 0).pass_on(PassedTo::Embeddings, input.clone().into(), None).await.unwrap();
    let PassedAnswer::Whole(body) = passed else { panic!("a document") };
    assert!(body == answer.as_bytes(), "{} bytes of {}", body.len(), answer.len());
    assert!(server.requests()[0].ends_with(&input));
}

#[tokio::test]
async fn a_call_that_is_given_up_before_its_answer_ends_at_the_server() {
    let server = Scripted::start([Reply::raw("").then_silence(), Reply::json("200 OK", ANSWER)]).await;
    let client = server.client(LONG, 0);
    assert!(tokio::time::timeout(SHORT, client.call(call(false))).await.is_err());
    tokio::time::timeout(LONG, server.hang_up()).await.unwrap();
    assert_eq!(outcome(&client, false).await.1, None);
    assert_eq!(server.connections(), 2);
}
