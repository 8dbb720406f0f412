//! Converts rows to the types of `model`. Nothing here decides anything.

use std::sync::Arc;

use herma_model::provenance::CompactionMode;
use herma_model::{
    CallId, CompactionId, ConversationFacts, ConversationId, CreatorKind, Digest, Fence, KeyScope, Message, MessageId,
    MessageStatus, ParentRelation, Payload, Role, Seq, SessionFacts, SessionId, SessionKey, SessionKind, Summary,
    Timestamp, TurnId, Usage, Utterance,
};
use herma_store::{Entry, Revision};
use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type};
use uuid::Uuid;

/// A stored word that this program does not know: the row is damaged or from a newer schema.
pub(crate) fn unknown(column: usize, word: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        Type::Text,
        Box::new(FromSqlError::Other(format!("unknown value {word:?}").into())),
    )
}

/// Reads a column with one of the model's stored words.
pub(crate) fn word<T>(row: &Row<'_>, column: usize, parse: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    parse(text).ok_or_else(|| unknown(column, text))
}

/// Reads a column that may be empty with one of the model's stored words.
pub(crate) fn optional_word<T>(
    row: &Row<'_>,
    column: usize,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    row.get_ref(column)?.as_str_or_null()?.map(|text| parse(text).ok_or_else(|| unknown(column, text))).transpose()
}

/// Reads a 16-byte id.
pub(crate) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}

/// A shared text column.
pub(crate) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Arc<str>> {
    Ok(Arc::from(row.get_ref(column)?.as_str()?))
}

/// A shared text column that may be empty.
pub(crate) fn optional_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Arc<str>>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(Arc::from))
}

/// Reads a count that is stored as a signed integer.
pub(crate) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

/// Reads input, output, cached and reasoning tokens from a column on.
pub(crate) fn usage(row: &Row<'_>, from: usize) -> rusqlite::Result<Usage> {
    Ok(Usage {
        input: count(row, from)?,
        output: count(row, from + 1)?,
        cached: count(row, from + 2)?,
        reasoning: count(row, from + 3)?,
        cache_write: 0,
    })
}

/// Whether a caller can see a conversation, by the column with its session key.
pub(crate) fn sees(keys: &KeyScope, row: &Row<'_>, column: usize) -> rusqlite::Result<bool> {
    let key = row.get_ref(column)?.as_str_or_null()?.and_then(|key| SessionKey::parse(key).ok());
    Ok(keys.sees(key.as_ref()))
}

/// A conversation and its head.
#[derive(Clone)]
pub(crate) struct ConversationState {
    pub(crate) key: i64,
    pub(crate) version: i64,
    pub(crate) fence: i64,
    /// The fence of the last turn that ended.
    pub(crate) last_fence: i64,
    /// How many changes were not made by a turn.
    pub(crate) changes: i64,
    pub(crate) running: Option<i64>,
    pub(crate) waiting: i64,
    pub(crate) next_seq: i64,
    pub(crate) ended: bool,
    pub(crate) provisional: bool,
    pub(crate) head: i64,
    /// Whether a turn has the lease that is not written out, so that nothing else here shows it. Known only if
    /// [`crate::snapshot::load`] has read the state.
    pub(crate) has_admission: bool,
    pub(crate) facts: Arc<ConversationFacts>,
}

impl ConversationState {
    /// Its revision, as clients see it.
    pub(crate) fn revision(&self) -> Revision {
        let running = self.running.map(|_| (Fence(self.fence), Seq(self.next_seq)));
        Revision { last_turn: Fence(self.last_fence), changes: self.changes, running }
    }
}

/// Columns of [`session`], from `sessions s`.
pub(crate) const SESSION: &str = "s.id, s.kind, s.parent_id, s.parent_relation, s.creator_kind, s.reason, s.depth";

/// Reads a session key.
pub(crate) fn session_key(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<SessionKey>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.and_then(|key| SessionKey::parse(key).ok()))
}

/// Reads a conversation's id, origin kind, session key and compactions from a column on.
pub(crate) fn facts(
    row: &Row<'_>,
    from: usize,
    head: SessionFacts,
    root: SessionId,
    previous: Option<SessionId>,
) -> rusqlite::Result<ConversationFacts> {
    Ok(ConversationFacts {
        id: ConversationId::from_uuid(uuid(row, from)?),
        origin_kind: word(row, from + 1, SessionKind::parse)?,
        session_key: session_key(row, from + 2)?,
        compaction_mode: optional_word(row, from + 3, CompactionMode::parse)?,
        compaction_count: row.get(from + 4)?,
        head,
        root,
        previous,
    })
}

/// Reads [`SESSION`] from a column on.
pub(crate) fn session(row: &Row<'_>, from: usize) -> rusqlite::Result<SessionFacts> {
    let parent = row.get_ref(from + 2)?.as_str_or_null()?.map(SessionId::from_name);
    let relation = optional_word(row, from + 3, ParentRelation::parse)?;
    Ok(SessionFacts {
        id: SessionId::from_name(row.get_ref(from)?.as_str()?),
        kind: word(row, from + 1, SessionKind::parse)?,
        parent: parent.zip(relation),
        creator: word(row, from + 4, CreatorKind::parse)?,
        reason: optional_text(row, from + 5)?,
        depth: row.get(from + 6)?,
    })
}

