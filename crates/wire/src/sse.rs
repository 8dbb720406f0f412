//! Server-sent events: frames of one line of data each.

use bytes::Bytes;

use crate::error::ErrorBody;
use crate::json::Writer;
use crate::session::SessionObject;

/// The frame that ends a stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";
/// The comment that ends a stream whose last event says so itself.
pub const CLOSED: &[u8] = b": stream closed\n\n";
/// A comment that keeps a waiting connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One event of a numbered stream: a whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number, by which a reader can go on later.
    pub number: u64,
    /// The frame.
    pub bytes: Bytes,
}

/// What a frame of data begins with.
pub(crate) const DATA: &[u8] = b"data: ";
/// What a frame ends with.
pub(crate) const END: &[u8] = b"\n\n";

/// The frame with which a stream fails; the SDKs raise it as an API error.
pub fn error_frame(error: &ErrorBody) -> Bytes {
    let mut frame = DATA.to_vec();
    frame.extend_from_slice(&error.to_json());
    frame.extend_from_slice(END);
    Bytes::from(frame)
}

/// The frame that tells of a compaction. The SDKs do not know it, so it goes only to who asked for it.
pub fn compacted_frame(session: &SessionObject) -> Bytes {
    let mut writer = Writer::after(b"event: session.compacted\ndata: ", 512);
    writer.value(session);
    Bytes::from(writer.into_bytes(END))
}
