//! Turns, and the input of turns that never began.

use herma_model::copy::CopiedTurn;
use herma_model::generation::FinishReason;
use herma_model::{NewMessage, StopKind};
use herma_store::RestoreOutcome;
use rusqlite::params;

use super::PieceWriter;
use crate::copy::restore::{Halt, RestoreResult, broken};
use crate::failure::{StoreResult, Translate};
use crate::memories::recalls;
use crate::tables::{TurnColumns, insert_turn};
use crate::waiting;

impl PieceWriter<'_> {
    pub(super) fn turn(&mut self, turn: &CopiedTurn) -> RestoreResult<()> {
        if turn.state.is_live() {
            return broken(format!("turn {} has not ended", turn.id));
        }
        let columns = TurnColumns { session_pk: self.own_session(&turn.session_id)?, ..self.columns(turn) };
        let key = match self.stored("turns", turn.id.uuid())? {
            Some((key, conversation)) if conversation == self.conversation => {
                self.end_turn(key, &columns)?;
                key
            }
            Some(_) => return Err(Halt::Left(RestoreOutcome::Taken(turn.id.to_string()))),
            None => insert_turn(self.connection, &columns)?,
        };
        if self.turns.insert(turn.id, key).is_some() {
            return broken(format!("turn {} comes twice", turn.id));
        }
        if turn.unrecorded || turn.recorded {
            recalls::write_restored(self.connection, self.conversation, key, turn.recorded)?;
        }
        let brought = turn.waiting.iter().map(|message| NewMessage { id: message.id, said: message.said.clone() });
        Ok(waiting::store(self.connection, key, &brought.collect::<Vec<_>>())?)
    }

    /// The columns of a restored turn. It counts as delivered, and no request is a retry of it: fingerprints depend on
    /// the caller and are not exported.
    fn columns<'a>(&self, turn: &'a CopiedTurn) -> TurnColumns<'a> {
        let failure = turn.failure.as_ref();
        let columns = TurnColumns {
            tenant_pk: self.tenant.0,
            id: turn.id.uuid().into_bytes(),
            conversation_pk: self.conversation,
            api: &turn.api,
            state: turn.state.as_str(),
            attempt: turn.attempt,
            resolution: turn.resolution.as_str(),
            rotated: turn.rotated,
            delivered: true,
            stop_requested: turn.stopped.and(turn.ended_at).map(|at| at.0),
            stop_kind: turn.stopped.map(StopKind::as_str),
            first_seq: turn.first_place.map(|place| place.0),
            answer_seq: turn.answer_place.map(|place| place.0),
            last_seq: turn.last_place.map(|place| place.0),
            model: turn.model.as_deref(),
            finish_reason: turn.finish_reason.map(FinishReason::as_str),
            failure_code: failure.map(|failure| failure.code.as_str()),
            failure_message: failure.map(|failure| failure.message.as_str()),
            upstream_status: failure.and_then(|failure| failure.upstream_status),
            created_at: turn.created_at.0,
            ended_at: turn.ended_at.map(|at| at.0),
            echo: turn.echo.as_deref(),
            kept: turn.kept,
            visible_while_queued: turn.visible_while_queued,
            record: turn.record.as_deref(),
            cut_off: turn.cut_off,
            attempt_of: turn.attempt_of.map(|turn| turn.uuid().into_bytes()),
            ..TurnColumns::default()
        };
        columns.with_usage(turn.usage)
    }

    /// Updates how a stored turn ended. It is stored because a branch inherits it, or because it had no answer when it
    /// was imported. An answered turn does not change.
    fn end_turn(&self, key: i64, turn: &TurnColumns<'_>) -> StoreResult<()> {
        self.connection
            .prepare_cached(
                "UPDATE turns SET session_pk = ?3, answer_seq = ?4, last_seq = ?5, model = ?6, finish_reason = ?7,
                 failure_code = ?8, failure_message = ?9, ended_at = ?10, echo = ?11, kept = ?12,
                 visible_while_queued = ?13, record = ?14, state = ?2 WHERE pk = ?1
                 AND (state <> 'completed' OR ?2 = 'completed')",
            )
            .and_then(|mut update| {
                update.execute(params![
                    key,
                    turn.state,
                    turn.session_pk,
                    turn.answer_seq,
                    turn.last_seq,
                    turn.model,
                    turn.finish_reason,
                    turn.failure_code,
                    turn.failure_message,
                    turn.ended_at,
                    turn.echo,
                    turn.kept,
                    turn.visible_while_queued,
                    turn.record
                ])
            })
            .map(drop)
            .translated()
    }
}
