//! New ids and the clock: the only sources of values that differ every time.

use std::time::{SystemTime, UNIX_EPOCH};

use herma_model::{CompactionId, ConversationId, MemoryId, MessageId, SessionId, Timestamp, TurnId};
use uuid::Uuid;

/// The time by this machine's clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn conversation() -> ConversationId {
    ConversationId::from_uuid(Uuid::now_v7())
}

pub(crate) fn session() -> SessionId {
    SessionId::from_uuid(Uuid::now_v7())
}

pub(crate) fn turn() -> TurnId {
    TurnId::with_room(Uuid::now_v7())
}

pub(crate) fn compaction() -> CompactionId {
    CompactionId::from_uuid(Uuid::now_v7())
}

/// The id of a summary. Messages of a turn have ids that are derived from the turn.
pub(crate) fn summary() -> MessageId {
    MessageId::from_uuid(Uuid::now_v7())
}

pub(crate) fn memory() -> MemoryId {
    MemoryId::from_uuid(Uuid::now_v7())
}
