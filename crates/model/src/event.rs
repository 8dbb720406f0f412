//! What happens to conversations, as it is told to those who follow it: a word, a place among the others, and JSON.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::compaction::CompactionAction;
use crate::ids::{CompactionId, ConversationId, SessionId};
use crate::kind::{EndReason, stored_enum};
use crate::provenance::{CompactionMode, ConversationFacts, Provenance};

stored_enum!(
    /// What an event tells.
    EventKind {
        /// A conversation is there. One of every conversation.
        Created = "session.created",
        /// It is a branch. Comes after its `session.created`.
        Branched = "session.branched",
        /// Its head is another session.
        HeadMoved = "session.head_moved",
        /// What the model is shown of it was summarised, or given back.
        Compacted = "session.compacted",
        /// It has another title, or none any more.
        Renamed = "session.renamed",
        /// It was put away, or taken out again.
        Archived = "session.archived",
        /// It takes no turns any more.
        Ended = "session.ended",
        /// It takes turns again.
        Reopened = "session.reopened",
        /// It is gone. Nothing else is told of it any more.
        Deleted = "session.deleted",
    }
);

/// Where an event stands among those of its tenant. As text, a number of the feed, a hyphen and the number of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Tells one tenant of one database from others, so that an id that was kept for longer than its database is known as foreign.
    pub feed: u64,
    /// Counts from 1 on, with gaps.
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
        // Only what we have written ourselves.
        if id.to_string() == text { Ok(id) } else { Err(InvalidEventId) }
    }
}

/// Something that has happened to a conversation, with what there is to say of it beside what the conversation is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Happening<'a> {
    /// It was made.
    Created {
        /// What people call it.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    /// It was made as a branch.
    Branched,
    /// Its head moved.
    HeadMoved,
    /// A compaction was made or undone.
    Compacted {
        /// The row of the ledger that says more.
        compaction_id: CompactionId,
        /// Which of both.
        action: CompactionAction,
        /// What the compaction did to the session.
        mode: CompactionMode,
    },
    /// Its title is another.
    Renamed {
        /// What people call it now.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    /// It was put away or taken out again.
    Archived {
        /// Which of both.
        archived: bool,
    },
    /// It was ended.
    Ended {
        /// Why.
        end_reason: EndReason,
    },
    /// It was opened again.
    Reopened,
    /// It is gone.
    Deleted,
}

impl<'a> Happening<'a> {
    /// The word for it.
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

    /// What is told of it, as JSON: the provenance of the head after it, and what it says itself. Of what is gone, its ids alone.
    pub fn of(self, conversation: &ConversationFacts) -> EventData<'a> {
        let about = match self {
            Self::Deleted => About::Gone { session_id: conversation.head.id.clone(), conversation_id: conversation.id },
            _ => About::There(Box::new(Provenance::of(conversation, &conversation.head))),
        };
        EventData { about, what: self }
    }
}

/// What an event tells, as JSON. What does not apply is absent, never null.
#[derive(Debug, Serialize)]
pub struct EventData<'a> {
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    what: Happening<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum About {
    There(Box<Provenance>),
    Gone { session_id: SessionId, conversation_id: ConversationId },
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
    fn an_event_says_what_applies_and_of_what_is_gone_its_ids() {
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
        let told = |what: Happening<'_>| serde_json::to_value(what.of(&conversation)).unwrap();
        let there = serde_json::to_value(Provenance::of(&conversation, &conversation.head)).unwrap();
        let with = |name: &str, value: serde_json::Value| {
            let mut with = there.clone();
            with[name] = value;
            with
        };
        for what in [
            Happening::Created { title: None },
            Happening::Branched,
            Happening::HeadMoved,
            Happening::Renamed { title: None },
            Happening::Reopened,
        ] {
            assert_eq!(told(what), there, "{what:?}");
        }
        assert_eq!(told(Happening::Renamed { title: Some("Sea") }), with("title", json!("Sea")));
        assert_eq!(told(Happening::Archived { archived: false }), with("archived", json!(false)));
        assert_eq!(told(Happening::Ended { end_reason: EndReason::Ended }), with("end_reason", json!("ended")));
        let gone = json!({"session_id": "s", "conversation_id": "conv_00000000000000000000000000000001"});
        assert_eq!(told(Happening::Deleted), gone);
    }
}
