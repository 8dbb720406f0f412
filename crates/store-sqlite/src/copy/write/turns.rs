//! Turns, and what those would have brought that never began.

use herma_model::copy::CopiedTurn;
use herma_model::generation::FinishReason;
use herma_model::{NewMessage, StopKind};
use herma_store::RestoreOutcome;
use rusqlite::{OptionalExtension, params};

use super::Writing;
use crate::copy::restore::{Attempt, Halt, broken};
use crate::failure::Translate;
use crate::waiting;

impl Writing<'_> {
    pub(super) fn turn(&mut self, turn: &CopiedTurn) -> Attempt<()> {
        if turn.state.is_live() {
            return broken(format!("turn {} has not ended", turn.id));
        }
        let session = self.own_session(&turn.session_id)?;
        let failure = turn.failure.as_ref();
        // It is delivered, and no request can be a retry of it: those are known by who made them, which does not travel.
        let key: Option<i64> = self
            .connection
            .prepare_cached(
                "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, attempt, fence, owner, resolution, rotated, fingerprint, delivered,
                 stop_requested, stop_kind, first_seq, answer_seq, last_seq, model, finish_reason, input_tokens, output_tokens, cached_tokens,
                 reasoning_tokens, failure_code, failure_message, upstream_status, created_at, ended_at, echo, kept, promised, record, cut_off,
                 cache_write_tokens, attempt_of)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?9, x'', 1, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25,
                 ?26, ?27, ?28, ?29, ?30, ?31, ?32)
                 ON CONFLICT (id) DO UPDATE SET session_pk = excluded.session_pk, echo = excluded.echo, kept = excluded.kept, promised = excluded.promised,
                 record = excluded.record, last_seq = excluded.last_seq WHERE conversation_pk = excluded.conversation_pk RETURNING pk",
            )
            .and_then(|mut insert| {
                let usage = turn.usage;
                insert
                    .query_row(
                        params![
                            self.tenant.0,
                            turn.id.uuid().as_bytes(),
                            self.conversation,
                            session,
                            turn.api,
                            turn.state.as_str(),
                            turn.attempt,
                            turn.resolution.as_str(),
                            turn.rotated,
                            turn.stopped.and(turn.ended_at).map(|at| at.0),
                            turn.stopped.map(StopKind::as_str),
                            turn.first_place.map(|place| place.0),
                            turn.answer_place.map(|place| place.0),
                            turn.last_place.map(|place| place.0),
                            turn.model,
                            turn.finish_reason.map(FinishReason::as_str),
                            usage.map(|usage| usage.input as i64),
                            usage.map(|usage| usage.output as i64),
                            usage.map(|usage| usage.cached as i64),
                            usage.map(|usage| usage.reasoning as i64),
                            failure.map(|failure| failure.code.as_str()),
                            failure.map(|failure| &failure.message),
                            failure.and_then(|failure| failure.upstream_status),
                            turn.created_at.0,
                            turn.ended_at.map(|at| at.0),
                            turn.echo,
                            turn.kept,
                            turn.promised,
                            turn.record,
                            turn.cut_off,
                            usage.map(|usage| usage.cache_write as i64).filter(|tokens| *tokens > 0),
                            turn.attempt_of.map(|turn| turn.uuid().into_bytes())
                        ],
                        |row| row.get(0),
                    )
                    .optional()
            })
            .translated()?;
        let key = key.ok_or_else(|| Halt::Left(RestoreOutcome::Taken(turn.id.to_string())))?;
        if self.turns.insert(turn.id, key).is_some() {
            return broken(format!("turn {} comes twice", turn.id));
        }
        let brought = turn.waiting.iter().map(|message| NewMessage { id: message.id, said: message.said.clone() });
        Ok(waiting::keep(self.connection, key, &brought.collect::<Vec<_>>())?)
    }
}
