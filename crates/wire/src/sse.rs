//! Server-sent events: frames of one line of data each.

use std::io::Write;

use bytes::Bytes;

use crate::error::ErrorBody;
use crate::json::{Writer, write_text};
use crate::session::SessionObject;

/// The frame that ends a stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";
/// The comment that ends a stream whose last event already says that it ended.
pub const CLOSED: &[u8] = b": stream closed\n\n";
/// A comment that keeps a waiting connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One event of a numbered stream: a whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number. A reader can resume after it.
    pub number: u64,
    /// The frame.
    pub bytes: Bytes,
}

/// What a frame of data begins with.
pub(crate) const DATA: &[u8] = b"data: ";
/// What a frame ends with.
pub(crate) const END: &[u8] = b"\n\n";

/// Frames that differ in a number and a text alone. Only those two are written anew for each frame.
pub(crate) struct TextFrames {
    /// What stands before the number. With no number, what stands before the text.
    pub(crate) head: Vec<u8>,
    /// What stands between the number and the text.
    pub(crate) middle: Vec<u8>,
    /// What stands after the text, without the end of the frame.
    pub(crate) tail: &'static str,
}

impl TextFrames {
    /// Writes a frame.
    pub(crate) fn write(&self, number: Option<u64>, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        if let Some(number) = number {
            // Writing to a buffer cannot fail.
            let _ = write!(out, "{number}");
        }
        out.extend_from_slice(&self.middle);
        write_text(text, out);
        out.extend_from_slice(self.tail.as_bytes());
        out.extend_from_slice(END);
    }

    /// Writes a frame for each text, numbered from `number` on, except those up to `after`. Returns the next number.
    pub(crate) fn write_numbered<'a>(
        &self,
        number: u64,
        texts: impl Iterator<Item = &'a str>,
        after: Option<u64>,
        out: &mut Vec<u8>,
    ) -> u64 {
        texts.zip(number..).fold(number, |_, (text, number)| {
            if after.is_none_or(|after| number > after) {
                self.write(Some(number), text, out);
            }
            number + 1
        })
    }
}

/// Adds frames to a buffer, except those up to the number `after`.
pub fn write_frames(frames: &[Frame], after: Option<u64>, out: &mut Vec<u8>) {
    for frame in frames.iter().filter(|frame| after.is_none_or(|after| frame.number > after)) {
        out.extend_from_slice(&frame.bytes);
    }
}

/// The single frames of bytes that have only whole frames.
pub fn split(frames: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut start = 0;
    let ends = frames.windows(END.len()).zip(END.len()..).filter(|(bytes, _)| *bytes == END).map(|(_, end)| end);
    ends.map(move |end| frames.slice(std::mem::replace(&mut start, end)..end))
}

/// The frame with which a stream fails. The SDKs raise it as an API error.
pub fn error_frame(error: &ErrorBody) -> Bytes {
    Bytes::from([DATA, &error.to_json(), END].concat())
}

/// The data of a frame. `None` if the frame is a comment.
pub fn data(frame: &Bytes) -> Option<Bytes> {
    let from = frame.windows(DATA.len()).position(|window| window == DATA)? + DATA.len();
    Some(frame.slice(from..frame.len().saturating_sub(END.len())))
}

/// A named event with one line of JSON.
pub fn event(kind: &str, json: &str) -> Bytes {
    Bytes::from(format!("event: {kind}\ndata: {json}\n\n"))
}

/// The frame that reports a compaction. The SDKs do not know it, so only clients that asked for it get it.
pub fn compacted_frame(session: &SessionObject) -> Bytes {
    let mut writer = Writer::after(b"event: session.compacted\ndata: ", 512);
    writer.value(session);
    Bytes::from(writer.into_bytes(END))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_after_its_type_and_ends_its_frame() {
        let frame = event("error", r#"{"type":"error"}"#);
        assert_eq!(frame, "event: error\ndata: {\"type\":\"error\"}\n\n");
        assert_eq!(data(&frame).as_deref(), Some(&br#"{"type":"error"}"#[..]));
    }

    #[test]
    fn frames_in_one_buffer_are_told_apart() {
        let frames = [KEEP_ALIVE, b"event: a\ndata: {\"b\":\"\\n\\n\"}\n\n", DONE];
        assert_eq!(split(&Bytes::from(frames.concat())).collect::<Vec<_>>(), frames);
        assert_eq!(split(&Bytes::new()).count(), 0);
    }

    #[test]
    fn the_data_of_a_frame_comes_without_its_field_name() {
        for (frame, said) in [
            (&b"data: {}\n\n"[..], Some(&b"{}"[..])),
            (b"event: a\ndata: {\"b\": \"data: c\"}\n\n", Some(b"{\"b\": \"data: c\"}")),
            (DONE, Some(b"[DONE]")),
            (KEEP_ALIVE, None),
        ] {
            assert_eq!(data(&Bytes::from_static(frame)).as_deref(), said, "{frame:?}");
        }
    }
}
