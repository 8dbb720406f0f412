//! Servers over streamable HTTP.

use std::time::Duration;

use herma_testkit::McpServer;
use herma_tools::{CallEnd, ServerSettings, Toolbox, Transport};

use crate::support::{ANYBODY, call, failure, http, ready, result, tool, until};

/// Answers as streams and as JSON, with and without sessions.
const KINDS: [&[&str]; 4] = [&[], &["--json"], &["--modern"], &["--modern", "--json"]];

#[tokio::test]
async fn calls_work_in_every_kind_of_answer() {
    for options in KINDS {
        let server = McpServer::http_with(options).await;
        let toolbox = ready(http("web", &server, &[])).await;
        assert_eq!(call(&toolbox, "echo", r#"{"text":"hello"}"#).await, result("hello"), "{options:?}");
        assert_eq!(call(&toolbox, "notes.search.deep", "{}").await, result("notes.search.deep was called"));
        let broken = CallEnd::Result { text: "it does not work".to_owned(), is_error: true };
        assert_eq!(call(&toolbox, "broken", "{}").await, broken);
        toolbox.close().await;
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_is_refused_at_once() {
    for options in KINDS {
        let server = McpServer::http_with(options).await;
        let toolbox = ready(http("web", &server, &[])).await;
        let end = call(&toolbox, "flood", r#"{"megabytes":20}"#).await;
        assert_eq!(end, CallEnd::Uncertain("the result was too large".to_owned()), "{options:?}");
        assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"));
    }
}

#[tokio::test]
async fn an_answer_that_is_no_result_is_uncertain_and_the_server_is_used_again() {
    for options in [&[][..], &["--json"]] {
        let server = McpServer::http_with(options).await;
        let mut settings = http("web", &server, &[]);
        settings.timeout = Duration::from_secs(1);
        let toolbox = ready(settings).await;
        for tool in ["babble", "misshape"] {
            let end = call(&toolbox, tool, "{}").await;
            assert!(matches!(end, CallEnd::Uncertain(_)), "{options:?} {tool}: {end:?}");
            assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"), "{options:?} {tool}");
        }
    }
}

#[tokio::test]
async fn a_forgotten_session_is_made_anew_and_the_call_is_made_once() {
    for options in [&[][..], &["--json"]] {
        let server = McpServer::http_with(options).await;
        let toolbox = ready(http("web", &server, &[])).await;
        assert_eq!(call(&toolbox, "forget", "{}").await, result("forgotten"));
        assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"), "{options:?}");
        assert_eq!((server.logged("initialize"), server.logged("call read_note")), (2, 1));
    }
}

#[tokio::test]
async fn a_server_that_was_restarted_is_used_again() {
    let mut server = McpServer::http().await;
    let toolbox = ready(http("web", &server, &[])).await;
    let note = tool(&toolbox, "read_note").await;
    server.kill();
    let end = toolbox.call(&note, "{}").await;
    assert!(matches!(&end, CallEnd::NotMade(why) if why.contains("cannot be reached")), "{end:?}");
    server.restart();
    assert_eq!(toolbox.call(&note, "{}").await, result("the note"));
}

#[tokio::test]
async fn calls_that_are_under_way_survive_a_connection_that_is_made_anew() {
    let server = McpServer::http_with(&["--modern"]).await;
    let toolbox = ready(http("web", &server, &[])).await;
    let (slow, note) = (tool(&toolbox, "slow").await, tool(&toolbox, "read_note").await);
    let meanwhile = async {
        server.until_logged("call slow").await;
        assert_eq!(call(&toolbox, "refuse_next", "{}").await, result("refuse_next was called"));
        let end = toolbox.call(&note, "{}").await;
        assert!(matches!(&end, CallEnd::NotMade(why) if why.contains("HTTP 400")), "{end:?}");
        assert_eq!(toolbox.call(&note, "{}").await, result("the note"));
    };
    let (slept, ()) = tokio::join!(toolbox.call(&slow, r#"{"seconds":3}"#), meanwhile);
    assert_eq!(slept, result("awake"));
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_leaves_it_uncertain() {
    for options in KINDS {
        let server = McpServer::http_with(options).await;
        let toolbox = ready(http("web", &server, &[])).await;
        let end = call(&toolbox, "crash", "{}").await;
        assert!(matches!(&end, CallEnd::Uncertain(_)), "{options:?}: {end:?}");
    }
}

#[tokio::test]
async fn a_call_that_runs_out_of_time_is_uncertain_and_told_to_stop() {
    for options in [&[][..], &["--json"]] {
        let server = McpServer::http_with(options).await;
        let settings = ServerSettings { timeout: Duration::from_secs(1), ..http("web", &server, &[]) };
        let toolbox = ready(settings).await;
        let end = call(&toolbox, "slow", r#"{"seconds":5}"#).await;
        assert!(matches!(&end, CallEnd::Uncertain(why) if why.contains("within 1 s")), "{options:?}: {end:?}");
        server.until_logged("cancelled").await;
    }
}

#[tokio::test]
async fn headers_are_sent_and_never_shown() {
    let server = McpServer::http_with(&["--token", "hunter22"]).await;
    let toolbox = ready(http("web", &server, &[("Authorization", "Bearer hunter22")])).await;
    assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"));
    assert!(!format!("{toolbox:?}").contains("hunter22"));

    let refused = Toolbox::new(vec![http("web", &server, &[("Authorization", "Bearer wrong-token")])]);
    let why = failure(&refused).await;
    assert!(why.contains("HTTP 401") && why.contains("`headers`") && !why.contains("wrong-token"), "{why}");
}

#[tokio::test]
async fn a_server_that_does_not_listen_says_what_to_do() {
    let mut server = McpServer::http().await;
    server.kill();
    let toolbox = Toolbox::new(vec![http("web", &server, &[])]);
    let why = failure(&toolbox).await;
    assert!(why.contains(&server.url()) && why.contains("refused") && why.contains("[tools.mcp.web]"), "{why}");
}

#[tokio::test]
async fn a_redirect_to_the_same_host_is_followed() {
    let server = McpServer::http().await;
    let transport = Transport::Http { url: server.url().replace("/mcp", "/moved"), headers: Vec::new() };
    let toolbox = ready(ServerSettings::new("web", transport)).await;
    assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"));
}

#[tokio::test]
async fn bad_settings_are_named() {
    for (url, headers, expected) in [
        ("http://127.0.0.1:1/mcp", vec![("bad name".to_owned(), "x".to_owned())], "`bad name`"),
        ("not an address", Vec::new(), "`url`"),
    ] {
        let transport = Transport::Http { url: url.to_owned(), headers };
        let toolbox = Toolbox::new(vec![ServerSettings::new("web", transport)]);
        let why = failure(&toolbox).await;
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn a_changed_list_is_read_again() {
    for options in [&[][..], &["--modern"]] {
        let server = McpServer::http_with(options).await;
        let toolbox = ready(http("web", &server, &[])).await;
        until("somebody listens", || server.logged("subscribed") == 1).await;
        assert_eq!(call(&toolbox, "grow", "{}").await, result("grown"));
        until("the new tool", || toolbox.find(ANYBODY, "web__grown").is_some()).await;
    }
}
