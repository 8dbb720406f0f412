//! Compactions, the messages that they carry, and pins.

use herma_model::compaction::CompactionOutcome;
use herma_model::copy::CopiedCompaction;
use herma_model::{CompactionId, Seq};
use herma_store::RestoreOutcome;
use rusqlite::params;

use super::PieceWriter;
use crate::copy::restore::{Halt, RestoreResult, broken};
use crate::failure::{StoreResult, Translate};
use crate::lineage::Lineage;
use crate::tables::{CompactionColumns, add_compaction, carry, pin};

impl PieceWriter<'_> {
    pub(super) fn compaction(&self, compaction: &CopiedCompaction, lineage: &Lineage) -> RestoreResult<()> {
        let columns = self.compaction_columns(compaction, lineage)?;
        match self.stored("compactions", compaction.id.uuid())? {
            Some((key, conversation)) if conversation == self.conversation => {
                return Ok(self.restore_compaction(key, &columns)?);
            }
            Some(_) => return Err(Halt::Left(RestoreOutcome::Taken(compaction.id.to_string()))),
            None => {}
        }
        let key = add_compaction(self.connection, &columns)?;
        let carried = compaction.carried.iter().copied();
        present(carry(self.connection, self.conversation, lineage, key, carried)?)
    }

    fn compaction_columns<'a>(
        &self,
        compaction: &'a CopiedCompaction,
        lineage: &Lineage,
    ) -> RestoreResult<CompactionColumns<'a>> {
        let after = self.own_session(&compaction.session_after)?;
        let summary = self.summaries.get(&compaction.id).copied();
        let tail = match summary {
            Some(_) => Some(lineage.first_after(self.connection, compaction.last_place.0, 0)?.unwrap_or(after)),
            None => None,
        };
        // The table has no value for a trimmed compaction, but a column.
        let trimmed = compaction.outcome == CompactionOutcome::Trimmed;
        let outcome = if trimmed { CompactionOutcome::Applied } else { compaction.outcome };
        let columns = CompactionColumns {
            tenant_pk: self.tenant.0,
            conversation_pk: self.conversation,
            id: compaction.id.uuid().into_bytes(),
            action: compaction.action.as_str(),
            mode: compaction.mode.as_str(),
            trigger: compaction.trigger.as_str(),
            made_by: compaction.made_by.as_str(),
            outcome: outcome.as_str(),
            session_before_pk: self.own_session(&compaction.session_before)?,
            session_after_pk: after,
            base_pk: compaction.base.map(|base| self.compaction_key(base)).transpose()?,
            first_seq: compaction.first_place.0,
            through_seq: compaction.last_place.0,
            tail_session_pk: tail,
            summary_pk: summary,
            model: compaction.model.as_deref(),
            tokens_before: compaction.tokens_before as i64,
            tokens_after: compaction.tokens_after as i64,
            duration_ms: compaction.duration_ms as i64,
            failure: compaction.failure.as_deref(),
            trimmed,
            undoes_pk: compaction.undoes.map(|undone| self.compaction_key(undone)).transpose()?,
            turn_pk: compaction.turn_id.and_then(|turn| self.turns.get(&turn)).copied(),
            created_at: compaction.created_at.0,
            ..CompactionColumns::default()
        };
        Ok(columns.with_usage(compaction.usage))
    }

    /// Restores what a deletion cleared in a compaction that is stored because it is the base of a branch.
    fn restore_compaction(&self, key: i64, columns: &CompactionColumns<'_>) -> StoreResult<()> {
        self.connection
            .prepare_cached("UPDATE compactions SET outcome = ?2, turn_pk = ?3 WHERE pk = ?1")
            .and_then(|mut update| update.execute(params![key, columns.outcome, columns.turn_pk]))
            .map(drop)
            .translated()
    }

    /// Pins messages.
    pub(in crate::copy) fn pin(&self, places: &[Seq], lineage: &Lineage) -> RestoreResult<()> {
        present(pin(self.connection, self.conversation, lineage, places.iter().copied())?)
    }

    /// Stores which compactions were undone, after all rows exist.
    pub(super) fn undone(&self, compactions: &[CopiedCompaction]) -> RestoreResult<()> {
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

    /// The row of a compaction of this conversation, or of one it inherits from.
    pub(super) fn compaction_key(&self, id: CompactionId) -> RestoreResult<i64> {
        match self.stored("compactions", id.uuid())? {
            Some((key, holder)) if self.sources()?.contains(&holder) => Ok(key),
            _ => broken(format!("there is no compaction {id}")),
        }
    }
}

/// An error if there is no message at a place that a piece names.
fn present(missing: Option<Seq>) -> RestoreResult<()> {
    missing.map_or(Ok(()), |place| broken(format!("there is no message at place {}", place.0)))
}
