//! Parks a turn that waits for people, and resumes it.
//!
//! The owner of a parked turn is [`NOBODY`], and its fence is above that of the lease that it had. So no process can
//! write under that lease, and no process ends the turn because its owner is dead.

use std::sync::Arc;

use herma_model::{Fence, KeyScope, StopKind, TenantId, Timestamp, TurnId};
use herma_store::{
    Extent, Lease, Park, PendingApproval, Receipt, Resumed, Revision, Running, Scope, StoreError, Version,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::instance::{Instance, NOBODY};
use crate::rows::ConversationState;
use crate::tables::insert_parked;
use crate::takeover::{TakeoverReason, take_over};
use crate::{approvals, commit, snapshot, turns};

/// Parks a turn, or changes nothing.
pub(crate) fn park(connection: &Connection, instance: &mut Instance, park: &Park) -> StoreResult<()> {
    let lease = park.lease;
    let fence = lease.fence.0 + 1;
    let held: Option<i64> = connection
        .query_row(
            "UPDATE conversations SET fence = ?5 WHERE pk = ?1 AND tenant_pk = ?2 AND running_turn = ?3 AND fence = ?4
             RETURNING next_seq",
            [lease.conversation, lease.tenant.0, lease.turn, lease.fence.0, fence],
            |row| row.get(0),
        )
        .optional()
        .translated()?;
    let next_seq = held.ok_or(StoreError::Fenced)?;
    let parked = connection
        .execute(
            "UPDATE turns SET owner = ?2, fence = ?3 WHERE pk = ?1 AND stop_requested IS NULL",
            [lease.turn, NOBODY, fence],
        )
        .translated()?;
    if parked == 0 {
        return Err(commit::stop_requested(connection, lease.turn)?);
    }
    if lease.resumed {
        approvals::forget(connection, lease.turn)?;
    }
    insert_parked(connection, park, next_seq)?;
    instance.end(lease);
    Ok(())
}

/// Gives a parked turn to this process, if it has no open question.
pub(crate) fn resume(
    connection: &Connection,
    instance: &mut Instance,
    turn: TurnId,
    now: Timestamp,
) -> StoreResult<Option<Resumed>> {
    let Some(parked) = ParkedRow::find(connection, turn)? else { return Ok(None) };
    let asked = approvals::of_turn(connection, parked.key)?;
    if asked.iter().any(|asked| asked.approval.answer.is_none()) {
        return Ok(None);
    }
    let owner = instance.key(connection, now)?;
    let fence: i64 = connection
        .query_row(
            "UPDATE conversations SET fence = fence + 1 WHERE pk = ?1 RETURNING fence",
            [parked.conversation],
            |row| row.get(0),
        )
        .translated()?;
    connection
        .execute("UPDATE turns SET owner = ?2, fence = ?3 WHERE pk = ?1", [parked.key, owner, fence])
        .translated()?;
    connection.execute("DELETE FROM parked_turns WHERE turn_pk = ?1", [parked.key]).translated()?;
    let scope = Scope { tenant: parked.tenant, keys: KeyScope::All, expected: None };
    let gone = || StoreError::Failed(format!("the parked turn {turn} cannot be read"));
    let record = turns::turn(connection, &scope, turn)?.ok_or_else(gone)?;
    let state = snapshot::load(connection, parked.conversation)?;
    let (version, changes) = (Version(state.version), state.changes);
    let snapshot = snapshot::read(connection, parked.tenant, state, None, Extent::View)?.ok_or_else(gone)?;
    instance.live.insert(parked.key, Fence(fence));
    instance.deliveries.began(parked.tenant, turn, parked.key);
    let running = Running {
        turn,
        attempt: record.attempt,
        lease: Lease {
            tenant: parked.tenant,
            conversation: parked.conversation,
            turn: parked.key,
            fence: Fence(fence),
            id: turn,
            attempt: record.attempt,
            renewal_series: instance.renewal_series(),
            resumed: true,
        },
        facts: Arc::clone(&snapshot.facts),
        version,
        revision: Revision::after_turn(Fence(fence), changes),
        messages: record.input.clone(),
        resolution: record.resolution,
        started_at: record.started_at,
        // The stored request of a parked turn has it.
        usage: None,
        // It has recalled before it was parked.
        memory: None,
        durable: Receipt::durable(),
    };
    let approvals: Vec<PendingApproval> = asked.into_iter().map(|asked| asked.approval).collect();
    Ok(Some(Resumed { running, snapshot, record, request: parked.request, approvals }))
}

struct ParkedRow {
    key: i64,
    tenant: TenantId,
    conversation: i64,
    request: String,
}

impl ParkedRow {
    fn find(connection: &Connection, turn: TurnId) -> StoreResult<Option<Self>> {
        connection
            .query_row(
                "SELECT t.pk, t.tenant_pk, t.conversation_pk, p.request FROM turns t
                 JOIN parked_turns p ON p.turn_pk = t.pk WHERE t.id = ?1",
                [turn.uuid().as_bytes()],
                |row| {
                    Ok(Self {
                        key: row.get(0)?,
                        tenant: TenantId(row.get(1)?),
                        conversation: row.get(2)?,
                        request: row.get(3)?,
                    })
                },
            )
            .optional()
            .translated()
    }
}

/// Ends a parked turn, which has no process that could be asked to. Its open calls get results: they were not made.
pub(crate) fn end_parked(
    connection: &Connection,
    state: &mut ConversationState,
    turn: i64,
    kind: StopKind,
    now: Timestamp,
) -> StoreResult<()> {
    connection.execute("UPDATE turns SET stop_kind = ?2 WHERE pk = ?1", params![turn, kind.as_str()]).translated()?;
    take_over(connection, state, turn, TakeoverReason::of(Some(kind)), now)
}
