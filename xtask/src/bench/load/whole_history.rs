//! A client that sends its whole history with every turn.

use std::io;

use bytes::Bytes;
use memchr::memmem;

use super::requests::{content_length, message, request};
use crate::bench::http1::Message;

/// The next request of a thread: all of its messages, the last one new.
#[derive(Debug, Clone)]
pub(super) struct WholeHistory {
    request: Vec<u8>,
    /// Where the body begins.
    body: usize,
    /// Messages in the request.
    messages: usize,
}

/// The end of each body.
const END: &str = "]}";

/// What stands between the length and the body.
const END_OF_HEAD: &str = "\r\n\r\n";

impl WholeHistory {
    /// A request whose answer is the last message of a history of this many messages. Its first message has the name:
    /// equal histories would be continued in one conversation.
    pub(super) fn new(name: &str, header: &str, history: usize) -> Self {
        let count = history.saturating_sub(1).max(1);
        let first = message(0, &format!("{name}: "));
        let spoken: Vec<String> = std::iter::once(first).chain((1..count).map(|index| message(index, ""))).collect();
        let body = format!(r#"{{"model":"bench","messages":[{}{END}"#, spoken.join(","));
        let request = request("POST /v1/chat/completions", header, &body);
        Self { body: request.len() - body.len(), request: request.to_vec(), messages: count }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.request
    }

    pub(super) fn request(&self) -> Bytes {
        Bytes::copy_from_slice(&self.request)
    }

    /// Adds an answer and the next message of the user.
    pub(super) fn answered(&mut self, answer: &Message) -> io::Result<()> {
        let said = content(answer).ok_or_else(|| io::Error::other("an answer without text"))?;
        let next = message(self.messages + 1, "");
        self.messages += 2;
        self.request.truncate(self.request.len() - END.len());
        for part in [r#",{"role":"assistant","content":""#.as_bytes(), said, br#""},"#, next.as_bytes(), END.as_bytes()]
        {
            self.request.extend_from_slice(part);
        }
        let length = content_length(self.request.len() - self.body);
        let at = self.body - END_OF_HEAD.len() - length.len();
        self.request[at..at + length.len()].copy_from_slice(length.as_bytes());
        Ok(())
    }
}

/// The text of an answer that is not streamed. The upstream's has no escapes.
fn content(answer: &Message) -> Option<&[u8]> {
    const CONTENT: &[u8] = br#""content":""#;
    let rest = answer.body().get(memmem::find(answer.body(), CONTENT)? + CONTENT.len()..)?;
    rest.get(..memchr::memchr(b'"', rest)?)
}
