//! Starting, failing, restarting and ending.

use std::sync::Arc;
use std::time::Duration;

use herma_testkit::McpServer;
use herma_tools::{CallEnd, ServerSettings, Status, Toolbox, Transport};
use tokio::time::Instant;

use crate::support::{ANYBODY, call, failure, is_running, ready, result, settled, stdio, tool, until, with_env};

async fn status(toolbox: &Toolbox) -> Status {
    toolbox.rows(ANYBODY, false).await.remove(0).status
}

#[tokio::test]
async fn nothing_starts_before_it_is_needed() {
    let server = McpServer::stdio();
    let toolbox = Toolbox::new(vec![stdio("test", &server)]);
    let rows = toolbox.rows(ANYBODY, false).await;
    assert_eq!((rows.len(), rows[0].tool.as_ref(), &rows[0].status), (1, None, &Status::Idle));
    assert_eq!(toolbox.find(ANYBODY, "test__echo"), None);
    assert_eq!(server.logged("start"), 0);
    settled(&toolbox).await;
    let rows = toolbox.rows(ANYBODY, true).await;
    assert!(rows.len() > 10 && rows.iter().all(|row| row.tool.is_some() && row.status == Status::Ready));
    assert_eq!(server.logged("start"), 1);
}

#[tokio::test]
async fn turns_at_the_same_time_share_one_start() {
    let server = McpServer::stdio();
    let toolbox = Toolbox::new(vec![stdio("test", &server)]);
    let (one, other) = tokio::join!(settled(&toolbox), settled(&toolbox));
    assert_eq!((one, other), (Status::Ready, Status::Ready));
    assert_eq!(server.logged("start"), 1);
}

