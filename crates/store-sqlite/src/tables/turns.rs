//! The table `turns`.

use herma_model::Usage;
use herma_store::NewResponse;
use rusqlite::Connection;

use super::{insert, table};
use crate::failure::{StoreResult, Translate};

table! {
    /// A new turn. Without a key it gets the next one; see [`insert_turn`].
    TurnColumns<'a> in "turns" {
        pk: Option<i64>,
        tenant_pk: i64,
        id: [u8; 16],
        conversation_pk: i64,
        session_pk: i64,
        api: &'a str,
        state: &'a str,
        attempt: u32 = 1,
        fence: i64,
        owner: i64,
        priority: i64,
        resolution: &'a str,
        rotated: bool,
        fingerprint: &'a [u8],
        delivered: bool,
        stop_requested: Option<i64>,
        stop_kind: Option<&'a str>,
        brings_key: bool,
        first_seq: Option<i64>,
        answer_seq: Option<i64>,
        last_seq: Option<i64>,
        model: Option<&'a str>,
        finish_reason: Option<&'a str>,
        input_tokens: Option<i64>,
        output_tokens: Option<i64>,
        cached_tokens: Option<i64>,
        reasoning_tokens: Option<i64>,
        cache_write_tokens: Option<i64>,
        failure_code: Option<&'a str>,
        failure_message: Option<&'a str>,
        upstream_status: Option<u16>,
        created_at: i64,
        ended_at: Option<i64>,
        echo: Option<&'a str>,
        kept: bool,
        visible_while_queued: bool,
        record: Option<&'a str>,
        cut_off: bool,
        attempt_of: Option<[u8; 16]>,
        sdk_attempt: u32,
        joinable: bool,
        history: Option<[u8; 16]>,
        history_key: Option<i64>,
    }
}

impl<'a> TurnColumns<'a> {
    /// With the tokens that the model server counted.
    pub(crate) fn with_usage(self, usage: Option<Usage>) -> Self {
        Self {
            input_tokens: usage.map(|usage| usage.input as i64),
            output_tokens: usage.map(|usage| usage.output as i64),
            cached_tokens: usage.map(|usage| usage.cached as i64),
            reasoning_tokens: usage.map(|usage| usage.reasoning as i64),
            cache_write_tokens: usage.map(|usage| usage.cache_write as i64).filter(|tokens| *tokens > 0),
            ..self
        }
    }

    /// With the fields of the turn's response.
    pub(crate) fn with_response(self, response: Option<&'a NewResponse>) -> Self {
        Self {
            echo: response.map(|response| response.echo.as_ref()),
            kept: response.is_some_and(|response| response.kept),
            visible_while_queued: response.is_some_and(|response| response.visible_while_queued),
            ..self
        }
    }
}

/// Adds a turn, and returns its key.
pub(crate) fn insert_turn(connection: &Connection, columns: &TurnColumns<'_>) -> StoreResult<i64> {
    let key = columns.pk.map_or_else(|| next_turn(connection), Ok)?;
    insert(connection, &TurnColumns { pk: Some(key), ..*columns })
}

/// The key of the next turn. It is above those of all turns that were ever written or admitted, so that a late owner of
/// a deleted turn cannot take another one for its own.
pub(crate) fn next_turn(connection: &Connection) -> StoreResult<i64> {
    connection
        .prepare_cached(
            "SELECT 1 + max((SELECT last FROM turn_numbers), coalesce((SELECT max(pk) FROM turns), 0),
             coalesce((SELECT max(turn_pk) FROM admissions), 0))",
        )
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()
}
