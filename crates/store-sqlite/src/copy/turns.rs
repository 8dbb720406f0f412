//! Reads the turns of a conversation as pieces.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::copy::{CopiedFailure, CopiedTurn, CopiedWaiting, Piece};
use herma_model::generation::FinishReason;
use herma_model::turn::FailureCode;
use herma_model::{Resolution, Seq, SessionId, StopKind, Timestamp, TurnId, TurnState, Usage};
use rusqlite::{Connection, Row};

use super::read::{PieceSink, optional_id};
use crate::failure::{StoreResult, Translate};
use crate::lineage::{END, Segment};
use crate::{rows, waiting};

const TURN: &str = "t.pk, t.id, s.id, t.api, t.state, t.attempt, t.resolution, t.rotated, t.first_seq, t.answer_seq, \
     t.last_seq, t.model, t.finish_reason, t.input_tokens, t.output_tokens, t.cached_tokens, t.reasoning_tokens, \
     t.failure_code, t.failure_message, t.upstream_status, t.stop_kind, t.kept, t.visible_while_queued, t.cut_off, \
     t.echo, t.record, t.created_at, t.ended_at, c.next_seq, t.cache_write_tokens, t.attempt_of, \
     EXISTS (SELECT 1 FROM recalls r WHERE r.turn_pk = t.pk AND r.recorded = 0), \
     c.origin_kind <> 'main' AND c.origin_kind <> 'branch' \
     AND EXISTS (SELECT 1 FROM recalls r WHERE r.turn_pk = t.pk AND r.recorded = 1)";

/// The failure of a turn that runs during the export.
const RUNNING: &str = "it was running when the conversation was exported";

/// Sends the turns of a conversation that have begun or ended. Returns their ids.
pub(super) fn turns(connection: &Connection, part: Segment, take: PieceSink<'_>) -> StoreResult<HashSet<TurnId>> {
    let is_part = part.through != END;
    // A turn without messages never began, or all its messages were deleted. Branches do not inherit it.
    let without_messages = if is_part {
        ""
    } else {
        "UNION SELECT pk FROM turns INDEXED BY turns_unanswered WHERE conversation_pk = ?1
         AND (state = 'failed' OR state = 'cancelled' OR state = 'interrupted')
         UNION SELECT pk FROM turns WHERE conversation_pk = ?1 AND first_seq IS NULL"
    };
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {TURN} FROM turns t JOIN sessions s ON s.pk = min(t.session_pk, ?2)
             JOIN conversations c ON c.pk = t.conversation_pk WHERE t.pk IN (
             SELECT m.turn_pk FROM sessions o JOIN messages m ON m.session_pk = o.pk WHERE o.conversation_pk = ?1
             AND o.pk <= ?2 AND m.seq <= ?3
             {without_messages}) AND t.state <> 'queued' ORDER BY t.pk"
        ))
        .translated()?;
    let mut found = select.query([part.conversation, part.session, part.through]).translated()?;
    let mut ids = HashSet::new();
    while let Some(row) = found.next().translated()? {
        let (key, mut turn) = turn(row).translated()?;
        ids.insert(turn.id);
        if is_part {
            (turn.kept, turn.visible_while_queued, turn.echo, turn.record) = (false, false, None, None);
        }
        if turn.first_place.is_none() {
            let brought = waiting::messages(connection, key)?.into_iter().map(Arc::unwrap_or_clone);
            turn.waiting = brought.map(|message| CopiedWaiting { id: message.id, said: message.said }).collect();
        }
        take(Piece::Turn(Box::new(turn)))?;
    }
    Ok(ids)
}

fn turn(row: &Row<'_>) -> rusqlite::Result<(i64, CopiedTurn)> {
    let place = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(Seq));
    let failure = match rows::optional_word(row, 17, FailureCode::parse)? {
        Some(code) => Some(CopiedFailure {
            code,
            message: row.get::<_, Option<String>>(18)?.unwrap_or_default(),
            upstream_status: row.get(19)?,
        }),
        None => None,
    };
    let mut turn = CopiedTurn {
        id: TurnId::from_uuid(rows::uuid(row, 1)?),
        attempt_of: optional_id(row, 30)?.map(TurnId::from_uuid),
        session_id: SessionId::from_name(row.get_ref(2)?.as_str()?),
        api: rows::text(row, 3)?,
        state: rows::word(row, 4, TurnState::parse)?,
        attempt: row.get(5)?,
        resolution: rows::word(row, 6, Resolution::parse)?,
        rotated: row.get(7)?,
        first_place: place(8)?,
        answer_place: place(9)?,
        last_place: place(10)?,
        model: row.get(11)?,
        finish_reason: rows::optional_word(row, 12, FinishReason::parse)?,
        usage: usage(row)?,
        failure,
        stopped: rows::optional_word(row, 20, StopKind::parse)?,
        kept: row.get(21)?,
        visible_while_queued: row.get(22)?,
        cut_off: row.get(23)?,
        unrecorded: row.get(31)?,
        recorded: row.get(32)?,
        echo: rows::optional_text(row, 24)?,
        record: rows::optional_text(row, 25)?,
        waiting: Vec::new(),
        created_at: Timestamp(row.get(26)?),
        ended_at: row.get::<_, Option<i64>>(27)?.map(Timestamp),
    };
    if turn.state == TurnState::Running {
        cut_off(&mut turn, Seq(row.get::<_, i64>(28)? - 1));
    }
    Ok((row.get(0)?, turn))
}

fn usage(row: &Row<'_>) -> rusqlite::Result<Option<Usage>> {
    let known: (Option<i64>, Option<i64>) = (row.get(13)?, row.get(14)?);
    if known.0.is_none() || known.1.is_none() {
        return Ok(None);
    }
    let cache_write = row.get::<_, Option<i64>>(29)?.unwrap_or(0).unsigned_abs();
    Ok(Some(Usage { cache_write, ..rows::usage(row, 13)? }))
}

/// Ends a live turn in the copy: where it is restored, no process runs it.
fn cut_off(turn: &mut CopiedTurn, last: Seq) {
    let code = FailureCode::Abandoned;
    turn.state = code.ends_as();
    turn.failure = Some(CopiedFailure { code, message: RUNNING.to_owned(), upstream_status: None });
    turn.last_place = Some(last);
    turn.ended_at = Some(turn.created_at);
    (turn.answer_place, turn.stopped, turn.cut_off) = (None, None, true);
}
