//! Server-sent events: frames of one line of data each.

use bytes::Bytes;

use crate::error::ErrorBody;
use crate::json::Writer;
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
