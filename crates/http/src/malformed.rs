//! Answers a request head that is not valid HTTP with Herma's error envelope.
//!
//! Such a head never reaches a route: hyper answers it with a bare status and closes the connection. This socket sits
//! between hyper and the client's socket. It remembers the faulty header when it reads, and replaces the bare status
//! when hyper writes it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::ApiError;
use crate::headers::spelled;
use crate::request_id::REQUEST_ID;

/// The socket that hyper reads and writes.
pub(crate) struct RefusingSocket<T> {
    inner: T,
    /// The name of a header whose value has a forbidden character.
    fault: Option<String>,
    /// The rest of the error that is written in place of a bare status.
    replacement: Bytes,
}

impl<T> RefusingSocket<T> {
    pub(crate) const fn new(inner: T) -> Self {
        Self { inner, fault: None, replacement: Bytes::new() }
    }

    /// Prepares the full error if hyper writes a bare refusal. True while that error replaces what hyper writes.
    fn refuse(&mut self, bare: &[u8]) -> bool {
        if !self.replacement.is_empty() {
            return true;
        }
        let Some(status) = bare_refusal(bare) else { return false };
        let error = match (status, &self.fault) {
            (b"431", _) => ApiError::headers_too_large(),
            (b"414", _) => ApiError::address_too_long(),
            (_, Some(name)) => {
                ApiError::invalid_header(name, format!("{name} must be printable UTF-8 without control characters"))
            }
            (_, None) => ApiError::not_http(),
        };
        self.replacement = error.into_http();
        true
    }
}

impl<T: AsyncWrite + Unpin> RefusingSocket<T> {
    fn write_replacement(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.replacement.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, &self.replacement))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.replacement.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

/// The status of a refusal that hyper made itself. An answer of a route differs: it has a request id.
fn bare_refusal(written: &[u8]) -> Option<&[u8]> {
    let status = written.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let is_refusal = matches!(status, b"400" | b"414" | b"431");
    let id = REQUEST_ID;
    let name = id.as_str().as_bytes();
    (is_refusal && !written.windows(name.len()).any(|window| window == name)).then_some(status)
}

/// False if no line can have a control character. Looks at all bytes alike, which is many times faster than by lines.
fn may_have_fault(read: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && !matches!(byte, b'\t' | b'\r' | b'\n')) || byte == 127;
    let has_control = read.iter().fold(false, |found, byte| found | is_control(*byte));
    let pairs = read.iter().zip(read.get(1..).unwrap_or_default());
    let has_lone_return = pairs.fold(false, |found, (byte, next)| found | (*byte == b'\r' && *next != b'\n'));
    has_control || has_lone_return
}

/// The name of the header whose value has a control character. A head that comes in several reads may go unnoticed.
fn fault_in(read: &[u8]) -> Option<String> {
    if !read.first().is_some_and(u8::is_ascii_uppercase) || !may_have_fault(read) {
        return None;
    }
    let head = read.split(|byte| *byte == b'\n').skip(1).take_while(|line| !matches!(line, [] | [b'\r']));
    let faulty = head
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .find(|line| line.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 127))?;
    let name = faulty.split(|byte| *byte == b':').next().and_then(|name| std::str::from_utf8(name).ok())?;
    let name = http::HeaderName::try_from(name).ok()?;
    Some(spelled(&name))
}

impl<T: AsyncRead + Unpin> AsyncRead for RefusingSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if let Some(name) = fault_in(&buffer.filled()[before..]) {
            self.fault = Some(name);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for RefusingSocket<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.refuse(bytes) {
            ready!(self.write_replacement(context))?;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = slices.first()
            && self.refuse(first)
        {
            ready!(self.write_replacement(context))?;
            return Poll::Ready(Ok(first.len()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_at_fault_is_found_in_a_head_and_nowhere_else() {
        for (read, fault) in [
            (&b"GET / HTTP/1.1\r\nhost: x\r\nx-hermes-session-id: a\x01b\r\n\r\n"[..], Some("X-Hermes-Session-Id")),
            (b"GET / HTTP/1.1\r\nx-a: \x7f\r\n", Some("X-A")),
            (b"GET / HTTP/1.1\r\nx-a: a\rb\r\n", Some("X-A")),
            (b"GET / HTTP/1.1\r\nx-a: tab\there\r\n\r\n\x01", None),
            (b"GET / HTTP/1.1\r\nbad name\x01: x\r\n\r\n", None),
            (b"{\"a\": \"\x01\"}", None),
            (b"", None),
        ] {
            assert_eq!(fault_in(read).as_deref(), fault, "{read:?}");
        }
    }

    #[test]
    fn only_answers_that_no_route_gave_are_bare() {
        assert_eq!(bare_refusal(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"), Some(&b"400"[..]));
        for written in
            [&b"HTTP/1.1 400 Bad Request\r\nx-request-id: r\r\n\r\n"[..], b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP", b"{}"]
        {
            assert_eq!(bare_refusal(written), None);
        }
    }
}
