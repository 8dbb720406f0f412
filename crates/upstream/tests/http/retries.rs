//! Calls that are repeated.

use herma_model::generation::ModelFailureKind as Kind;

use crate::answers::{ANSWER, LONG, STREAM, text_of};
use crate::scripted::{Reply, Scripted, outcome};

const SOON: &str = "Retry-After-Ms: 1\r\n";

fn refusal(status: &str, headers: &str) -> Reply {
    Reply::document(status, headers, r#"{"error":{"message":"not now"}}"#)
}

#[tokio::test]
async fn a_retry_hides_a_temporary_refusal() {
    for status in ["429 Too Many Requests", "503 Service Unavailable", "408 Request Timeout"] {
        let script = [refusal(status, "Retry-After: 0\r\n"), Reply::events(STREAM)];
        let server = Scripted::start(script).await;
        let (events, failure) = outcome(&server.client(LONG, 1), true).await;
        assert_eq!((failure, text_of(&events).as_str()), (None, "Hello"));
        let requests = server.requests();
        assert_eq!((requests.len(), &requests[0]), (2, &requests[1]));
    }
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_made_again() {
    let server = Scripted::start([Reply::raw(""), Reply::json("200 OK", ANSWER)]).await;
    let (events, failure) = outcome(&server.client(LONG, 1), false).await;
    assert_eq!((failure, text_of(&events).as_str()), (None, "Hello"));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_lasting_refusal_is_reported_after_the_last_attempt() {
    let server = Scripted::start([1, 2, 3].map(|_| refusal("503 Service Unavailable", SOON))).await;
    let failure = outcome(&server.client(LONG, 2), true).await.1.unwrap();
    assert_eq!((failure.kind, failure.status), (Kind::Status, Some(503)));
    assert!(failure.message.ends_with(" answered 503: not now"), "{failure}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let server = Scripted::start([refusal("429 Too Many Requests", "Retry-After: 30\r\n")]).await;
    let failure = outcome(&server.client(LONG, 5), false).await.1.unwrap();
    assert_eq!((failure.status, failure.retry_after_seconds), (Some(429), Some(30)));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn permanent_failures_are_not_tried_again() {
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found"] {
        let server = Scripted::start([refusal(status, SOON)]).await;
        assert!(outcome(&server.client(LONG, 5), false).await.1.is_some());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn nothing_is_tried_again_once_an_answer_has_begun() {
    let server = Scripted::start([Reply::events(&STREAM[..2]), Reply::events(STREAM)]).await;
    let failure = outcome(&server.client(LONG, 5), true).await.1.unwrap();
    assert_eq!((failure.kind, server.requests().len()), (Kind::CutOff, 1));
}
