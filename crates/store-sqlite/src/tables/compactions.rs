//! The tables `compactions` and `carried`.

use herma_model::compaction::MadeBy;
use herma_model::{Seq, Usage};
use rusqlite::{Connection, params};

use super::{insert, table};
use crate::failure::{StoreResult, Translate};
use crate::lineage::Lineage;

table! {
    /// A new row of the ledger.
    CompactionColumns<'a> in "compactions" {
        tenant_pk: i64,
        conversation_pk: i64,
        id: [u8; 16],
        action: &'a str,
        mode: &'a str,
        trigger: &'a str,
        made_by: &'a str = MadeBy::Herma.as_str(),
        outcome: &'a str,
        session_before_pk: i64,
        session_after_pk: i64,
        base_pk: Option<i64>,
        first_seq: i64,
        through_seq: i64,
        tail_session_pk: Option<i64>,
        summary_pk: Option<i64>,
        model: Option<&'a str>,
        tokens_before: i64,
        tokens_after: i64,
        input_tokens: i64,
        output_tokens: i64,
        cached_tokens: i64,
        reasoning_tokens: i64,
        duration_ms: i64,
        failure: Option<&'a str>,
        trimmed: bool,
        undoes_pk: Option<i64>,
        turn_pk: Option<i64>,
        created_at: i64,
    }
}

impl CompactionColumns<'_> {
    /// With the tokens that the summary cost.
    pub(crate) fn with_usage(self, usage: Usage) -> Self {
        Self {
            input_tokens: usage.input as i64,
            output_tokens: usage.output as i64,
            cached_tokens: usage.cached as i64,
            reasoning_tokens: usage.reasoning as i64,
            ..self
        }
    }
}

/// Adds a row of the ledger, and stores its key in its summary, if it has one.
pub(crate) fn add_compaction(connection: &Connection, row: &CompactionColumns<'_>) -> StoreResult<i64> {
    let key = insert(connection, row)?;
    if let Some(summary) = row.summary_pk {
        connection
            .prepare_cached("UPDATE messages SET compaction_pk = ?2 WHERE pk = ?1")
            .and_then(|mut update| update.execute([summary, key]))
            .translated()?;
    }
    Ok(key)
}

/// Stores which messages a compaction carries word for word. Returns the first place without a message.
pub(crate) fn carry(
    connection: &Connection,
    conversation: i64,
    lineage: &Lineage,
    compaction: i64,
    places: impl IntoIterator<Item = Seq>,
) -> StoreResult<Option<Seq>> {
    let keep = format!("INSERT INTO carried (compaction_pk, seq, message_pk) {MESSAGE_AT}");
    keep_places(connection, &keep, compaction, conversation, lineage, places)
}

/// Pins messages by their places. Returns the first place without a message.
pub(crate) fn pin(
    connection: &Connection,
    conversation: i64,
    lineage: &Lineage,
    places: impl IntoIterator<Item = Seq>,
) -> StoreResult<Option<Seq>> {
    let keep = format!("INSERT INTO pins (conversation_pk, seq, message_pk) {MESSAGE_AT}");
    keep_places(connection, &keep, conversation, conversation, lineage, places)
}

/// The message at a place. Most such messages are pinned already. The others are new, so the latest sessions are
/// searched first, and the cost does not grow with the number of sessions.
const MESSAGE_AT: &str = "SELECT ?1, ?3, message FROM (SELECT coalesce(
     (SELECT message_pk FROM pins WHERE conversation_pk = ?2 AND seq = ?3),
     (SELECT m.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?4 AND m.seq = ?3
      AND m.turn_pk > 0 ORDER BY s.pk DESC LIMIT 1)) AS message) WHERE message IS NOT NULL";

fn keep_places(
    connection: &Connection,
    statement: &str,
    keeper: i64,
    conversation: i64,
    lineage: &Lineage,
    places: impl IntoIterator<Item = Seq>,
) -> StoreResult<Option<Seq>> {
    let mut insert = connection.prepare_cached(statement).translated()?;
    let mut missing = None;
    for place in places {
        let values = params![keeper, conversation, place.0, lineage.holder(place.0)];
        if insert.execute(values).translated()? == 0 {
            missing = missing.or(Some(place));
        }
    }
    Ok(missing)
}
