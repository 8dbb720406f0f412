//! What has happened to conversations, in the order in which it happened.

use std::sync::Arc;

use herma_model::{EventId, EventKind, Timestamp};

/// How many events of a tenant are kept, those of deleted conversations included.
pub const KEPT_EVENTS: u64 = 10_000;

/// Where a page of events begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsFrom {
    /// With whatever happens next.
    Now,
    /// With the oldest that is kept.
    Oldest,
    /// After this one, which the reader has.
    After(EventId),
}

/// Something that has happened. Every change tells its own in its own transaction; what a turn says is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// By which a reader goes on after it.
    pub id: EventId,
    /// What it is.
    pub kind: EventKind,
    /// When it happened.
    pub at: Timestamp,
    /// What is told of it, as a JSON object: see [`herma_model::Happening::of`].
    pub data: Arc<str>,
}

/// Part of what has happened, for one caller, all of it on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// The place that the page begins after, if it is not where the reader wanted to go on: what happened between is no longer kept, or the
    /// reader's place is none of this feed. Everything has to be read again.
    pub gap: Option<EventId>,
    /// Oldest first.
    pub events: Vec<Event>,
    /// Where the next page begins. What the caller may not see lies before it as well.
    pub through: EventId,
    /// Whether there is more already.
    pub has_more: bool,
}
