//! Messages of a child process, read line by line without ever holding more than the largest message.
//!
//! A longer line is skipped as it comes. If it answers a request, an error with the same id takes its place, so that
//! the caller does not wait until its time is up.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::notes::Notes;
use super::{LARGEST_MESSAGE, TOO_LARGE, TOO_LARGE_CODE};

const CHUNK: usize = 64 * 1024;
/// After so many lines that are no messages the process is taken for something other than an MCP server.
const MOST_STRAY_LINES: usize = 1000;
/// A buffer that has grown beyond this is given back after its line.
const KEPT_CAPACITY: usize = 256 * 1024;

/// Copies messages until either side ends. Lines that are no messages are noted and left out.
pub(super) async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    notes: &Notes,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut line = Line::new(LARGEST_MESSAGE);
    loop {
        let read = from.read(&mut chunk).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        for part in chunk[..read].split_inclusive(|&byte| byte == b'\n') {
            line.push(part);
            if !part.ends_with(b"\n") {
                continue;
            }
            match line.take() {
                Whole::Message(message) => to.write_all(&message).await?,
                Whole::Stray(text) => {
                    if notes.stray(&text) >= MOST_STRAY_LINES {
                        return to.shutdown().await;
                    }
                }
                Whole::Nothing => {}
            }
        }
    }
}

/// A line that has been read to its end.
#[derive(Debug, PartialEq, Eq)]
enum Whole {
    Message(Vec<u8>),
    Stray(Vec<u8>),
    Nothing,
}

/// The line that is being read.
struct Line {
    limit: usize,
    kept: Vec<u8>,
    /// Reads on in a line that is too long to be kept.
    skipped: Option<Envelope>,
}

impl Line {
    fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), skipped: None }
    }

    fn push(&mut self, part: &[u8]) {
        if self.skipped.is_none() && self.kept.len() + part.len() > self.limit {
            let mut envelope = Envelope::default();
            envelope.read(&std::mem::take(&mut self.kept));
            self.skipped = Some(envelope);
        }
        match &mut self.skipped {
            Some(envelope) => envelope.read(part),
            None => self.kept.extend_from_slice(part),
        }
    }

    fn take(&mut self) -> Whole {
        if let Some(envelope) = self.skipped.take() {
            return envelope.answered().map_or(Whole::Nothing, Whole::Message);
        }
        let line = std::mem::take(&mut self.kept);
        if line.capacity() <= KEPT_CAPACITY {
            self.kept = Vec::with_capacity(line.len());
        }
        let text = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line).trim_ascii();
        match text.first() {
            None => Whole::Nothing,
            Some(b'{') => Whole::Message(line),
            Some(_) => Whole::Stray(line),
        }
    }
}

/// Finds out, byte by byte, which request a message answers: the `id` of an object without a `method`.
#[derive(Default)]
struct Envelope {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// What was read of the outermost object's current key or value; never more than [`Self::LONGEST_TOKEN`].
    token: Vec<u8>,
    value_is_id: bool,
    id: Option<Vec<u8>>,
    has_method: bool,
}

impl Envelope {
    const LONGEST_TOKEN: usize = 64;

    fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.keep(byte);
                self.in_string = true;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.value_is_id = self.token == b"\"id\"";
                self.has_method |= self.token == b"\"method\"";
                self.token.clear();
            }
            b',' if self.depth == 1 => self.end_value(),
            _ if !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < Self::LONGEST_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self) {
        if std::mem::take(&mut self.value_is_id) {
            self.id = Some(std::mem::take(&mut self.token));
        }
        self.token.clear();
    }

    /// The error that takes the message's place; `None` if it answers no request.
    fn answered(self) -> Option<Vec<u8>> {
        let id = self.id.filter(|_| !self.has_method)?;
        let id: serde_json::Value = serde_json::from_slice(&id).ok().filter(|id| !serde_json::Value::is_null(id))?;
        let error = serde_json::json!({ "code": TOO_LARGE_CODE, "message": TOO_LARGE });
        let mut line = serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes();
        line.push(b'\n');
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(limit: usize, text: &str, chunk: usize) -> Vec<Whole> {
        let mut line = Line::new(limit);
        let mut all = Vec::new();
        for chunk in text.as_bytes().chunks(chunk) {
            for part in chunk.split_inclusive(|&byte| byte == b'\n') {
                line.push(part);
                if part.ends_with(b"\n") {
                    all.push(line.take());
                }
            }
        }
        all
    }

    fn refusal(id: &str) -> Whole {
        let error = format!(r#"{{"code":{TOO_LARGE_CODE},"message":"{TOO_LARGE}"}}"#);
        Whole::Message(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n").into_bytes())
    }

    #[test]
    fn a_long_answer_becomes_an_error_of_the_same_request() {
        let text = "x".repeat(100);
        for (line, expected) in [
            (format!(r#"{{"id":7,"result":{{"id":1,"t":"{text}"}}}}"#), refusal("7")),
            (format!(r#"{{"result":{{"id":1,"t":["{text}\",\"id\":3"]}}, "id" : "a-b" }}"#), refusal("\"a-b\"")),
            (format!(r#"{{"id":7,"method":"roots/list","params":"{text}"}}"#), Whole::Nothing),
            (format!(r#"{{"method":"notifications/message","params":"{text}"}}"#), Whole::Nothing),
            (format!(r#"{{"id":null,"error":"{text}"}}"#), Whole::Nothing),
            (format!("garbage {text}"), Whole::Nothing),
        ] {
            for chunk in [1, 7, 1000] {
                assert_eq!(taken(64, &format!("{line}\n"), chunk), std::slice::from_ref(&expected), "{line}");
            }
        }
    }

    #[test]
    fn lines_up_to_the_limit_are_passed_on_and_strangers_are_noted() {
        let lines = "{\"id\":1}\r\n\nhello\n\u{feff}{}\n";
        let message = |text: &str| Whole::Message(text.as_bytes().to_vec());
        let stray = Whole::Stray(b"hello\n".to_vec());
        assert_eq!(taken(64, lines, 3), [message("{\"id\":1}\r\n"), Whole::Nothing, stray, message("\u{feff}{}\n")]);
    }

    proptest! {
        #[test]
        fn any_message_is_recognised_however_it_is_cut(id in 0_u32..9999, text in ".{0,80}", chunk in 1_usize..50) {
            let message = serde_json::json!({"jsonrpc": "2.0", "result": {"content": [text, {"id": [1]}]}, "id": id});
            prop_assert_eq!(taken(8, &format!("{message}\n"), chunk), [refusal(&id.to_string())]);
        }
    }
}
