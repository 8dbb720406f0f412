//! Turns as they are stored.

use std::sync::Arc;

use herma_model::generation::{Finish, FinishReason};
use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{
    ConversationFacts, Message, ParentRelation, Resolution, SessionId, Timestamp, TurnFailure, TurnId, TurnState, Usage,
};
use herma_store::{Scope, TurnRecord};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Map;

use crate::failure::{Outcome, Translate};
use crate::rows::{self, FACTS, FACTS_JOINS, FACTS_WIDTH, MESSAGE, SESSION};

/// One turn with its outcome.
pub(crate) fn turn(connection: &Connection, scope: &Scope, id: TurnId) -> Outcome<Option<TurnRecord>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {FACTS}, t.pk, t.state, t.attempt, t.resolution, t.rotated, t.created_at, t.model, t.finish_reason, t.input_tokens, t.output_tokens,
             t.cached_tokens, t.reasoning_tokens, t.failure_code, t.failure_message, t.upstream_status
             FROM turns t JOIN conversations c ON c.pk = t.conversation_pk {FACTS_JOINS} WHERE t.id = ?1 AND t.tenant_pk = ?2"
        ))
        .and_then(|mut select| select.query_row(params![id.uuid().as_bytes(), scope.tenant.0], |row| read(row, id)).optional())
        .translated()?;
    let Some((key, mut record)) = found else { return Ok(None) };
    if !scope.keys.sees(record.facts.session_key.as_ref()) {
        return Ok(None);
    }
    if record.state == TurnState::Completed {
        record.answer = answer(connection, key)?;
        record.facts = Arc::new(as_it_was(connection, &record.facts, key)?);
    }
    Ok(Some(record))
}

fn read(row: &Row<'_>, id: TurnId) -> rusqlite::Result<(i64, TurnRecord)> {
    const AT: usize = FACTS_WIDTH;
    let state = rows::word(row, AT + 1, TurnState::parse)?;
    let usage = match (row.get::<_, Option<i64>>(AT + 8)?, row.get::<_, Option<i64>>(AT + 9)?) {
        (Some(input), Some(output)) => Some(Usage {
            input: input.unsigned_abs(),
            output: output.unsigned_abs(),
            cached: row.get::<_, i64>(AT + 10)?.unsigned_abs(),
            reasoning: row.get::<_, i64>(AT + 11)?.unsigned_abs(),
        }),
        _ => None,
    };
    let finish = rows::optional_word(row, AT + 7, FinishReason::parse)?
        .filter(|_| state == TurnState::Completed)
        .map(|reason| -> rusqlite::Result<Finish> {
            Ok(Finish { reason, usage, model: row.get(AT + 6)?, extra: Map::new() })
        })
        .transpose()?;
    let failure = rows::optional_word(row, AT + 12, FailureCode::parse)?
        .filter(|_| state.is_unanswered())
        .map(|code| -> rusqlite::Result<TurnFailure> {
            Ok(TurnFailure {
                code,
                message: row.get(AT + 13)?,
                upstream_status: row.get(AT + 14)?,
                retry_after_seconds: None,
            })
        })
        .transpose()?;
    let record = TurnRecord {
        id,
        state,
        attempt: row.get(AT + 2)?,
        facts: Arc::new(rows::conversation(row)?.facts),
        resolution: rows::word(row, AT + 3, Resolution::parse)?,
        rotated: row.get(AT + 4)?,
        started_at: Timestamp(row.get(AT + 5)?),
        finish,
        failure,
        answer: Vec::new(),
    };
    Ok((row.get(AT)?, record))
}

/// A conversation as it was at the end of a turn, whatever was compacted since.
fn as_it_was(connection: &Connection, now: &ConversationFacts, turn: i64) -> Outcome<ConversationFacts> {
    let head = connection
        .prepare_cached(&format!(
            "SELECT {SESSION} FROM turns t JOIN sessions s ON s.pk = t.session_pk WHERE t.pk = ?1"
        ))
        .and_then(|mut select| select.query_row([turn], |row| rows::session(row, 0)))
        .translated()?;
    let (count, mode) = connection
        .prepare_cached(
            "SELECT count(*), max(m.seq), k.mode FROM turns t JOIN compactions k ON k.conversation_pk = t.conversation_pk
             JOIN messages m ON m.pk = k.summary_pk WHERE t.pk = ?1 AND m.seq < t.answer_seq",
        )
        .and_then(|mut select| {
            select.query_row([turn], |row| Ok((row.get(0)?, rows::optional_word(row, 2, CompactionMode::parse)?)))
        })
        .translated()?;
    let moved_from = |(parent, relation): &(SessionId, ParentRelation)| {
        (*relation == ParentRelation::Continuation).then(|| parent.clone())
    };
    Ok(ConversationFacts {
        previous: head.parent.as_ref().and_then(moved_from),
        compaction_count: count,
        compaction_mode: mode,
        head,
        ..now.clone()
    })
}

fn answer(connection: &Connection, turn: i64) -> Outcome<Vec<Arc<Message>>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM turns t JOIN sessions s ON s.pk = t.session_pk
             JOIN messages m ON m.session_pk = t.session_pk AND m.seq BETWEEN t.answer_seq AND t.last_seq WHERE t.pk = ?1 ORDER BY m.seq"
        ))
        .translated()?;
    select.query_map([turn], |row| rows::message(row).map(Arc::new)).and_then(Iterator::collect).translated()
}

/// Turns of one process that somebody asked to stop.
pub(crate) fn stop_requests(connection: &Connection, turns: &[i64]) -> Outcome<Vec<TurnId>> {
    let mut select = connection
        .prepare_cached("SELECT id FROM turns WHERE pk = ?1 AND stop_requested IS NOT NULL AND state = 'running'")
        .translated()?;
    let mut asked = Vec::new();
    for turn in turns {
        let id = select.query_row([turn], |row| rows::uuid(row, 0)).optional().translated()?;
        asked.extend(id.map(TurnId::from_uuid));
    }
    Ok(asked)
}
