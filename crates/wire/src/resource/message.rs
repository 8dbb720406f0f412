//! An entry of the transcript, as `GET /api/sessions/{alias}/messages` shows it: a message or a summary.

use herma_model::{
    CompactionId, Message, MessageId, OwnCall, Seq, SessionId, Summary, Timestamp, TurnId, TurnState, Utterance,
};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::rfc3339;
use crate::chat::Extra;
use crate::json::Object;

/// Fields of the row that no payload may set.
const OWN: [&str; 17] = [
    "id",
    "object",
    "seq",
    "role",
    "status",
    "kind",
    "session_id",
    "turn_id",
    "turn_status",
    "compaction_id",
    "pinned",
    "rewound",
    "created_at",
    "extra",
    "own_calls",
    "tool_status",
    "duration_ms",
];

/// One entry: its own fields, the fields of its payload, and under `extra` what a model server added.
#[derive(Debug, Clone, Copy)]
pub struct MessageRow<'a> {
    id: MessageId,
    seq: Seq,
    session: &'a SessionId,
    created_at: Timestamp,
    said: &'a Utterance,
    written_by: WrittenBy,
    pinned: bool,
    rewound: bool,
}

/// What wrote an entry.
#[derive(Debug, Clone, Copy)]
enum WrittenBy {
    /// A turn, and its state if that is known.
    Turn(TurnId, Option<TurnState>),
    /// A compaction: the entry is its summary.
    Compaction(CompactionId),
}

impl MessageRow<'_> {
    /// The same row, with the state of its turn. A summary has no turn and stays as it is.
    #[must_use]
    pub const fn turn_status(self, state: Option<TurnState>) -> Self {
        let written_by = match self.written_by {
            WrittenBy::Turn(turn, _) => WrittenBy::Turn(turn, state),
            by @ WrittenBy::Compaction(_) => by,
        };
        Self { written_by, ..self }
    }

    /// The same row, pinned or not. Every compaction keeps a pinned message word for word.
    #[must_use]
    pub const fn pinned(self, pinned: bool) -> Self {
        Self { pinned, ..self }
    }

    /// The same row, rewound or not. A rewind takes entries out of the model's view.
    #[must_use]
    pub const fn rewound(self, rewound: bool) -> Self {
        Self { rewound, ..self }
    }
}

impl<'a> From<&'a Message> for MessageRow<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            id: message.id,
            seq: message.seq,
            session: &message.session,
            created_at: message.created_at,
            said: &message.said,
            written_by: WrittenBy::Turn(message.turn, None),
            pinned: false,
            rewound: false,
        }
    }
}

impl<'a> From<&'a Summary> for MessageRow<'a> {
    fn from(summary: &'a Summary) -> Self {
        Self {
            id: summary.id,
            seq: summary.seq,
            session: &summary.session,
            created_at: summary.created_at,
            said: &summary.said,
            written_by: WrittenBy::Compaction(summary.compaction),
            pinned: false,
            rewound: false,
        }
    }
}

/// A call of one of Herma's own tools.
#[derive(serde::Serialize)]
struct OwnCallRow<'a> {
    id: &'a str,
    server: &'a str,
    tool: &'a str,
}

impl<'a> From<&'a OwnCall> for OwnCallRow<'a> {
    fn from(call: &'a OwnCall) -> Self {
        Self { id: &call.id, server: &call.server, tool: &call.tool }
    }
}

impl Serialize for MessageRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = self.said;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("id", &self.id)?;
        row.serialize_entry("object", "message")?;
        row.serialize_entry("seq", &self.seq.0)?;
        row.serialize_entry("role", &said.role)?;
        if let Ok(mut payload) = Object::from_text(said.payload.as_json()) {
            row.serialize_entry("content", &payload.take("content"))?;
            for (name, value) in payload.rest().filter(|(name, _)| !OWN.contains(name)) {
                row.serialize_entry(name, value)?;
            }
        }
        let extra = Extra::of(said).flattened();
        if !extra.is_empty() {
            row.serialize_entry("extra", &extra)?;
        }
        let own = said.own_calls();
        if !own.is_empty() {
            row.serialize_entry("own_calls", &own.iter().map(OwnCallRow::from).collect::<Vec<_>>())?;
        }
        if let Some(end) = said.call_end() {
            row.serialize_entry("tool_status", &end.status)?;
            row.serialize_entry("duration_ms", &end.duration_ms)?;
        }
        row.serialize_entry("status", &said.status)?;
        row.serialize_entry("session_id", self.session)?;
        match self.written_by {
            WrittenBy::Turn(turn, state) => {
                row.serialize_entry("turn_id", &turn)?;
                if let Some(state) = state {
                    row.serialize_entry("turn_status", &state)?;
                }
            }
            WrittenBy::Compaction(compaction) => {
                row.serialize_entry("kind", "summary")?;
                row.serialize_entry("compaction_id", &compaction)?;
            }
        }
        if self.pinned {
            row.serialize_entry("pinned", &true)?;
        }
        if self.rewound {
            row.serialize_entry("rewound", &true)?;
        }
        row.serialize_entry("created_at", &rfc3339(self.created_at))?;
        row.end()
    }
}
