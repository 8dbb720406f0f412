//! What comes back from a call over stdio.

use std::time::Duration;

use herma_testkit::McpServer;
use herma_tools::{CallEnd, ServerSettings};

use crate::support::{call, ready, result, stdio, tool, with_env};

#[tokio::test]
async fn results_are_text() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    assert_eq!(call(&toolbox, "echo", r#"{"text":"grüß dich\n"}"#).await, result("grüß dich\n"));
    assert_eq!(call(&toolbox, "add", r#"{"a":1,"b":2}"#).await, result("3"));
    assert_eq!(call(&toolbox, "read_note", "").await, result("the note"));
    assert_eq!(call(&toolbox, "structured", "{}").await, result(r#"{"answer":42}"#));
    let image = "a picture\n[An image (image/png, 6 bytes) that is not shown.]";
    assert_eq!(call(&toolbox, "image", "{}").await, result(image));
    assert_eq!(call(&toolbox, "notes.search.deep", "{}").await, result("notes.search.deep was called"));
    let broken = CallEnd::Result { text: "it does not work".to_owned(), is_error: true };
    assert_eq!(call(&toolbox, "broken", "{}").await, broken);
    let refused = CallEnd::Result { text: "'text'".to_owned(), is_error: true };
    assert_eq!(call(&toolbox, "echo", "{}").await, refused, "a JSON-RPC error is an answer, too");
    toolbox.close().await;
}

#[tokio::test]
async fn arguments_that_are_no_object_are_not_sent() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    for arguments in ["[]", "1", "{", "null", r#"{"a":1} x"#] {
        let end = call(&toolbox, "echo", arguments).await;
        assert!(matches!(&end, CallEnd::NotMade(why) if why.contains("JSON")), "{arguments}: {end:?}");
    }
    assert_eq!(server.logged("call echo"), 0);
}

#[tokio::test]
async fn a_call_is_made_once_and_its_variables_reach_the_server() {
    let server = McpServer::stdio();
    let counted = server.directory().join("counted");
    let toolbox = ready(with_env("test", &server, &[("COUNT_FILE", counted.to_str().unwrap())])).await;
    assert_eq!(call(&toolbox, "count", "{}").await, result("counted"));
    assert_eq!(std::fs::read_to_string(&counted).unwrap(), "counted\n");
    let home = std::env::var("HOME").unwrap();
    assert_eq!(call(&toolbox, "environment", r#"{"name":"HOME"}"#).await, result(&home));
}

#[tokio::test]
async fn a_call_that_runs_out_of_time_is_uncertain_and_told_to_stop() {
    let server = McpServer::stdio();
    let settings = ServerSettings { timeout: Duration::from_millis(300), ..stdio("test", &server) };
    let toolbox = ready(settings).await;
    let end = call(&toolbox, "slow", r#"{"seconds":30}"#).await;
    assert!(matches!(&end, CallEnd::Uncertain(why) if why.contains("0.3 s")), "{end:?}");
    server.until_logged("cancelled").await;
    assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"), "the server goes on");
}

#[tokio::test]
async fn a_call_whose_future_is_dropped_is_told_to_stop() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let slow = tool(&toolbox, "slow").await;
    tokio::select! {
        end = toolbox.call(&slow, r#"{"seconds":30}"#) => panic!("{end:?}"),
        () = server.until_logged("call slow") => {}
    }
    server.until_logged("cancelled").await;
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_leaves_it_uncertain_and_is_started_again_by_the_next_one() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let note = tool(&toolbox, "read_note").await;
    let end = call(&toolbox, "crash", "{}").await;
    assert!(matches!(&end, CallEnd::Uncertain(why) if why.contains("crashing as asked")), "{end:?}");
    assert_eq!(toolbox.call(&note, "{}").await, result("the note"));
    assert_eq!(server.logged("start"), 2);
    assert_eq!(server.logged("call crash"), 1, "a call is never repeated");
}

#[tokio::test]
async fn a_killed_server_leaves_all_its_calls_uncertain() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let slow = tool(&toolbox, "slow").await;
    let kill = async {
        server.until_logged("call slow").await;
        let pid = server.pids()[0].to_string();
        assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    };
    let seconds = r#"{"seconds":30}"#;
    let (one, other, ()) = tokio::join!(toolbox.call(&slow, seconds), toolbox.call(&slow, seconds), kill);
    for end in [one, other] {
        assert!(matches!(&end, CallEnd::Uncertain(why) if why.contains("ended before it answered")), "{end:?}");
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_is_refused_at_once_and_other_calls_go_on() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let slow = tool(&toolbox, "slow").await;
    let flood = tool(&toolbox, "flood").await;
    let (flooded, slept) =
        tokio::join!(toolbox.call(&flood, r#"{"megabytes":20}"#), toolbox.call(&slow, r#"{"seconds":0.5}"#));
    assert_eq!(flooded, CallEnd::Uncertain("the result was too large".to_owned()));
    assert_eq!(slept, result("awake"));
    let CallEnd::Result { text, .. } = toolbox.call(&flood, r#"{"megabytes":7}"#).await else { panic!("no result") };
    assert_eq!(text.len(), 7 * 1024 * 1024);
    assert_eq!(server.logged("start"), 1);
}

#[tokio::test]
async fn servers_may_ask_for_nothing() {
    for options in [&[][..], &["--modern"]] {
        let server = McpServer::stdio().with(options);
        let toolbox = ready(stdio("test", &server)).await;
        assert_eq!(call(&toolbox, "ask", "{}").await, result("-32601 -32601 -32601"), "{options:?}");
    }
}
