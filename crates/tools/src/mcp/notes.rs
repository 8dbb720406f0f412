//! What a server's process said beside the protocol: its last line on stderr, and text on stdout that is no message.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::watch;

use crate::secrets::Secrets;

/// The longest line of stderr that is kept; the rest of it becomes another line.
const LONGEST_LINE: u64 = 4096;
/// How long the end of stderr is waited for after the process ended.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What is noted of one process.
pub(super) struct Notes {
    label: String,
    secrets: Secrets,
    said: Mutex<Said>,
    stderr_closed: watch::Sender<bool>,
}

#[derive(Default)]
struct Said {
    last_line: Option<String>,
    stray_line: Option<String>,
    stray_lines: usize,
}

impl Notes {
    pub(super) fn new(label: &str, secrets: Secrets) -> Self {
        Self { label: label.to_owned(), secrets, said: Mutex::default(), stderr_closed: watch::Sender::new(false) }
    }

    /// Reads stderr to its end. Each line goes to the log; the last one is kept.
    pub(super) async fn read(&self, stderr: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let text = self.secrets.scrub(&String::from_utf8_lossy(&line));
            if !text.is_empty() {
                tracing::debug!(server = self.label, "{text}");
                self.said().last_line = Some(text);
            }
        }
        self.stderr_closed.send_replace(true);
    }

    /// Notes a line on stdout that is no message, and counts it.
    pub(super) fn stray(&self, line: &[u8]) -> usize {
        let text = || self.secrets.scrub(&String::from_utf8_lossy(&line[..line.len().min(200)]));
        let mut said = self.said();
        said.stray_lines += 1;
        if said.stray_line.is_none() {
            let text = text();
            tracing::debug!(server = self.label, "a line on stdout that is no MCP message: {text}");
            said.stray_line = Some(text);
        }
        said.stray_lines
    }

    /// The first line on stdout that was no message.
    pub(super) fn stray_line(&self) -> Option<String> {
        self.said().stray_line.clone()
    }

    /// The last line on stderr. Waits a moment for a process that has just ended.
    pub(super) async fn last_line(&self) -> Option<String> {
        let mut closed = self.stderr_closed.subscribe();
        drop(tokio::time::timeout(LAST_WORDS, closed.wait_for(|closed| *closed)).await);
        self.said().last_line.clone()
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