/// Columns of [`message`], from `messages m` joined with `sessions s` and `turns t`.
pub(crate) const MESSAGE: &str = "m.id, m.seq, s.id, coalesce(t.attempt_of, t.id), m.attempt, m.created_at, m.role, \
     m.status, m.payload, m.extra, m.digest, m.calls, m.tokens";

/// How many columns [`MESSAGE`] and [`SUMMARY`] have.
pub(crate) const MESSAGE_WIDTH: usize = 13;

/// Columns of [`summary`], from `messages m` joined with `sessions s` and `compactions k`.
pub(crate) const SUMMARY: &str = "m.id, m.seq, s.id, k.id, m.attempt, m.created_at, m.role, m.status, m.payload,
     m.extra, m.digest, m.calls, m.tokens";

/// Columns of [`entry`], from `messages m` joined with `sessions s`, and left joined with `turns t` and `compactions
/// k`.
pub(crate) const ENTRY: &str = "m.id, m.seq, s.id, coalesce(t.attempt_of, t.id, k.id), m.attempt, m.created_at, \
     m.role, m.status, m.payload, m.extra, m.digest, m.calls, m.tokens, k.pk IS NOT NULL";

/// Reads [`MESSAGE`].
pub(crate) fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: MessageId::from_uuid(uuid(row, 0)?),
        seq: Seq(row.get(1)?),
        session: SessionId::from_name(row.get_ref(2)?.as_str()?),
        turn: TurnId::from_uuid(uuid(row, 3)?),
        attempt: row.get(4)?,
        created_at: Timestamp(row.get(5)?),
        said: utterance(row, 6)?,
    })
}

/// Reads [`SUMMARY`] from a column on.
pub(crate) fn summary(row: &Row<'_>, from: usize) -> rusqlite::Result<Summary> {
    Ok(Summary {
        id: MessageId::from_uuid(uuid(row, from)?),
        seq: Seq(row.get(from + 1)?),
        session: SessionId::from_name(row.get_ref(from + 2)?.as_str()?),
        compaction: CompactionId::from_uuid(uuid(row, from + 3)?),
        created_at: Timestamp(row.get(from + 5)?),
        said: utterance(row, from + 6)?,
    })
}

/// Reads [`ENTRY`].
pub(crate) fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    if row.get(MESSAGE_WIDTH)? {
        return summary(row, 0).map(Arc::new).map(Entry::Summary);
    }
    message(row).map(Arc::new).map(Entry::Said)
}

/// Reads role, status, payload, extra, digest, calls and tokens from a column on.
pub(crate) fn utterance(row: &Row<'_>, from: usize) -> rusqlite::Result<Utterance> {
    Ok(Utterance {
        role: word(row, from, Role::parse)?,
        status: word(row, from + 1, MessageStatus::parse)?,
        payload: Payload::from_json(text(row, from + 2)?),
        extra: optional_text(row, from + 3)?,
        digest: Digest(row.get(from + 4)?),
        calls: calls_from(row.get_ref(from + 5)?.as_str_or_null()?),
        tokens: row.get(from + 6)?,
    })
}

/// The stored form of a message's call ids: a JSON array, or nothing.
pub(crate) fn calls_to(calls: &[CallId]) -> Option<String> {
    if calls.is_empty() { None } else { serde_json::to_string(calls).ok() }
}

/// Reads [`calls_to`].
pub(crate) fn calls_from(stored: Option<&str>) -> Arc<[CallId]> {
    stored
        .and_then(|json| serde_json::from_str::<Vec<String>>(json).ok())
        .map_or_else(|| Arc::from([]), |ids| ids.into_iter().map(CallId::from).collect())
}

/// The stored form of system messages: a JSON array of payload texts.
pub(crate) fn system_to(system: &[Payload]) -> String {
    serde_json::Value::from_iter(system.iter().map(Payload::as_json)).to_string()
}

/// Reads [`system_to`].
pub(crate) fn system_from(stored: Option<&str>) -> Arc<[Payload]> {
    stored
        .and_then(|json| serde_json::from_str::<Vec<String>>(json).ok())
        .map_or_else(|| Arc::from([]), |texts| texts.into_iter().map(Payload::from_json).collect())
}

/// What a turn's model calls have used, from these columns: input, output, cached, reasoning and cache-write tokens.
pub(crate) fn turn_usage(row: &Row<'_>, columns: [usize; 5]) -> rusqlite::Result<Option<Usage>> {
    let tokens = |column: usize| row.get::<_, Option<i64>>(column).map(|tokens| tokens.map(i64::unsigned_abs));
    let [input, output, cached, reasoning, cache_write] = columns;
    let (Some(input), Some(output)) = (tokens(input)?, tokens(output)?) else { return Ok(None) };
    Ok(Some(Usage {
        input,
        output,
        cached: tokens(cached)?.unwrap_or(0),
        reasoning: tokens(reasoning)?.unwrap_or(0),
        cache_write: tokens(cache_write)?.unwrap_or(0),
    }))
}
