//! Reads stored turns.

use std::sync::Arc;

use herma_model::generation::{Finish, FinishReason};
use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{
    CompactionId, ConversationFacts, Message, ParentRelation, Resolution, SessionId, SessionKey, Step, StopKind,
    Timestamp, TurnFailure, TurnId, TurnState,
};
use herma_store::{Scope, StatelessOutcome, StatelessTurn, StreamedOutput, StreamedPart, StreamedThrough, TurnRecord};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Map;

use crate::approvals::{self, AskedQuestion};
use crate::expiry;
use crate::failure::{StoreResult, Translate};
use crate::instance::NOBODY;
use crate::lineage::END;
use crate::memories::recalls;
use crate::queue;
use crate::rows::{self, MESSAGE, SESSION};
use crate::snapshot::{STATE, STATE_WIDTH, Sessions};
use crate::tables::{TurnColumns, insert_turn};
use crate::takeover;
use crate::waiting;

/// One turn with its outcome.
pub(crate) fn turn(connection: &Connection, scope: &Scope, id: TurnId) -> StoreResult<Option<TurnRecord>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {STATE}, t.pk, t.state, t.attempt, t.resolution, t.rotated, t.created_at, t.model, t.finish_reason,
             t.input_tokens, t.output_tokens, t.cached_tokens, t.reasoning_tokens, t.failure_code, t.failure_message,
             t.upstream_status, t.api, t.echo, t.kept, t.ended_at, t.first_seq IS NOT NULL, t.record, t.cut_off,
             t.stop_requested IS NOT NULL, t.stop_kind IS 'cancel', t.cache_write_tokens,
             t.state = 'running' AND t.owner = {NOBODY}, EXISTS (SELECT 1 FROM approvals a WHERE a.turn_pk = t.pk)
             FROM turns t
             JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.id = ?1 AND t.tenant_pk = ?2 AND t.attempt_of IS NULL AND c.deleted = 0"
        ))
        .and_then(|mut select| {
            select
                .query_row(params![id.uuid().as_bytes(), scope.tenant.0], |row| {
                    let (key, record) = read(connection, row, id)?;
                    Ok((key, record, row.get(STATE_WIDTH + 26)?))
                })
                .optional()
        })
        .translated()?;
    let Some((key, mut record, has_asked)) = found else { return Ok(None) };
    if !scope.keys.sees(record.facts.session_key.as_ref()) {
        return Ok(None);
    }
    if !record.has_begun {
        record.input = waiting::messages(connection, key)?;
        return Ok(Some(record));
    }
    record.input = input(connection, key)?;
    if record.facts.session_key.is_some() {
        record.recall = recalls::of_turn(connection, id)?.map(Arc::new);
    }
    let asked = if has_asked { approvals::of_turn(connection, key)? } else { Vec::new() };
    record.steps = steps(connection, key, record.state, &asked)?;
    if record.parked {
        record.pending = asked.into_iter().map(|asked| asked.approval).collect();
    }
    match record.state {
        TurnState::Completed => {}
        TurnState::Queued | TurnState::Running => {
            let appended = takeover::appended(connection, key)?;
            // Without an append, the stored record belongs to the previous attempt.
            if appended == 0 {
                record.shown.record.clear();
            }
            let (shown, parts) = takeover::journal(connection, key, 0)?;
            record.shown.add(&shown);
            record.streamed_through = StreamedThrough { attempt: record.attempt, appended, parts };
        }
        TurnState::Failed | TurnState::Cancelled | TurnState::Interrupted => {
            record.waits_again = !queue::attempts_of(connection, id)?.is_empty();
        }
    }
    if !record.state.is_live() {
        record.facts = Arc::new(as_it_was(connection, &record.facts, key, Moment::End)?);
    }
    let has_compacted = record.compactions().next().is_some();
    record.began = match has_compacted {
        false => Arc::clone(&record.facts),
        true => Arc::new(as_it_was(connection, &record.facts, key, Moment::Beginning)?),
    };
    Ok(Some(record))
}

