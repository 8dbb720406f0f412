//! The ledger of a conversation's compactions.

use herma_model::alias::Namespace;
use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger, MadeBy, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{Alias, Compaction, CompactionId, Seq, SessionId, Timestamp, TurnId};
use herma_store::{FailedCompaction, LedgerPage, Scope};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use crate::failure::{StoreResult, Translate};
use crate::rows::{self, MESSAGE_WIDTH, SUMMARY};
use crate::snapshot;
use crate::tables::{CompactionColumns, add_compaction};

/// The outcome of a compaction, as a column. The table's own `outcome` has no value for a trimmed one.
pub(crate) const OUTCOME: &str = "iif(k.outcome = 'applied' AND k.trimmed = 1, 'trimmed', k.outcome)";

const ROW: &str = "k.pk, k.action, k.mode, k.trigger, b.id, a.id, k.first_seq, k.through_seq, k.model, \
     k.tokens_before, k.tokens_after, k.input_tokens, k.output_tokens, k.cached_tokens, k.reasoning_tokens, \
     k.duration_ms, k.failure, u.id, v.id, coalesce(t.attempt_of, t.id), k.created_at, k.id, k.made_by";

const JOINS: &str = "FROM compactions k JOIN sessions b ON b.pk = k.session_before_pk
     JOIN sessions a ON a.pk = k.session_after_pk
     LEFT JOIN messages m ON m.pk = k.summary_pk LEFT JOIN sessions s ON s.pk = m.session_pk
     LEFT JOIN compactions u ON u.pk = k.undoes_pk LEFT JOIN compactions v ON v.pk = k.undone_by_pk
     LEFT JOIN turns t ON t.pk = k.turn_pk";

/// A row that is known to exist.
pub(crate) fn by_key(connection: &Connection, key: i64) -> StoreResult<Compaction> {
    let row = connection
        .prepare_cached(&format!("SELECT {SUMMARY}, {ROW}, {OUTCOME} {JOINS} WHERE k.pk = ?1"))
        .and_then(|mut select| select.query_row([key], read))
        .translated()?;
    with_carried(connection, row)
}

/// One row of the ledger of the conversation a name leads to.
pub(crate) fn one(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    id: CompactionId,
) -> StoreResult<Option<Compaction>> {
    let Some((state, _)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else { return Ok(None) };
    let row = connection
        .prepare_cached(&format!(
            "SELECT {SUMMARY}, {ROW}, {OUTCOME} {JOINS} WHERE k.id = ?1 AND k.conversation_pk = ?2"
        ))
        .and_then(|mut select| select.query_row(params![id.uuid().as_bytes(), state.key], read).optional())
        .translated()?;
    row.map(|row| with_carried(connection, row)).transpose()
}

/// A page of the ledger of the conversation a name leads to, newest first.
pub(crate) fn page(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    before: Option<i64>,
    limit: usize,
) -> StoreResult<Option<LedgerPage>> {
    let Some((state, _)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else { return Ok(None) };
    let mut keyed: Vec<(i64, Compaction)> = connection
        .prepare_cached(&format!(
            "SELECT {SUMMARY}, {ROW}, {OUTCOME} {JOINS} WHERE k.conversation_pk = ?1 AND k.pk < ?2 ORDER BY k.pk DESC
             LIMIT ?3"
        ))
        .and_then(|mut select| {
            select.query_map([state.key, before.unwrap_or(i64::MAX), limit as i64 + 1], read)?.collect()
        })
        .translated()?;
    let more = keyed.len() > limit;
    keyed.truncate(limit);
    let next = keyed.last().filter(|_| more).map(|(key, _)| *key);
    let rows = keyed.into_iter().map(|row| with_carried(connection, row)).collect::<StoreResult<_>>()?;
    Ok(Some(LedgerPage { rows, next }))
}

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, Compaction)> {
    const AT: usize = MESSAGE_WIDTH;
    let session = |column| Ok::<_, rusqlite::Error>(SessionId::from_name(row.get_ref(column)?.as_str()?));
    let written = row.get_ref(0)?.data_type() != Type::Null;
    let compaction = Compaction {
        id: CompactionId::from_uuid(rows::uuid(row, AT + 21)?),
        action: rows::word(row, AT + 1, CompactionAction::parse)?,
        mode: rows::word(row, AT + 2, CompactionMode::parse)?,
        trigger: rows::word(row, AT + 3, CompactionTrigger::parse)?,
        made_by: rows::word(row, AT + 22, MadeBy::parse)?,
        outcome: rows::word(row, AT + 23, CompactionOutcome::parse)?,
        session_before: session(AT + 4)?,
        session_after: session(AT + 5)?,
        first: Seq(row.get(AT + 6)?),
        through: Seq(row.get(AT + 7)?),
        carried: Vec::new(),
        summary: written.then(|| rows::summary(row, 0)).transpose()?,
        model: row.get(AT + 8)?,
        sizes: Sizes { before: rows::count(row, AT + 9)?, after: rows::count(row, AT + 10)? },
        usage: rows::usage(row, AT + 11)?,
        duration_ms: rows::count(row, AT + 15)?,
        failure: row.get(AT + 16)?,
        undoes: optional_id(row, AT + 17)?.map(CompactionId::from_uuid),
        undone_by: optional_id(row, AT + 18)?.map(CompactionId::from_uuid),
        turn: optional_id(row, AT + 19)?.map(TurnId::from_uuid),
        created_at: Timestamp(row.get(AT + 20)?),
    };
    Ok((row.get(AT)?, compaction))
}

fn optional_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes))
}

