//! Puts a summary in place of old messages, in one transaction.
//!
//! No message is copied or moved. The summary is a new message, and the compaction becomes the base of the head
//! session.

use herma_model::alias::Namespace;
use herma_model::compaction::{CompactionAction, CompactionOutcome};
use herma_model::provenance::CompactionMode;
use herma_model::{Alias, ConversationEvent, TenantId, Timestamp, TurnId};
use herma_store::{Authority, CompactOutcome, Compacted, Lease, NewCompaction, Scope, StoreError, Version};
use rusqlite::{Connection, params};

use crate::base::CompactionBase;
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::lineage::Lineage;
use crate::rows::ConversationState;
use crate::tables::{CompactionColumns, add_compaction, carry, insert_message, set_base};
use crate::takeover::live_turn;
use crate::{conversation, events, ledger, memories, rewinds, snapshot};

/// Compacts, or changes nothing except that a dead owner's turn is ended.
pub(crate) fn compact(
    connection: &Connection,
    instance: &mut Instance,
    compaction: &NewCompaction,
) -> StoreResult<CompactOutcome> {
    let (tenant, turn) = match &compaction.authority {
        Authority::Lease(lease) => (lease.tenant, Some(lease.turn)),
        Authority::Idle { scope, .. } => (scope.tenant, None),
    };
    let state = match &compaction.authority {
        Authority::Lease(lease) => leased(connection, instance, *lease)?,
        Authority::Idle { scope, alias } => match idle(connection, instance, scope, alias, compaction.now)? {
            Idle::Free(state) if state.ended => return Ok(CompactOutcome::Ended),
            Idle::Free(state) => *state,
            Idle::Busy(turn) => return Ok(CompactOutcome::Busy(turn)),
            Idle::NotFound => return Ok(CompactOutcome::NotFound),
        },
    };
    let compaction_base = CompactionBase::shown(connection, state.head, &rewinds::of(connection, state.key)?)?;
    if compaction_base.map(|compaction_base| compaction_base.id) != compaction.base
        || was_rewritten(connection, &state, compaction)?
        || !still_covers(connection, &state, compaction_base, compaction)?
    {
        return Ok(CompactOutcome::Stale);
    }
    let head = match compaction.mode {
        CompactionMode::Split => conversation::split(connection, &state, compaction)?,
        CompactionMode::InPlace => state.head,
    };
    let key = write(connection, &state, head, compaction_base, (tenant, turn), compaction)?;
    set_base(connection, head, Some(key))?;
    let lineage = Lineage::after(connection, &state, 0)?;
    carry(connection, state.key, &lineage, key, compaction.carried.iter().copied())?;
    connection
        .execute(
            "UPDATE conversations SET version = version + 1, changes = changes + 1, next_seq = next_seq + 1,
             compaction_count = compaction_count + 1, compaction_mode = ?2, updated_at = ?3, counted_seq = NULL,
             counted_tokens = NULL, auto_compaction_paused = 0 WHERE pk = ?1",
            params![state.key, compaction.mode.as_str(), compaction.now.0],
        )
        .translated()?;
    if let Some(turn) = turn
        && head != state.head
    {
        connection.execute("UPDATE turns SET rotated = 1, session_pk = ?2 WHERE pk = ?1", [turn, head]).translated()?;
    }
    if !compaction.facts.is_empty() && memories::recorded::all_of(connection, &lineage, compaction.through)? {
        for fact in &compaction.facts {
            memories::add(connection, fact)?;
        }
    }
    let done = compacted(connection, state.key, key)?;
    if head != state.head {
        events::record(connection, state.key, &done.facts, ConversationEvent::HeadMoved, compaction.now)?;
    }
    Ok(CompactOutcome::Compacted(done))
}

/// Whether a message was rewritten or removed since the plan was made.
fn was_rewritten(connection: &Connection, state: &ConversationState, compaction: &NewCompaction) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM conversations WHERE pk = ?1 AND rewrites <> ?2")
        .and_then(|mut select| select.exists(params![state.key, compaction.rewrites]))
        .translated()
}

/// Whether the last message that the plan covers is still there. It may have been retracted, and another one stored at
/// its place.
fn still_covers(
    connection: &Connection,
    state: &ConversationState,
    compaction_base: Option<CompactionBase>,
    compaction: &NewCompaction,
) -> StoreResult<bool> {
    if compaction.through.0 == compaction_base.map_or(0, |compaction_base| compaction_base.through) {
        return Ok(true);
    }
    let holder = Lineage::after(connection, state, compaction.through.0 - 1)?.holder(compaction.through.0);
    connection
        .prepare_cached(
            "SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = ?1 AND s.pk >= ?2 AND m.seq = ?3 AND m.id = ?4 AND m.compaction_pk IS NULL",
        )
        .and_then(|mut select| {
            let from = compaction_base.map_or(0, |compaction_base| compaction_base.tail);
            select.exists(params![holder, from, compaction.through.0, compaction.last.uuid().as_bytes()])
        })
        .translated()
}