#[tokio::test]
async fn a_command_that_does_not_exist_says_what_to_do() {
    let command = "herma-no-such-command".to_owned();
    let transport = Transport::Command { command, args: Vec::new(), env: Vec::new() };
    let toolbox = Toolbox::new(vec![ServerSettings::new("files", transport)]);
    let why = failure(&toolbox).await;
    assert!(why.contains("`herma-no-such-command`") && why.contains("[tools.mcp.files]"), "{why}");
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_quoted_without_its_secrets() {
    let server = McpServer::stdio().with(&["--mode", "exit"]);
    let toolbox = Toolbox::new(vec![with_env("test", &server, &[("MCP_SECRET", "hunter22")])]);
    let why = failure(&toolbox).await;
    assert!(why.contains("exit status: 4") && why.contains("fatal: cannot use [redacted]"), "{why}");
    assert!(!format!("{toolbox:?}").contains("hunter22"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_waited_for_once_and_fails_after_thirty_seconds() {
    let server = McpServer::stdio().with(&["--mode", "silent"]);
    let toolbox = Toolbox::new(vec![stdio("test", &server)]);
    let begun = Instant::now();
    assert_eq!(toolbox.offered(ANYBODY).await, []);
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert_eq!(status(&toolbox).await, Status::Starting);
    let again = Instant::now();
    assert_eq!(toolbox.offered(ANYBODY).await, []);
    assert!(again.elapsed() < Duration::from_secs(1), "the same start is not waited for again");
    let why = failure(&toolbox).await;
    assert!(why.contains("did not answer within 30 s") && why.contains("by hand"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(33), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_prints_garbage_is_told_apart() {
    let server = McpServer::stdio().with(&["--mode", "garbage"]);
    let toolbox = Toolbox::new(vec![stdio("test", &server)]);
    toolbox.offered(ANYBODY).await;
    server.until_logged("printed").await;
    let why = failure(&toolbox).await;
    assert!(why.contains("`Welcome to the test server!`") && why.contains("stderr"), "{why}");
}

#[tokio::test]
async fn endless_garbage_fails_soon() {
    let args = vec!["-c".to_owned(), "while true; do echo garbage; done".to_owned()];
    let transport = Transport::Command { command: "sh".to_owned(), args, env: Vec::new() };
    let toolbox = Toolbox::new(vec![ServerSettings::new("test", transport)]);
    assert!(failure(&toolbox).await.contains("`garbage`"));
}

#[tokio::test]
async fn an_older_server_that_ends_when_asked_for_its_revisions_is_asked_in_the_older_way() {
    let server = McpServer::stdio().with(&["--mode", "brittle"]);
    let toolbox = ready(stdio("test", &server)).await;
    assert_eq!(server.logged("start"), 2);
    drop(call(&toolbox, "crash", "{}").await);
    assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"));
    assert_eq!(server.logged("start"), 3, "the next start does not try again");
}

#[tokio::test]
async fn a_banner_before_the_handshake_is_forgiven() {
    let server = McpServer::stdio().with(&["--mode", "banner"]);
    let toolbox = ready(stdio("test", &server)).await;
    assert_eq!(call(&toolbox, "read_note", "{}").await, result("the note"));
}

#[tokio::test]
async fn a_server_that_keeps_dying_rests_after_five_starts() {
    let server = McpServer::stdio();
    let toolbox = ready(stdio("test", &server)).await;
    let crash = tool(&toolbox, "crash").await;
    for round in 0..5 {
        let end = toolbox.call(&crash, "{}").await;
        assert!(matches!(end, CallEnd::Uncertain(_)), "{round}: {end:?}");
    }
    let end = toolbox.call(&crash, "{}").await;
    let expected = |why: &str| why.contains("too often") && why.contains("crashing as asked");
    assert!(matches!(&end, CallEnd::NotMade(why) if expected(why)), "{end:?}");
    assert!(matches!(status(&toolbox).await, Status::Failed(why) if expected(&why)));
    assert_eq!(toolbox.offered(ANYBODY).await, []);
    assert_eq!(server.logged("start"), 5);

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(settled(&toolbox).await, Status::Ready, "it is tried again after a minute");
}

#[tokio::test]
async fn a_failed_start_is_tried_again_by_a_later_turn() {
    let server = McpServer::stdio();
    let mut settings = stdio("test", &server);
    let flag = server.directory().join("may-start");
    let Transport::Command { args, .. } = &settings.transport else { panic!("a command") };
    let script = format!("test -e {} || exit 1; exec python3 {}", flag.display(), args.join(" "));
    let args = vec!["-c".to_owned(), script];
    settings.transport = Transport::Command { command: "sh".to_owned(), args, env: Vec::new() };
    let toolbox = Toolbox::new(vec![settings]);
    assert!(failure(&toolbox).await.contains("exit status: 1"));
    std::fs::write(flag, "").unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(settled(&toolbox).await, Status::Ready);
}

#[tokio::test]
async fn closing_ends_the_process_and_all_that_it_started() {
    let server = McpServer::stdio();
    let mut settings = stdio("test", &server);
    let child = server.directory().join("child");
    let Transport::Command { args, .. } = &settings.transport else { panic!("a command") };
    let script = format!("sleep 1000 & echo $! > {}; exec python3 {}", child.display(), args.join(" "));
    let args = vec!["-c".to_owned(), script];
    settings.transport = Transport::Command { command: "sh".to_owned(), args, env: Vec::new() };
    let toolbox = ready(settings).await;
    let sleeping: u32 = std::fs::read_to_string(&child).unwrap().trim().parse().unwrap();
    assert!(is_running(server.pids()[0]) && is_running(sleeping));
    let echo = tool(&toolbox, "echo").await;
    toolbox.close().await;
    assert!(!is_running(server.pids()[0]) && !is_running(sleeping));
    assert_eq!(toolbox.offered(ANYBODY).await, []);
    assert!(matches!(toolbox.call(&echo, "{}").await, CallEnd::NotMade(_)));
    assert_eq!(server.logged("start"), 1, "a closed toolbox starts nothing");
}

#[tokio::test]
async fn dropping_ends_the_process_too() {
    let server = McpServer::stdio();
    let toolbox: Arc<Toolbox> = ready(stdio("test", &server)).await;
    drop(toolbox);
    until("the process ends", || !is_running(server.pids()[0])).await;
}

#[test]
fn the_process_does_not_outlive_the_runtime() {
    let server = McpServer::stdio();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let toolbox = runtime.block_on(ready(stdio("test", &server)));
    drop(runtime);
    drop(toolbox);
    let begun = std::time::Instant::now();
    while is_running(server.pids()[0]) {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_start_goes_on_when_its_turn_is_gone() {
    let server = McpServer::stdio();
    let toolbox = Toolbox::new(vec![stdio("test", &server)]);
    tokio::select! {
        biased;
        _ = toolbox.offered(ANYBODY) => panic!("a server cannot be that quick"),
        () = tokio::task::yield_now() => {}
    }
    until("the server is ready", || toolbox.find(ANYBODY, "test__echo").is_some()).await;
    assert_eq!(server.logged("start"), 1);
}