fn with_carried(connection: &Connection, (key, mut compaction): (i64, Compaction)) -> StoreResult<Compaction> {
    compaction.carried = connection
        .prepare_cached("SELECT seq FROM carried WHERE compaction_pk = ?1 ORDER BY seq")
        .and_then(|mut select| select.query_map([key], |row| row.get(0).map(Seq))?.collect())
        .translated()?;
    Ok(compaction)
}

/// Records a compaction that failed. The context did not change.
pub(crate) fn record_failed(connection: &Connection, failed: &FailedCompaction) -> StoreResult<()> {
    let conversation = connection
        .prepare_cached(
            "SELECT c.pk, h.pk, h.base_compaction_pk, t.pk FROM conversations c JOIN sessions h ON h.pk = c.head_pk
             LEFT JOIN turns t ON t.id = ?3 AND t.conversation_pk = c.pk
             WHERE c.id = ?2 AND c.tenant_pk = ?1 AND c.provisional = 0 AND c.deleted = 0",
        )
        .and_then(|mut select| {
            let turn = failed.turn.map(|turn| turn.uuid().into_bytes());
            let found = params![failed.tenant.0, failed.conversation.uuid().into_bytes(), turn];
            select.query_row(found, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).optional()
        })
        .translated()?;
    let Some((conversation, head, base, turn)) = conversation else { return Ok(()) };
    let columns = CompactionColumns {
        tenant_pk: failed.tenant.0,
        conversation_pk: conversation,
        id: failed.id.uuid().into_bytes(),
        action: CompactionAction::Compact.as_str(),
        mode: failed.mode.as_str(),
        trigger: failed.trigger.as_str(),
        outcome: CompactionOutcome::Failed.as_str(),
        session_before_pk: head,
        session_after_pk: head,
        base_pk: base,
        first_seq: failed.first.0,
        through_seq: failed.through.0,
        model: failed.model.as_deref(),
        tokens_before: failed.tokens as i64,
        tokens_after: failed.tokens as i64,
        duration_ms: failed.duration_ms as i64,
        failure: Some(&failed.failure),
        turn_pk: turn,
        created_at: failed.now.0,
        ..CompactionColumns::default()
    };
    add_compaction(connection, &columns.with_usage(failed.usage)).map(drop)
}
