//! Reads server-sent events from bytes that arrive in pieces.
//!
//! The frames do not depend on where the bytes are cut, even inside a character. A limit bounds the memory that
//! a line without end can take.

use memchr::{memchr, memchr2};

/// The longest line, and the longest data of one frame, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The event's name; empty if it has none.
    pub(crate) name: &'a [u8],
    /// Its data lines, joined by line feeds.
    pub(crate) data: &'a [u8],
}

/// A line or a frame is longer than the limit. Nothing more can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub(crate) struct Decoder {
    limit: usize,
    buffer: Vec<u8>,
    /// Bytes of the buffer that belong to finished lines.
    taken: usize,
    /// How far the buffer was searched for line ends.
    scanned: usize,
    after_carriage_return: bool,
    at_start: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    yielded: bool,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            taken: 0,
            scanned: 0,
            after_carriage_return: false,
            at_start: true,
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            yielded: false,
        }
    }

    /// Takes the next bytes of the stream. Call [`Decoder::next_frame`] until it returns `None` before the next push.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.scanned -= self.taken;
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame in the pushed bytes.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, TooLong> {
        self.forget_yielded();
        while let Some((start, end)) = self.next_line()? {
            if self.take_line(start, end)? {
                self.yielded = true;
                return Ok(Some(Frame { name: &self.name, data: &self.data }));
            }
        }
        Ok(None)
    }

    /// The frame that the end of the stream left unfinished, if it has data. Some servers forget the last empty line.
    pub(crate) fn finish(&mut self) -> Result<Option<Frame<'_>>, TooLong> {
        self.forget_yielded();
        let (start, end) = (self.taken, self.buffer.len());
        self.taken = end;
        self.scanned = end;
        if start < end {
            self.take_line(start, end)?;
        }
        self.yielded = self.has_data;
        Ok(self.has_data.then_some(Frame { name: &self.name, data: &self.data }))
    }

    fn forget_yielded(&mut self) {
        if std::mem::take(&mut self.yielded) {
            self.name.clear();
            self.data.clear();
            self.has_data = false;
        }
    }

    fn next_line(&mut self) -> Result<Option<(usize, usize)>, TooLong> {
        if self.after_carriage_return
            && let Some(next) = self.buffer.get(self.taken)
        {
            self.taken += usize::from(*next == b'\n');
            self.scanned = self.scanned.max(self.taken);
            self.after_carriage_return = false;
        }
        let start = self.taken;
        let line_end = memchr2(b'\n', b'\r', &self.buffer[self.scanned..]);
        let end = line_end.map_or(self.buffer.len(), |offset| self.scanned + offset);
        if end - start > self.limit {
            return Err(TooLong);
        }
        if line_end.is_none() {
            self.scanned = end;
            return Ok(None);
        }
        self.after_carriage_return = self.buffer[end] == b'\r';
        self.taken = end + 1;
        self.scanned = self.taken;
        Ok(Some((start, end)))
    }

    /// Takes a line. Returns whether it completes a frame.
    fn take_line(&mut self, start: usize, end: usize) -> Result<bool, TooLong> {
        let mut line = &self.buffer[start..end];
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            if !self.has_data {
                self.name.clear();
            }
            return Ok(self.has_data);
        }
        let colon = memchr(b':', line);
        let (field, value) = colon.map_or((line, &line[line.len()..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.data.len() + value.len() > self.limit {
                    return Err(TooLong);
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Frames = (Vec<(String, String)>, bool);

    fn frames(pieces: &[&[u8]], limit: usize) -> Frames {
        let mut decoder = Decoder::new(limit);
        let mut seen = Vec::new();
        let mut note = |frame: Frame<'_>| {
            seen.push((
                String::from_utf8_lossy(frame.name).into_owned(),
                String::from_utf8_lossy(frame.data).into_owned(),
            ));
        };
        let mut read = || {
            for piece in pieces {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame()? {
                    note(frame);
                }
            }
            if let Some(frame) = decoder.finish()? {
                note(frame);
            }
            Ok::<(), TooLong>(())
        };
        let readable = read().is_ok();
        (seen, readable)
    }

    #[test]
    fn frames_follow_the_event_stream_format() {
        for (text, expected) in [
            ("data: a\n\ndata: b\n\n", vec![("", "a"), ("", "b")]),
            ("data: a\r\n\r\ndata: b\r\rdata:c\n\n", vec![("", "a"), ("", "b"), ("", "c")]),
            ("\u{feff}data: a\n\n", vec![("", "a")]),
            ("data: \u{feff}a\n\n\u{feff}data: b\n\n", vec![("", "\u{feff}a")]),
            (": note\n:\n\ndata: a\n: in between\ndata:  b\n\n", vec![("", "a\n b")]),
            ("event: error\ndata: {}\nid: 7\nretry: 5\nother: x\n\ndata: a\n\n", vec![("error", "{}"), ("", "a")]),
            ("event: lonely\n\ndata: a\n\n", vec![("", "a")]),
            ("data\n\n", vec![("", "")]),
            ("data: a\n\ndata: [DONE]", vec![("", "a"), ("", "[DONE]")]),
            ("data: a\n", vec![("", "a")]),
            ("\n\n\n", vec![]),
            ("", vec![]),
        ] {
            let (seen, readable) = frames(&[text.as_bytes()], 1000);
            let seen: Vec<_> = seen.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(seen, expected, "{text:?}");
            assert!(readable);
        }
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_is_complete() {
        let (seen, readable) = frames(&[b"data: a\n\n", &[b'x'; 40]], 32);
        assert_eq!((seen.len(), readable), (1, false));
    }

    #[test]
    fn data_lines_are_bounded_together() {
        let text = "data: 0123456789\n".repeat(4);
        assert!(!frames(&[text.as_bytes()], 32).1);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "data: ", "data:", "event: x", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", ": c", ":", " ", "é😀",
                    "\u{feff}", "{\"a\":1}", "[DONE]", "a long line that meets the limit",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(0usize..400, 0..40),
        ) {
            let text = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            for limit in [40, 10_000] {
                let whole = frames(&[&text], limit);
                prop_assert_eq!(&frames(&pieces, limit), &whole);
                prop_assert_eq!(&frames(&bytes, limit), &whole);
            }
        }
    }
}
