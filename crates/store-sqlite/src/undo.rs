//! Taking a compaction back: the head stands again on what was beneath it.

use herma_model::CompactionId;
use herma_model::compaction::{CompactionAction, CompactionOutcome};
use herma_store::{Undo, UndoOutcome, UndoRefusal};
use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Ground;
use crate::compact::{Idle, compacted, idle, stand_on};
use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::rows;

/// Undoes, or changes nothing but that a dead owner's turn is ended.
pub(crate) fn undo(connection: &Connection, instance: &Instance, undo: &Undo) -> Outcome<UndoOutcome> {
    let state = match idle(connection, instance, &undo.scope, &undo.alias, undo.now)? {
        Idle::Free(state) => state,
        Idle::Busy(turn) => return Ok(UndoOutcome::Busy(turn)),
        Idle::NotFound => return Ok(UndoOutcome::NotFound),
    };
    let Some(target) = Target::find(connection, state.key, undo.target)? else { return Ok(UndoOutcome::NotFound) };
    if state.version != undo.seen.0 {
        return Ok(UndoOutcome::Stale);
    }
    let ground = Ground::of_session(connection, state.head)?;
    if let Some(refusal) = target.refusal(ground) {
        return Ok(UndoOutcome::Refused(refusal));
    }
    connection
        .execute(
            "INSERT INTO compactions (tenant_pk, conversation_pk, id, action, mode, trigger, outcome, session_before_pk, session_after_pk, base_pk,
             first_seq, through_seq, tokens_before, tokens_after, undoes_pk, created_at)
             SELECT tenant_pk, conversation_pk, ?2, 'undo', mode, 'manual', 'applied', ?3, ?3, pk, first_seq, through_seq, ?4, ?5, pk, ?6
             FROM compactions WHERE pk = ?1",
            params![
                target.key,
                undo.id.uuid().as_bytes(),
                state.head,
                undo.sizes.before as i64,
                undo.sizes.after as i64,
                undo.now.0
            ],
        )
        .translated()?;
    let key = connection.last_insert_rowid();
    connection
        .execute("UPDATE compactions SET outcome = 'undone', undone_by_pk = ?2 WHERE pk = ?1", [target.key, key])
        .translated()?;
    stand_on(connection, state.head, target.below)?;
    connection
        .execute(
            "UPDATE conversations SET version = version + 1, updated_at = ?2, counted_seq = NULL, counted_tokens = NULL, held_back = 1 WHERE pk = ?1",
            [state.key, undo.now.0],
        )
        .translated()?;
    compacted(connection, state.key, key).map(UndoOutcome::Undone)
}

/// A row of the ledger that somebody wants taken back.
struct Target {
    key: i64,
    action: CompactionAction,
    outcome: CompactionOutcome,
    below: Option<i64>,
}

impl Target {
    fn find(connection: &Connection, conversation: i64, id: CompactionId) -> Outcome<Option<Self>> {
        connection
            .query_row(
                "SELECT pk, action, outcome, base_pk FROM compactions WHERE id = ?1 AND conversation_pk = ?2",
                params![id.uuid().as_bytes(), conversation],
                |row| {
                    Ok(Self {
                        key: row.get(0)?,
                        action: rows::word(row, 1, CompactionAction::parse)?,
                        outcome: rows::word(row, 2, CompactionOutcome::parse)?,
                        below: row.get(3)?,
                    })
                },
            )
            .optional()
            .translated()
    }

    fn refusal(&self, ground: Option<Ground>) -> Option<UndoRefusal> {
        match (self.action, self.outcome) {
            (CompactionAction::Undo, _) => Some(UndoRefusal::IsAnUndo),
            (CompactionAction::Compact, CompactionOutcome::Failed) => Some(UndoRefusal::NeverApplied),
            (CompactionAction::Compact, CompactionOutcome::Undone) => Some(UndoRefusal::AlreadyUndone),
            (CompactionAction::Compact, CompactionOutcome::Applied | CompactionOutcome::Trimmed) => match ground {
                Some(ground) if ground.key == self.key => None,
                Some(ground) => Some(UndoRefusal::Covered(ground.id)),
                None => Some(UndoRefusal::AlreadyUndone),
            },
        }
    }
}
