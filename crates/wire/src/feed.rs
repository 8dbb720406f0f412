//! `GET /api/events`: the events of conversations, as server-sent events.
//!
//! A frame has an id, a name and one line of JSON that repeats the name. A frame without data only says how far the
//! stream has come: a browser stores its id and shows nothing.

use bytes::Bytes;
use herma_model::{EventId, EventKind, Timestamp};

use crate::json::Writer;
use crate::resource::rfc3339;
use crate::sse;

/// The name of the frame that reports missed events.
const GAP: &str = "session.gap";
/// What the client should do about missed events.
const READ_AGAIN: &str = "what happened between missed_after and resumed_after is no longer kept, or \
    missed_after is no id of this feed: read GET /api/sessions again";

/// The frame of one event. `data` is its stored JSON object, which must have at least one field.
pub fn event(id: EventId, kind: EventKind, at: Timestamp, data: &str) -> Bytes {
    frame(id, kind.as_str(), data.len(), |writer| {
        writer.field("at", &rfc3339(at));
        writer.raw_fields(data);
    })
}

/// Reports missed events: the stream continues after `resumed_after`, not after `missed_after`.
pub fn gap(missed_after: EventId, resumed_after: EventId) -> Bytes {
    frame(resumed_after, GAP, READ_AGAIN.len(), |writer| {
        writer.field("missed_after", &missed_after);
        writer.field("resumed_after", &resumed_after);
        writer.field("message", READ_AGAIN);
    })
}

/// A frame that keeps a quiet stream open and says up to which event the stream has come.
pub fn place(id: EventId) -> Bytes {
    Bytes::from(format!(": keep-alive\nid: {id}\n\n"))
}

fn frame(id: EventId, name: &str, capacity: usize, fields: impl FnOnce(&mut Writer)) -> Bytes {
    let mut writer = Writer::after(format!("id: {id}\nevent: {name}\ndata: ").as_bytes(), 160 + capacity);
    writer.open_object();
    writer.field("event", name);
    fields(&mut writer);
    writer.close_object();
    Bytes::from(writer.into_bytes(sse::END))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: EventId = EventId { feed: 0xfeed, number: 7 };

    #[test]
    fn an_event_is_one_frame_with_its_stored_data() {
        let frame = event(ID, EventKind::Renamed, Timestamp(50), r#"{"session_id":"s","title":"a\nb"}"#);
        let expected = "id: feed-7\nevent: session.renamed\ndata: {\"event\":\"session.renamed\",\"at\":\"1970-01-01T00:00:00.050Z\",\"session_id\":\"s\",\"title\":\"a\\nb\"}\n\n";
        assert_eq!(frame, expected.as_bytes());
    }

    #[test]
    fn a_gap_says_from_where_to_where() {
        let frame = gap(EventId { feed: 1, number: 2 }, ID);
        let text = String::from_utf8(frame.to_vec()).unwrap();
        let (head, data) = text.split_once("data: ").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(head, "id: feed-7\nevent: session.gap\n");
        assert_eq!((&data["event"], &data["missed_after"]), (&GAP.into(), &"1-2".into()));
        assert_eq!(data["resumed_after"], "feed-7");
    }

    #[test]
    fn a_place_has_an_id_and_no_data() {
        assert_eq!(place(ID), &b": keep-alive\nid: feed-7\n\n"[..]);
        assert_eq!(sse::data(&place(ID)), None);
    }
}
