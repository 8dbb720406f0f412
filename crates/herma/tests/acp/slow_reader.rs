//! An editor that does not read: the agent waits, and its memory does not grow.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

/// Requests that are sent, and the size of each.
const REQUESTS: usize = 3000;
const SIZE: usize = 64 * 1024;
/// The most memory that the agent may take, in kB. All requests together are larger.
const MOST_KB: u64 = 120 * 1024;

/// The most memory that a process has had, in kB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn an_editor_that_does_not_read_makes_the_agent_wait() {
    let data = tempfile::TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_herma"));
    command.arg("acp").arg("--data").arg(data.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let written = Arc::new(AtomicUsize::new(0));
    let (count, (done, is_done)) = (Arc::clone(&written), mpsc::channel());
    let writer = std::thread::spawn(move || {
        let request = |id: usize, method: &str, params: Value| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
        };
        stdin.write_all(request(0, "initialize", json!({ "protocolVersion": 1 })).as_bytes()).unwrap();
        for id in 1..=REQUESTS {
            let params = json!({ "sessionId": "x".repeat(SIZE) });
            stdin.write_all(request(id, "session/close", params).as_bytes()).unwrap();
            count.store(id, Ordering::Relaxed);
        }
        done.send(()).unwrap();
    });
    // The agent takes requests until it has to wait for the editor.
    let mut seen = 0;
    while is_done.recv_timeout(Duration::from_millis(1000)).is_err() {
        let now = written.load(Ordering::Relaxed);
        if now == seen && now > 0 {
            break;
        }
        seen = now;
    }
    assert!(written.load(Ordering::Relaxed) < REQUESTS, "the agent has to stop reading");
    let answers = BufReader::new(stdout).lines().take(REQUESTS + 1).map(|line| line.unwrap());
    let answers = answers.filter(|line| serde_json::from_str::<Value>(line).unwrap()["id"].is_number());
    assert_eq!(answers.count(), REQUESTS + 1, "every request is answered in the end");
    writer.join().unwrap();
    let peak = peak_memory(child.id());
    assert!(peak < MOST_KB, "{peak} kB");
    assert!(child.wait().unwrap().success());
}
