//! Events of conversations, as followers get them: a kind, an id and JSON.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::compaction::CompactionAction;
use crate::ids::{CompactionId, ConversationId, SessionId};
use crate::kind::{EndReason, stored_enum};
use crate::provenance::{CompactionMode, ConversationFacts, Provenance};

stored_enum!(
    /// The kind of an event.
    EventKind {
        /// A conversation was created. Every conversation has exactly one such event.
        Created = "session.created",
        /// It is a branch. This event comes after its `session.created`.
        Branched = "session.branched",
        /// Its head is another session.
        HeadMoved = "session.head_moved",
        /// It was compacted, or a compaction was undone.
        Compacted = "session.compacted",
        /// Its title was changed or removed.
        Renamed = "session.renamed",
        /// It was archived, or is not archived any more.
        Archived = "session.archived",
        /// It takes no turns any more.
        Ended = "session.ended",
        /// It takes turns again.
        Reopened = "session.reopened",
        /// It was deleted. This is its last event.
        Deleted = "session.deleted",
    }
);

/// The position of an event among those of its tenant. As text: the feed in hex, a hyphen, the number of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Identifies one tenant of one database. So an id that a client kept from another database is recognised.
    pub feed: u64,
    /// Counts from 1, with gaps.
    pub number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.feed, self.number)
    }
}

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text is not the id of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an event")]
pub struct InvalidEventId;

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        let (feed, number) = text.split_once('-').ok_or(InvalidEventId)?;
        let feed = u64::from_str_radix(feed, 16).map_err(|_| InvalidEventId)?;
        let id = Self { feed, number: number.parse().map_err(|_| InvalidEventId)? };
        // Accepts only the exact form that `Display` writes.
        if id.to_string() == text { Ok(id) } else { Err(InvalidEventId) }
    }
}

/// An event of a conversation, with its data. The facts of the conversation come on top; see [`Self::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ConversationEvent<'a> {
    /// It was created.
    Created {
        /// Its title.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    /// It was created as a branch.
    Branched,
    /// Its head moved.
    HeadMoved,
    /// A compaction was made or undone.
    Compacted {
        /// The row of the compaction ledger.
        compaction_id: CompactionId,
        /// Whether it was made or undone.
        action: CompactionAction,
        /// How the compaction treated the session.
        mode: CompactionMode,
    },
    /// Its title was changed or removed.
    Renamed {
        /// Its new title.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    /// It was archived, or is not archived any more.
    Archived {
        /// Whether it is archived now.
        archived: bool,
    },
    /// It was ended.
    Ended {
        /// Why.
        end_reason: EndReason,
    },
    /// It was opened again.
    Reopened,
    /// It was deleted.
    Deleted,
}

impl<'a> ConversationEvent<'a> {
    /// The kind of the event.
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Created { .. } => EventKind::Created,
            Self::Branched => EventKind::Branched,
            Self::HeadMoved => EventKind::HeadMoved,
            Self::Compacted { .. } => EventKind::Compacted,
            Self::Renamed { .. } => EventKind::Renamed,
            Self::Archived { .. } => EventKind::Archived,
            Self::Ended { .. } => EventKind::Ended,
            Self::Reopened => EventKind::Reopened,
            Self::Deleted => EventKind::Deleted,
        }
    }

    /// The event as JSON: the provenance of the head after it, and its own data. A deleted conversation is named by its
    /// ids alone.
    pub fn of(self, conversation: &ConversationFacts) -> EventData<'a> {
        let subject = match self {
            Self::Deleted => {
                EventSubject::Deleted { session_id: conversation.head.id.clone(), conversation_id: conversation.id }
            }
            _ => EventSubject::Existing(Box::new(Provenance::of(conversation, &conversation.head))),
        };
        EventData { subject, event: self }
    }
}

/// An event as JSON. Fields that do not apply are absent, never null.
#[derive(Debug, Serialize)]
pub struct EventData<'a> {
    #[serde(flatten)]
    subject: EventSubject,
    #[serde(flatten)]
    event: ConversationEvent<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum EventSubject {
    Existing(Box<Provenance>),
    Deleted { session_id: SessionId, conversation_id: ConversationId },
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::kind::{CreatorKind, SessionKind};
    use crate::provenance::SessionFacts;

    #[test]
    fn an_id_reads_back_and_nothing_else_does() {
        for id in [EventId { feed: 0x19a_2b3c, number: 0 }, EventId { feed: u64::MAX, number: u64::MAX }] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "0", "7", "-", "a-", "-1", "a--1", "a-+1", "A-1", "0a-1", "a-01", "a-1 ", "g-1", "a-1-1"] {
            assert_eq!(text.parse::<EventId>(), Err(InvalidEventId), "{text:?}");
        }
    }

    #[test]
    fn an_event_has_the_provenance_of_its_conversation_and_a_deletion_has_only_ids() {
        let head = SessionFacts {
            id: SessionId::from_name("s"),
            kind: SessionKind::Main,
            parent: None,
            creator: CreatorKind::Api,
            reason: None,
            depth: 0,
        };
        let conversation = ConversationFacts {
            id: ConversationId::from_uuid(Uuid::from_u128(1)),
            root: head.id.clone(),
            head,
            previous: None,
            origin_kind: SessionKind::Main,
            session_key: None,
            compaction_mode: None,
            compaction_count: 0,
        };
        let json_of = |event: ConversationEvent<'_>| serde_json::to_value(event.of(&conversation)).unwrap();
        let provenance = serde_json::to_value(Provenance::of(&conversation, &conversation.head)).unwrap();
        let with = |name: &str, value: serde_json::Value| {
            let mut with = provenance.clone();
            with[name] = value;
            with
        };
        for event in [
            ConversationEvent::Created { title: None },
            ConversationEvent::Branched,
            ConversationEvent::HeadMoved,
            ConversationEvent::Renamed { title: None },
            ConversationEvent::Reopened,
        ] {
            assert_eq!(json_of(event), provenance, "{event:?}");
        }
        assert_eq!(json_of(ConversationEvent::Renamed { title: Some("Sea") }), with("title", json!("Sea")));
        assert_eq!(json_of(ConversationEvent::Archived { archived: false }), with("archived", json!(false)));
        assert_eq!(
            json_of(ConversationEvent::Ended { end_reason: EndReason::Ended }),
            with("end_reason", json!("ended"))
        );
        let ids = json!({"session_id": "s", "conversation_id": "conv_00000000000000000000000000000001"});
        assert_eq!(json_of(ConversationEvent::Deleted), ids);
    }
}
