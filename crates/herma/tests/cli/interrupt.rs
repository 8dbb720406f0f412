//! Ctrl-C without a terminal: the signal that a shell sends to a script.

use std::io::Read;
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
    let chat = |prompt: &str| {
        let mut command = terminal.command(&["chat", "--session", "trip", prompt]);
        command.env("HERMA_UPSTREAM", upstream.base_url()).env("HERMA_MODEL", "scripted");
        command.stdin(std::process::Stdio::null());
        command
    };
    let mut child = chat("one").spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut shown = [0];
    stdout.read_exact(&mut shown).unwrap();
    interrupt(&child);
    upstream.until_open(0).await;
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let mut next = chat("two");
    let said = tokio::task::spawn_blocking(move || next.output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "reply to: two\n");
    let request = upstream.last_request();
    let roles: Vec<_> =
        request.body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "{}", request.body);
}
