//! Just enough HTTP/1.1 for the load client and the fixed upstream, so that both cost very little CPU.

use std::io;
use std::ops::Range;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A connection and its unread bytes.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: BytesMut,
}

impl Connection {
    /// Wraps a socket and sets `TCP_NODELAY`.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: BytesMut::with_capacity(32 * 1024) })
    }

    /// Reads one whole message. Calls `seen` with the body so far after each read. `None` if the peer closed the
    /// connection between messages.
    pub(super) async fn read(&mut self, mut seen: impl FnMut(&[u8])) -> io::Result<Option<Message>> {
        let mut head: Option<Head> = None;
        loop {
            if head.is_none() {
                head = Head::parse(&self.buffer)?;
            }
            if let Some(head) = &mut head {
                seen(&self.buffer[head.length.min(self.buffer.len())..]);
                if let Some(end) = head.end(&self.buffer)? {
                    let (start, status_line) = (head.length, head.status);
                    let bytes = self.buffer.split_to(end);
                    return Ok(Some(Message { bytes, body: start..end, status: status_line }));
                }
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection broke inside a message"));
            }
        }
    }

    /// Reads until `found` returns true for the buffered part of the next message. That part stays in the buffer.
    pub(super) async fn read_until(&mut self, found: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        while !found(&self.buffer) {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::other(format!(
                    "the stream ended early: {}",
                    String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(400)])
                )));
            }
        }
        Ok(())
    }
}

/// One request or response.
#[derive(Debug)]
pub(super) struct Message {
    bytes: BytesMut,
    body: Range<usize>,
    /// The status of a response; 0 for a request.
    pub(super) status: u16,
}

impl Message {
    /// The body. A chunked body has its framing.
    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[self.body.clone()]
    }

    /// A response with this body.
    #[cfg(test)]
    pub(super) fn of(body: &[u8]) -> Self {
        Self { bytes: BytesMut::from(body), body: 0..body.len(), status: 200 }
    }
}

#[derive(Debug)]
struct Head {
    length: usize,
    status: u16,
    /// The length of the body, or the end of the chunks that were read so far.
    framing: Framing,
}

#[derive(Debug)]
enum Framing {
    Length(usize),
    Chunked { followed: usize },
}

impl Head {
    fn parse(buffer: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&buffer[..end]).map_err(io::Error::other)?;
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).map_or(Ok(0), str::parse);
        let header = |wanted: &str| {
            let mut headers = text.lines().skip(1).filter_map(|line| line.split_once(':'));
            headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let length = end + 4;
        let framing = match header("transfer-encoding") {
            Some(_) => Framing::Chunked { followed: length },
            None => Framing::Length(header("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?),
        };
        Ok(Some(Self { length, status: status.map_err(io::Error::other)?, framing }))
    }

    /// The end of the message. `None` if it is not complete yet.
    fn end(&mut self, buffer: &[u8]) -> io::Result<Option<usize>> {
        let followed = match &mut self.framing {
            Framing::Length(body) => {
                let end = self.length + *body;
                return Ok((buffer.len() >= end).then_some(end));
            }
            Framing::Chunked { followed } => followed,
        };
        loop {
            let rest = buffer.get(*followed..).unwrap_or_default();
            let Some(line) = memchr::memmem::find(rest, b"\r\n") else { return Ok(None) };
            let size = std::str::from_utf8(&rest[..line]).map_err(io::Error::other)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let next = *followed + line + 2 + size + 2;
            if buffer.len() < next {
                return Ok(None);
            }
            *followed = next;
            if size == 0 {
                return Ok(Some(next));
            }
        }
    }
}

/// The body of a chunked message without its framing, for error messages and JSON.
pub(super) fn unframed(message: &Message) -> String {
    let mut rest = message.body();
    if rest.first().is_none_or(|first| !first.is_ascii_hexdigit()) {
        return String::from_utf8_lossy(rest).into_owned();
    }
    let mut text = String::new();
    while let Some(line) = memchr::memmem::find(rest, b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size.filter(|&size| size > 0 && rest.len() >= line + 4 + size) else { break };
        rest.advance(line + 2);
        text.push_str(&String::from_utf8_lossy(&rest[..size]));
        rest.advance(size + 2);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(bytes: &[u8]) -> Option<usize> {
        let mut head = Head::parse(bytes).unwrap()?;
        head.end(bytes).unwrap()
    }

    #[test]
    fn a_message_ends_where_its_framing_says_and_not_before() {
        for message in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
        ] {
            for cut in 0..message.len() {
                assert_eq!(end_of(&message[..cut]), None, "{cut}");
            }
            assert_eq!(end_of(&[message, b"HTTP/1.1"].concat()), Some(message.len()));
        }
    }

    #[test]
    fn chunks_are_joined_for_reading() {
        assert_eq!(unframed(&Message::of(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")), "hello world");
    }
}