/// The streamed output of a running turn after `since`, if that attempt still runs.
pub(crate) fn streamed_since(
    connection: &Connection,
    scope: &Scope,
    id: TurnId,
    since: StreamedThrough,
) -> StoreResult<Option<StreamedPart>> {
    let found: Option<(i64, Option<String>)> = connection
        .prepare_cached(
            "SELECT t.pk, c.session_key FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.id = ?1 AND t.tenant_pk = ?2 AND t.attempt_of IS NULL AND c.deleted = 0 AND t.state = 'running'
             AND t.attempt = ?3",
        )
        .and_then(|mut select| {
            let id = id.uuid();
            let wanted = params![id.as_bytes(), scope.tenant.0, since.attempt];
            select.query_row(wanted, |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .translated()?;
    let Some((key, session_key)) = found else { return Ok(None) };
    let session_key = session_key.and_then(|stored| SessionKey::parse(&stored).ok());
    if !scope.keys.sees(session_key.as_ref()) {
        return Ok(None);
    }
    if takeover::appended(connection, key)? != since.appended {
        return Ok(None);
    }
    let (shown, parts) = takeover::journal(connection, key, since.parts)?;
    Ok(Some(StreamedPart { shown, through: StreamedThrough { parts, ..since } }))
}

fn read(connection: &Connection, row: &Row<'_>, id: TurnId) -> rusqlite::Result<(i64, TurnRecord)> {
    const AT: usize = STATE_WIDTH;
    let state = rows::word(row, AT + 1, TurnState::parse)?;
    let usage = rows::turn_usage(row, [AT + 8, AT + 9, AT + 10, AT + 11, AT + 24])?;
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
    let facts = Sessions::of(connection)?.state(row)?.facts;
    let record = TurnRecord {
        id,
        state,
        stopping: row.get::<_, bool>(AT + 22)? && state.is_live(),
        parked: row.get(AT + 25)?,
        waits_again: false,
        called_off: row.get::<_, bool>(AT + 23)? && state == TurnState::Cancelled,
        attempt: row.get(AT + 2)?,
        began: Arc::clone(&facts),
        facts,
        resolution: rows::word(row, AT + 3, Resolution::parse)?,
        rotated: row.get(AT + 4)?,
        api: rows::text(row, AT + 15)?,
        echo: rows::optional_text(row, AT + 16)?,
        kept: row.get(AT + 17)?,
        started_at: Timestamp(row.get(AT + 5)?),
        ended_at: row.get::<_, Option<i64>>(AT + 18)?.filter(|_| !state.is_live()).map(Timestamp),
        finish,
        failure,
        has_begun: row.get(AT + 19)?,
        input: Vec::new(),
        steps: Vec::new(),
        pending: Vec::new(),
        recall: None,
        shown: StreamedOutput {
            text: String::new(),
            record: row.get::<_, Option<String>>(AT + 20)?.unwrap_or_default(),
        },
        streamed_through: StreamedThrough::default(),
        cut_off: row.get(AT + 21)?,
    };
    Ok((row.get(AT)?, record))
}

/// The beginning or the end of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Beginning,
    End,
}

/// A conversation as it was when a turn began or ended, without later compactions. The turn's own compactions are
/// between the two.
fn as_it_was(
    connection: &Connection,
    now: &ConversationFacts,
    turn: i64,
    moment: Moment,
) -> StoreResult<ConversationFacts> {
    let session = match moment {
        Moment::Beginning => {
            "coalesce((SELECT k.session_before_pk FROM compactions k WHERE k.conversation_pk = t.conversation_pk
             AND k.turn_pk = t.pk AND k.summary_pk IS NOT NULL ORDER BY k.pk LIMIT 1), t.session_pk)"
        }
        Moment::End => "t.session_pk",
    };
    let head = connection
        .prepare_cached(&format!("SELECT {SESSION} FROM turns t JOIN sessions s ON s.pk = {session} WHERE t.pk = ?1"))
        .and_then(|mut select| select.query_row([turn], |row| rows::session(row, 0)))
        .translated()?;
    let (count, mode) = connection
        .prepare_cached(
            "SELECT count(*), max(m.seq),
             k.mode FROM turns t JOIN compactions k ON k.conversation_pk = t.conversation_pk
             JOIN messages m ON m.pk = k.summary_pk WHERE t.pk = ?1 AND (m.seq < t.first_seq AND k.turn_pk IS NOT t.pk
             OR ?2 AND k.turn_pk = t.pk)",
        )
        .and_then(|mut select| {
            select.query_row(params![turn, moment == Moment::End], |row| {
                Ok((row.get(0)?, rows::optional_word(row, 2, CompactionMode::parse)?))
            })
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

/// The sessions that can have messages of a turn. It is only the turn's last session if that has the input too;
/// otherwise there was a split in between.
const SESSIONS: &str = "sessions s ON s.conversation_pk = t.conversation_pk
     AND s.pk BETWEEN iif(EXISTS (SELECT 1 FROM messages f WHERE f.session_pk = t.session_pk AND f.seq = t.first_seq),
     t.session_pk, 0)
     AND t.session_pk";

/// The input of a turn.
fn input(connection: &Connection, turn: i64) -> StoreResult<Vec<Arc<Message>>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM turns t JOIN {SESSIONS}
             JOIN messages m ON m.session_pk = s.pk AND m.seq >= t.first_seq AND m.seq < coalesce(t.answer_seq, ?2)
             WHERE t.pk = ?1 AND m.turn_pk = t.pk AND m.status <> 'partial' ORDER BY s.pk, m.seq"
        ))
        .translated()?;
    select.query_map([turn, END], |row| rows::message(row).map(Arc::new)).and_then(Iterator::collect).translated()
}