/// The conversation of a turn that holds its lease.
fn leased(connection: &Connection, instance: &mut Instance, lease: Lease) -> StoreResult<ConversationState> {
    let holds = connection
        .prepare_cached(
            "SELECT 1 FROM conversations WHERE pk = ?1 AND tenant_pk = ?2 AND running_turn = ?3 AND fence = ?4",
        )
        .and_then(|mut select| select.exists([lease.conversation, lease.tenant.0, lease.turn, lease.fence.0]))
        .translated()?;
    if !holds {
        instance.forget_given_up(lease);
        return Err(StoreError::Fenced);
    }
    snapshot::load(connection, lease.conversation)
}

/// A conversation as a caller without a lease finds it.
pub(crate) enum Idle {
    /// No turn is running.
    Free(Box<ConversationState>),
    /// This turn is running.
    Busy(TurnId),
    /// It does not exist for the caller.
    NotFound,
}

/// Finds a conversation that has no running turn. A dead owner's turn is ended first.
pub(crate) fn idle(
    connection: &Connection,
    instance: &Instance,
    scope: &Scope,
    alias: &Alias,
    now: Timestamp,
) -> StoreResult<Idle> {
    let found = snapshot::visible(connection, scope, alias, Namespace::Session)?;
    let Some((mut state, _)) = found.filter(|(state, _)| !state.provisional) else { return Ok(Idle::NotFound) };
    let live = live_turn(connection, instance, &mut state, now)?;
    Ok(live.map_or(Idle::Free(Box::new(state)), |live| Idle::Busy(live.id)))
}

/// Writes the summary and the row of the ledger, which refer to each other.
fn write(
    connection: &Connection,
    state: &ConversationState,
    head: i64,
    compaction_base: Option<CompactionBase>,
    (tenant, turn): (TenantId, Option<i64>),
    compaction: &NewCompaction,
) -> StoreResult<i64> {
    let summary = insert_message(connection, head, state.next_seq, 0, 0, &compaction.summary, compaction.now)?;
    let columns = CompactionColumns {
        tenant_pk: tenant.0,
        conversation_pk: state.key,
        id: compaction.id.uuid().into_bytes(),
        action: CompactionAction::Compact.as_str(),
        mode: compaction.mode.as_str(),
        trigger: compaction.trigger.as_str(),
        made_by: compaction.made_by.as_str(),
        outcome: CompactionOutcome::Applied.as_str(),
        session_before_pk: state.head,
        session_after_pk: head,
        base_pk: compaction_base.map(|compaction_base| compaction_base.key),
        first_seq: compaction_base.map_or(0, |compaction_base| compaction_base.through) + 1,
        through_seq: compaction.through.0,
        tail_session_pk: Some(tail(connection, state, compaction_base, compaction.through.0)?),
        summary_pk: Some(summary),
        model: compaction.model.as_deref(),
        tokens_before: compaction.sizes.before as i64,
        tokens_after: compaction.sizes.after as i64,
        duration_ms: compaction.duration_ms as i64,
        failure: compaction.trimmed.as_deref(),
        trimmed: compaction.trimmed.is_some(),
        turn_pk: turn,
        created_at: compaction.now.0,
        ..CompactionColumns::default()
    };
    add_compaction(connection, &columns.with_usage(compaction.usage))
}

/// The session of the first message after `through`. If there is none yet, it is the head.
fn tail(
    connection: &Connection,
    state: &ConversationState,
    compaction_base: Option<CompactionBase>,
    through: i64,
) -> StoreResult<i64> {
    let from = compaction_base
        .filter(|compaction_base| compaction_base.through <= through)
        .map_or(0, |compaction_base| compaction_base.tail);
    let first = Lineage::after(connection, state, through)?.first_after(connection, through, from)?;
    Ok(first.unwrap_or(state.head))
}

/// The conversation after a row was added to its ledger. Also writes the event.
pub(crate) fn compacted(connection: &Connection, conversation: i64, key: i64) -> StoreResult<Box<Compacted>> {
    let state = snapshot::load(connection, conversation)?;
    let record = ledger::by_key(connection, key)?;
    let what = ConversationEvent::Compacted { compaction_id: record.id, action: record.action, mode: record.mode };
    events::record(connection, conversation, &state.facts, what, record.created_at)?;
    let (version, revision) = (Version(state.version), state.revision());
    Ok(Box::new(Compacted { record, version, revision, facts: state.facts }))
}
