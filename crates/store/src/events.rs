//! Events of conversations, in the order in which they happened.

use std::sync::Arc;

use herma_model::{EventId, EventKind, Timestamp};

/// How many of a tenant's newest events are kept. Events that were removed with their conversation count too.
pub const KEPT_EVENTS: u64 = 10_000;

/// Where a page of events begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsFrom {
    /// With the next event.
    Now,
    /// With the oldest event that is kept.
    Oldest,
    /// After this event, which the reader has.
    After(EventId),
}

/// A change of a conversation. The change writes it in its own transaction. Messages of a turn are not events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// A reader continues after this id.
    pub id: EventId,
    /// What it is.
    pub kind: EventKind,
    /// When it happened.
    pub at: Timestamp,
    /// The event as a JSON object. `herma_model` defines its fields.
    pub data: Arc<str>,
}

/// A page of events for one caller. All of them are on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// Set if the page could not begin at the reader's place: events after it are no longer kept, or it belongs to
    /// another feed. The page then begins after this place, and the reader has to read all conversations again.
    pub gap: Option<EventId>,
    /// Oldest first.
    pub events: Vec<Event>,
    /// Where the next page begins. Events that the caller may not see are skipped.
    pub through: EventId,
    /// Whether there are more events now.
    pub has_more: bool,
}
