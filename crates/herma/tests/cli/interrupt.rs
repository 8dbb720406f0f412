//! Ctrl-C: the signal that a terminal sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command};

use herma_testkit::{Reply, ScriptedUpstream};

use crate::Terminal;

fn interrupt(child: &Child) {
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_cancels_the_answer_and_not_the_conversation() {
    let upstream = ScriptedUpstream::start().await;
    upstream.push(Reply::hang_after(1));
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat", "--session", "trip"]);
    command.env("HERMA_UPSTREAM", upstream.base_url()).env("HERMA_MODEL", "scripted");
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"one\n").unwrap();
    let mut shown = [0];
    stdout.read_exact(&mut shown).unwrap();

    interrupt(&child);
    upstream.until_open(0).await;
    stdin.write_all(b"two\n").unwrap();
    let answers = tokio::task::spawn_blocking(move || {
        let lines: Vec<String> = stdout.by_ref().lines().take(2).map(Result::unwrap).collect();
        (lines, stdout)
    });
    let (answers, _stdout) = answers.await.unwrap();
    assert_eq!(answers[1], "reply to: two");

    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    interrupt(&child);
    let mut line = String::new();
    while !line.contains("Ctrl-C once more") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended too soon");
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let request = upstream.last_request();
    let roles: Vec<_> =
        request.body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{}", request.body);
}