/// The steps of a turn, in the order of their places.
fn steps(connection: &Connection, turn: i64, state: TurnState, asked: &[AskedQuestion]) -> StoreResult<Vec<Step>> {
    let mut messages = answer_messages(connection, turn, state)?.into_iter().peekable();
    let mut steps = Vec::with_capacity(messages.len());
    for (id, place) in compactions(connection, turn)? {
        let before: Vec<_> = std::iter::from_fn(|| messages.next_if(|message| message.seq.0 < place)).collect();
        steps.extend(Step::of_messages(&before, &[]));
        steps.push(Step::Compacted(id));
    }
    let mut last: Vec<Arc<Message>> = messages.collect();
    let asking = last.split_off(approvals::asking_message(asked, &last).unwrap_or(last.len()));
    steps.extend(Step::of_messages(&last, &[]));
    let pending = approvals::answers_without_result(asked, &asking);
    steps.extend(Step::of_messages(&asking, &pending));
    Ok(steps)
}

/// The compactions that Herma made for a turn, and the places of their summaries.
fn compactions(connection: &Connection, turn: i64) -> StoreResult<Vec<(CompactionId, i64)>> {
    let mut select = connection
        .prepare_cached(
            "SELECT k.id, m.seq FROM turns t JOIN compactions k ON k.conversation_pk = t.conversation_pk
             JOIN messages m ON m.pk = k.summary_pk WHERE t.pk = ?1 AND k.turn_pk = t.pk AND k.made_by = 'herma'
             ORDER BY k.pk",
        )
        .translated()?;
    select
        .query_map([turn], |row| Ok((CompactionId::from_uuid(rows::uuid(row, 0)?), row.get(1)?)))
        .and_then(Iterator::collect)
        .translated()
}

/// The messages of a turn's answer. If it has none, what its last attempt had streamed.
fn answer_messages(connection: &Connection, turn: i64, state: TurnState) -> StoreResult<Vec<Arc<Message>>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM turns t JOIN {SESSIONS}
             JOIN messages m ON m.session_pk = s.pk AND m.seq >= t.first_seq
             AND m.seq <= iif(?2, ?3, coalesce(t.last_seq, ?3))
             WHERE t.pk = ?1 AND m.turn_pk = t.pk
               AND iif(m.status = 'partial', ?4 AND m.attempt = t.attempt, m.seq >= t.answer_seq) ORDER BY s.pk, m.seq"
        ))
        .translated()?;
    select
        .query_map(params![turn, state.is_live(), END, state.is_unanswered()], |row| rows::message(row).map(Arc::new))
        .and_then(Iterator::collect)
        .translated()
}

