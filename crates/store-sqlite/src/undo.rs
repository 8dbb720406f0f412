//! Undoes a compaction: the base beneath it becomes the base of the head again.

use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger};
use herma_model::provenance::CompactionMode;
use herma_model::{CompactionId, Rewinds, Seq};
use herma_store::{Undo, UndoOutcome, UndoRefusal};
use rusqlite::{Connection, OptionalExtension, params};

use crate::base::CompactionBase;
use crate::compact::{Idle, compacted, idle};
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::tables::{CompactionColumns, add_compaction, set_base};
use crate::{rewinds, rows};

/// Undoes, or changes nothing except that a dead owner's turn is ended.
pub(crate) fn undo(connection: &Connection, instance: &Instance, undo: &Undo) -> StoreResult<UndoOutcome> {
    let state = match idle(connection, instance, &undo.scope, &undo.alias, undo.now)? {
        Idle::Free(state) => *state,
        Idle::Busy(turn) => return Ok(UndoOutcome::Busy(turn)),
        Idle::NotFound => return Ok(UndoOutcome::NotFound),
    };
    let Some(target) = UndoTarget::find(connection, state.key, undo.target)? else { return Ok(UndoOutcome::NotFound) };
    if state.version != undo.seen.0 {
        return Ok(UndoOutcome::Stale);
    }
    let rewinds = rewinds::of(connection, state.key)?;
    let compaction_base = CompactionBase::shown(connection, state.head, &rewinds)?;
    if let Some(refusal) = target.refusal(compaction_base, &rewinds) {
        return Ok(UndoOutcome::Refused(refusal));
    }
    let columns = CompactionColumns {
        tenant_pk: undo.scope.tenant.0,
        conversation_pk: state.key,
        id: undo.id.uuid().into_bytes(),
        action: CompactionAction::Undo.as_str(),
        mode: target.mode.as_str(),
        trigger: CompactionTrigger::Manual.as_str(),
        outcome: CompactionOutcome::Applied.as_str(),
        session_before_pk: state.head,
        session_after_pk: state.head,
        base_pk: Some(target.key),
        first_seq: target.first,
        through_seq: target.through,
        tokens_before: undo.sizes.before as i64,
        tokens_after: undo.sizes.after as i64,
        undoes_pk: Some(target.key),
        created_at: undo.now.0,
        ..CompactionColumns::default()
    };
    let key = add_compaction(connection, &columns)?;
    connection
        .execute("UPDATE compactions SET outcome = 'undone', undone_by_pk = ?2 WHERE pk = ?1", [target.key, key])
        .translated()?;
    set_base(connection, state.head, target.below)?;
    connection
        .execute(
            "UPDATE conversations SET version = version + 1, changes = changes + 1, updated_at = ?2,
             counted_seq = NULL, counted_tokens = NULL, auto_compaction_paused = 1 WHERE pk = ?1",
            [state.key, undo.now.0],
        )
        .translated()?;
    compacted(connection, state.key, key).map(UndoOutcome::Undone)
}

/// The row of the ledger that is to be undone.
struct UndoTarget {
    key: i64,
    action: CompactionAction,
    outcome: CompactionOutcome,
    below: Option<i64>,
    mode: CompactionMode,
    first: i64,
    through: i64,
    /// The place of its summary.
    summary: Option<Seq>,
}

impl UndoTarget {
    fn find(connection: &Connection, conversation: i64, id: CompactionId) -> StoreResult<Option<Self>> {
        connection
            .query_row(
                "SELECT k.pk, k.action, k.outcome, k.base_pk, k.mode, k.first_seq, k.through_seq, m.seq
                 FROM compactions k
                 LEFT JOIN messages m ON m.pk = k.summary_pk WHERE k.id = ?1 AND k.conversation_pk = ?2",
                params![id.uuid().as_bytes(), conversation],
                |row| {
                    Ok(Self {
                        key: row.get(0)?,
                        action: rows::word(row, 1, CompactionAction::parse)?,
                        outcome: rows::word(row, 2, CompactionOutcome::parse)?,
                        below: row.get(3)?,
                        mode: rows::word(row, 4, CompactionMode::parse)?,
                        first: row.get(5)?,
                        through: row.get(6)?,
                        summary: row.get::<_, Option<i64>>(7)?.map(Seq),
                    })
                },
            )
            .optional()
            .translated()
    }

    fn refusal(&self, compaction_base: Option<CompactionBase>, rewinds: &Rewinds) -> Option<UndoRefusal> {
        match (self.action, self.outcome) {
            (CompactionAction::Undo, _) => Some(UndoRefusal::IsAnUndo),
            (CompactionAction::Compact, CompactionOutcome::Failed) => Some(UndoRefusal::NeverApplied),
            (CompactionAction::Compact, CompactionOutcome::Undone) => Some(UndoRefusal::AlreadyUndone),
            (CompactionAction::Compact, CompactionOutcome::Applied | CompactionOutcome::Trimmed) => {
                match compaction_base {
                    Some(compaction_base) if compaction_base.key == self.key => None,
                    _ if self.summary.is_some_and(|summary| rewinds.hide_summary(summary, Seq(self.through))) => {
                        Some(UndoRefusal::Rewound)
                    }
                    Some(compaction_base) => Some(UndoRefusal::Covered(compaction_base.id)),
                    None => Some(UndoRefusal::AlreadyUndone),
                }
            }
        }
    }
}
