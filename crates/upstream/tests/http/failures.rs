//! Calls that fail, and the messages about them.

use std::time::Duration;

use herma_model::ModelFailure;
use herma_model::generation::ModelFailureKind as Kind;
use herma_upstream::{Connections, HttpModelServer, HttpSettings, ModelServer, SettingsError};

use crate::answers::{LONG, STREAM, text_of};
use crate::scripted::{KEY, Reply, Scripted, call, outcome};

const SHORT: Duration = Duration::from_millis(60);

async fn failure_of(reply: Reply, streaming: bool) -> (ModelFailure, String) {
    let server = Scripted::start([reply]).await;
    let (events, failure) = outcome(&server.client(LONG, 0), streaming).await;
    let failure = failure.expect("the call fails");
    assert!(!failure.message.contains(KEY), "{failure}");
    (failure, text_of(&events))
}

#[tokio::test]
async fn a_stream_that_breaks_off_keeps_what_was_shown() {
    let unfinished = &STREAM[..2];
    let half_a_chunk =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ndata";
    for reply in [Reply::events(unfinished), Reply::events(&[]), Reply::raw(half_a_chunk)] {
        let (failure, _) = failure_of(reply, true).await;
        assert_eq!(failure.kind, Kind::CutOff, "{failure}");
    }
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let (failure, shown) = failure_of(Reply::events(&[said]), true).await;
    assert_eq!((failure.kind, shown.as_str()), (Kind::CutOff, "Hel"));
    let (failure, _) = failure_of(Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"), false).await;
    assert_eq!(failure.kind, Kind::CutOff);
}

#[tokio::test]
async fn answers_outside_the_protocol_are_nonsense() {
    let page = || Reply::document("200 OK", "Content-Type: text/html\r\n", "<html>Login</html>");
    let plain = || Reply::document("200 OK", "Content-Type: text/plain\r\n", "it works");
    let nothing = "{\"choices\":[{\"message\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}";
    for (reply, streaming, expected) in [
        (page(), false, "sent a web page in place of an answer"),
        (page(), true, "sent a web page in place of an answer"),
        (plain(), true, "sent no event stream in place of an answer"),
        (Reply::json("200 OK", ""), false, "sent an empty body in place of an answer"),
        (Reply::json("200 OK", nothing), false, "answered nothing"),
        (Reply::json("200 OK", nothing), true, "answered nothing"),
        (Reply::events(&["data: [DONE]\n\n"]), true, "answered nothing"),
        (Reply::events(&["data: hello\n\n"]), true, "sent text that is not JSON"),
    ] {
        let (failure, _) = failure_of(reply, streaming).await;
        assert_eq!(failure.kind, Kind::Nonsense, "{failure}");
        assert!(failure.message.contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_ends_it() {
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let error = format!("data: {{\"error\":{{\"message\":\"lost {KEY}\",\"code\":502}}}}\n\n");
    let (failure, shown) = failure_of(Reply::events(&[said, &error]), true).await;
    assert_eq!((failure.kind, failure.status, shown.as_str()), (Kind::Status, Some(502), "Hel"));
    assert!(failure.message.ends_with("reported an error: lost [redacted]"), "{failure}");
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let silent_head = Reply::raw("").then_silence();
    let silent_body = Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{").then_silence();
    let silent_stream = Reply::events(&STREAM[..1]).then_silence();
    for (reply, streaming, expected) in [
        (silent_head, false, "did not answer within 60ms"),
        (silent_body, false, "sent nothing more for 60ms"),
        (silent_stream, true, "sent nothing more for 60ms"),
    ] {
        let server = Scripted::start([reply]).await;
        let failure = outcome(&server.client(SHORT, 3), streaming).await.1.unwrap();
        assert_eq!(failure.kind, Kind::Timeout, "{failure}");
        assert!(failure.message.ends_with(expected), "{failure}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for base_url in [format!("http://{free}/v1"), format!("https://{free}/v1")] {
        let settings =
            HttpSettings { base_url, api_key: Some(KEY.to_owned()), headers: Vec::new(), timeout: LONG, retries: 0 };
        let server = HttpModelServer::new(settings, &Connections::default()).unwrap();
        let failure = server.call(call(true)).await.map(|_| ()).unwrap_err();
        assert_eq!(failure.kind, Kind::Unreachable);
        let expected = format!("the model server at {free} cannot be reached: Connection refused");
        assert!(failure.message.starts_with(&expected), "{failure}");
    }
}

#[tokio::test]
async fn a_context_that_is_too_long_is_a_failure_of_its_own_kind() {
    let body = r#"{"error":{"message":"This model's maximum context length is 10 tokens.","code":null}}"#;
    let (failure, _) = failure_of(Reply::json("400 Bad Request", body), true).await;
    assert_eq!((failure.kind, failure.status), (Kind::ContextTooLong, Some(400)));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let reply = Reply::document("302 Found", "Location: http://127.0.0.1:1/\r\n", "");
    let (failure, _) = failure_of(reply, false).await;
    assert_eq!((failure.kind, failure.status), (Kind::Status, Some(302)));
}

#[tokio::test]
async fn no_failure_contains_the_key() {
    for body in [
        format!(r#"{{"error":{{"message":"Incorrect API key: {KEY}"}}}}"#),
        format!("you sent Authorization: Bearer {KEY}"),
        format!(r#"{{"error":"{KEY}"}}"#),
        format!("{}{KEY}", "x".repeat(295)),
    ] {
        let (failure, _) = failure_of(Reply::json("401 Unauthorized", &body), false).await;
        assert_eq!((failure.kind, failure.status), (Kind::Status, Some(401)));
        assert!(!failure.message.contains("hunter"), "{failure}");
    }
}

#[test]
fn settings_do_not_show_their_key() {
    let base_url = "https://me:hunter2@example.com".to_owned();
    let headers = vec![("api-key".to_owned(), "bad\nhunter2".to_owned())];
    let api_key = Some("bad\nhunter2".to_owned());
    let settings = HttpSettings { base_url, api_key, headers, timeout: LONG, retries: 0 };
    assert!(!format!("{settings:?}").contains("hunter2"));
    let refused = |settings| HttpModelServer::new(settings, &Connections::default()).map(|_| ()).unwrap_err();
    assert_eq!(refused(settings.clone()), SettingsError::Credentials);
    let base_url = "https://example.com".to_owned();
    let settings = HttpSettings { base_url, ..settings };
    assert_eq!(refused(settings.clone()), SettingsError::Key);
    assert_eq!(refused(HttpSettings { api_key: None, ..settings }), SettingsError::Header("api-key".to_owned()));
}