/// Writes the row of a stateless turn, which belongs to no conversation. No name leads to it.
pub(crate) fn note_stateless(connection: &Connection, turn: &StatelessTurn) -> StoreResult<()> {
    let (state, finish, failure) = match &turn.outcome {
        StatelessOutcome::Completed(finish) => (TurnState::Completed, Some(finish), None),
        StatelessOutcome::Unanswered { state, failure } => (*state, None, Some(failure)),
    };
    let columns = TurnColumns {
        tenant_pk: turn.tenant.0,
        id: turn.id.uuid().into_bytes(),
        api: turn.api,
        state: state.as_str(),
        resolution: Resolution::Created.as_str(),
        delivered: true,
        model: finish.and_then(|finish| finish.model.as_deref()),
        finish_reason: finish.map(|finish| finish.reason.as_str()),
        failure_code: failure.map(|failure| failure.code.as_str()),
        failure_message: failure.map(|failure| failure.message.as_str()),
        upstream_status: failure.and_then(|failure| failure.upstream_status),
        created_at: turn.started_at.0,
        ended_at: Some(turn.ended_at.0),
        ..TurnColumns::default()
    };
    insert_turn(connection, &columns.with_usage(finish.and_then(|finish| finish.usage))).map(drop)
}

/// Makes a turn's response unavailable.
pub(crate) fn forget_response(connection: &Connection, scope: &Scope, turn: TurnId) -> StoreResult<bool> {
    let stored: Option<(i64, Option<String>)> = connection
        .prepare_cached(
            "SELECT t.pk, c.session_key FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.id = ?1 AND t.tenant_pk = ?2 AND t.kept = 1",
        )
        .and_then(|mut select| {
            let id = turn.uuid();
            select.query_row(params![id.as_bytes(), scope.tenant.0], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .translated()?;
    let Some((key, session_key)) = stored else { return Ok(false) };
    let session_key = session_key.and_then(|stored| SessionKey::parse(&stored).ok());
    if !scope.keys.sees(session_key.as_ref()) {
        return Ok(false);
    }
    expiry::forget(connection, key)?;
    Ok(true)
}

/// Turns of one process that were asked to stop, or that another process has taken over.
///
/// The list of turns is older than the rows. A turn that has started, ended by itself or been parked since then is not
/// reported.
pub(crate) fn stop_requests(
    connection: &Connection,
    owner: i64,
    turns: &[i64],
) -> StoreResult<Vec<(TurnId, StopKind)>> {
    let mut select = connection
        .prepare_cached(
            "SELECT id, stop_kind FROM turns WHERE pk = ?1 AND CASE state WHEN 'running' THEN stop_requested IS NOT NULL
             OR owner <> ?2 AND owner <> ?3
             WHEN 'queued' THEN 0 ELSE cut_off END",
        )
        .translated()?;
    let mut asked = Vec::new();
    for turn in turns {
        let read = |row: &Row<'_>| {
            let kind = rows::optional_word(row, 1, StopKind::parse)?.unwrap_or(StopKind::Interrupt);
            Ok((TurnId::from_uuid(rows::uuid(row, 0)?), kind))
        };
        asked.extend(select.query_row([*turn, owner, NOBODY], read).optional().translated()?);
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turns_that_were_asked_to_stop_or_taken_over_are_reported() {
        let connection = Connection::open_in_memory().unwrap();
        let turn = TurnId::from_uuid(uuid::Uuid::from_u128(7));
        connection
            .execute_batch("CREATE TABLE turns (pk, id, owner, state, stop_requested, stop_kind, cut_off)")
            .unwrap();
        for (owner, state, stop_kind, cut_off, asked) in [
            (1, "queued", None, false, None),
            (1, "running", None, false, None),
            (1, "running", None, true, None),
            (1, "completed", None, false, None),
            (1, "failed", None, false, None),
            (1, "running", Some("cancel"), false, Some(StopKind::Cancel)),
            (2, "running", None, false, Some(StopKind::Interrupt)),
            (NOBODY, "running", None, false, None),
            (1, "interrupted", None, true, Some(StopKind::Interrupt)),
        ] {
            connection.execute("DELETE FROM turns", []).unwrap();
            let requested = stop_kind.map(|_| 1);
            let id = turn.uuid();
            let row = params![1, id.as_bytes(), owner, state, requested, stop_kind, cut_off];
            connection.execute("INSERT INTO turns VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row).unwrap();
            let found = stop_requests(&connection, 1, &[1]).unwrap();
            assert_eq!(found.first().map(|(_, kind)| *kind), asked, "{owner} {state} {stop_kind:?} {cut_off}");
        }
    }
}
