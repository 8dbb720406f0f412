//! Compactions, what they keep, and pins.

use herma_model::compaction::CompactionOutcome;
use herma_model::copy::CopiedCompaction;
use herma_model::{CompactionId, Seq};
use herma_store::RestoreOutcome;
use rusqlite::{Connection, OptionalExtension, params};

use super::Writing;
use crate::copy::restore::{Attempt, Halt, broken};
use crate::failure::{Outcome, Translate};
use crate::lineage::Lineage;

impl Writing<'_> {
    pub(super) fn compaction(&self, compaction: &CopiedCompaction, lineage: &Lineage) -> Attempt<()> {
        let before = self.own_session(&compaction.session_before)?;
        let after = self.own_session(&compaction.session_after)?;
        let base = compaction.base.map(|base| self.compaction_key(base)).transpose()?;
        let undoes = compaction.undoes.map(|undone| self.compaction_key(undone)).transpose()?;
        let summary = self.summaries.get(&compaction.id);
        let tail = match summary {
            Some(_) => Some(tail(self.connection, lineage, compaction.last_place)?.unwrap_or(after)),
            None => None,
        };
        let usage = compaction.usage;
        let is_trimmed = compaction.outcome == CompactionOutcome::Trimmed;
        let outcome = if is_trimmed { CompactionOutcome::Applied } else { compaction.outcome };
        let key: Option<i64> = self
            .connection
            .prepare_cached(
                "INSERT INTO compactions (tenant_pk, conversation_pk, id, action, mode, trigger, outcome, session_before_pk, session_after_pk, base_pk,
                 first_seq, through_seq, tail_session_pk, summary_pk, model, tokens_before, tokens_after, input_tokens, output_tokens, cached_tokens,
                 reasoning_tokens, duration_ms, failure, undoes_pk, turn_pk, created_at,
                 trimmed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)
                 ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome, turn_pk = excluded.turn_pk WHERE conversation_pk = excluded.conversation_pk
                 RETURNING pk",
            )
            .and_then(|mut insert| {
                insert
                    .query_row(
                        params![
                            self.tenant.0,
                            self.conversation,
                            compaction.id.uuid().as_bytes(),
                            compaction.action.as_str(),
                            compaction.mode.as_str(),
                            compaction.trigger.as_str(),
                            outcome.as_str(),
                            before,
                            after,
                            base,
                            compaction.first_place.0,
                            compaction.last_place.0,
                            tail,
                            summary,
                            compaction.model,
                            compaction.tokens_before as i64,
                            compaction.tokens_after as i64,
                            usage.input as i64,
                            usage.output as i64,
                            usage.cached as i64,
                            usage.reasoning as i64,
                            compaction.duration_ms as i64,
                            compaction.failure,
                            undoes,
                            compaction.turn_id.and_then(|turn| self.turns.get(&turn)),
                            compaction.created_at.0,
                            is_trimmed
                        ],
                        |row| row.get(0),
                    )
                    .optional()
            })
            .translated()?;
        let key = key.ok_or_else(|| Halt::Left(RestoreOutcome::Taken(compaction.id.to_string())))?;
        if let Some(summary) = summary {
            let know = "UPDATE messages SET compaction_pk = ?2 WHERE pk = ?1 AND compaction_pk IS NOT ?2";
            self.connection.prepare_cached(know).and_then(|mut update| update.execute([*summary, key])).translated()?;
        }
        let carry = "INSERT OR IGNORE INTO carried (compaction_pk, seq, message_pk) VALUES (?1, ?2, ?3)";
        self.keep(carry, key, &compaction.carried, lineage)
    }

    /// Pins messages.
    pub(in crate::copy) fn pin(&self, places: &[Seq], lineage: &Lineage) -> Attempt<()> {
        let pin = "INSERT INTO pins (conversation_pk, seq, message_pk) VALUES (?1, ?2, ?3)";
        self.keep(pin, self.conversation, places, lineage)
    }

    fn keep(&self, statement: &str, key: i64, places: &[Seq], lineage: &Lineage) -> Attempt<()> {
        for place in places {
            let Some(message) = said_at(self.connection, lineage, *place)? else {
                return broken(format!("there is no message at place {}", place.0));
            };
            self.connection
                .prepare_cached(statement)
                .and_then(|mut insert| insert.execute([key, place.0, message]))
                .translated()?;
        }
        Ok(())
    }

    /// Writes down which compactions were taken back, now that every row is there.
    pub(super) fn undone(&self, compactions: &[CopiedCompaction]) -> Attempt<()> {
        for compaction in compactions {
            let Some(undo) = compaction.undone_by else { continue };
            let keys = [self.compaction_key(compaction.id)?, self.compaction_key(undo)?];
            self.connection
                .prepare_cached("UPDATE compactions SET undone_by_pk = ?2 WHERE pk = ?1")
                .and_then(|mut update| update.execute(keys))
                .translated()?;
        }
        Ok(())
    }

    /// The row of a compaction, of this conversation or of one it inherits from, and of no other.
    pub(super) fn compaction_key(&self, id: CompactionId) -> Attempt<i64> {
        let found: Option<(i64, i64)> = self
            .connection
            .prepare_cached("SELECT pk, conversation_pk FROM compactions WHERE id = ?1 AND tenant_pk = ?2")
            .and_then(|mut select| {
                let id = id.uuid();
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                select.query_row(params![id.as_bytes(), self.tenant.0], read).optional()
            })
            .translated()?;
        match found {
            Some((key, holder)) if self.sources()?.contains(&holder) => Ok(key),
            _ => broken(format!("there is no compaction {id}")),
        }
    }
}

/// The message that was said at a place.
fn said_at(connection: &Connection, lineage: &Lineage, place: Seq) -> Outcome<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT m.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1 AND m.seq = ?2 AND m.turn_pk > 0
             ORDER BY s.pk DESC LIMIT 1",
        )
        .and_then(|mut select| {
            select.query_row(params![lineage.holder(place.0), place.0], |row| row.get(0)).optional()
        })
        .translated()
}

/// The session in which the first message after a place lies, if there is one.
fn tail(connection: &Connection, lineage: &Lineage, place: Seq) -> Outcome<Option<i64>> {
    let mut select = connection
        .prepare_cached(
            "SELECT s.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq > ?3 AND m.seq <= ?4
             AND m.turn_pk > 0 ORDER BY s.pk LIMIT 1",
        )
        .translated()?;
    for segment in lineage.segments() {
        let range = [segment.conversation, segment.session, place.0, segment.through];
        if let Some(first) = select.query_row(range, |row| row.get(0)).optional().translated()? {
            return Ok(Some(first));
        }
    }
    Ok(None)
}
