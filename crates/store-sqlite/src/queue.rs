//! Waiting turns: rows in ticket order, without those of dead processes.

use herma_model::{Resolution, Timestamp, TurnFailure, TurnId, TurnState};
use herma_store::{Admission, NewResponse, RetryIdentity, Scope, StoreError, Ticket, TurnPolicy};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::conversation;
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::rows::{self, ConversationState};
use crate::tables::{TurnColumns, insert_turn};
use crate::takeover::TakeoverReason;
use crate::waiting;

/// A waiting turn.
pub(crate) struct Waiter {
    key: i64,
    owner: i64,
    priority: i64,
    pub(crate) id: TurnId,
}

impl Waiter {
    /// Whether the admission has to let this turn go first.
    pub(crate) fn goes_before(&self, admission: &Admission) -> bool {
        Some(Ticket(self.key)) != admission.ticket && self.priority >= priority(admission.policy)
    }
}

/// An interrupting turn goes before the others.
fn priority(policy: TurnPolicy) -> i64 {
    i64::from(policy == TurnPolicy::Interrupt)
}

/// The first waiting turn whose process lives, if any. Removes those before it whose process is dead.
pub(crate) fn first(
    connection: &Connection,
    instance: &Instance,
    conversation: i64,
    now: Timestamp,
) -> StoreResult<Option<Waiter>> {
    // Both conditions on the state are needed: only the first one makes the index of live turns usable.
    let mut select = connection
        .prepare_cached(
            "SELECT pk, owner, priority, coalesce(attempt_of, id) FROM turns
             WHERE conversation_pk = ?1 AND state IN ('queued', 'running') AND state = 'queued'
             ORDER BY priority DESC, pk LIMIT 1",
        )
        .translated()?;
    loop {
        let Some(waiter) = select.query_row([conversation], read).optional().translated()? else { return Ok(None) };
        if !instance.is_dead(connection, waiter.owner, waiter.key)? {
            return Ok(Some(waiter));
        }
        remove(connection, conversation, waiter.key, &TakeoverReason::OwnerGone.failure(), now)?;
    }
}

/// How many turns of living processes wait. Removes the others.
pub(crate) fn length(
    connection: &Connection,
    instance: &Instance,
    conversation: i64,
    now: Timestamp,
) -> StoreResult<i64> {
    let waiters: Vec<Waiter> = connection
        .prepare_cached(
            "SELECT pk, owner, priority, coalesce(attempt_of, id) FROM turns
             WHERE conversation_pk = ?1 AND state IN ('queued', 'running') AND state = 'queued'",
        )
        .and_then(|mut select| select.query_map([conversation], read)?.collect())
        .translated()?;
    let mut length = 0;
    for waiter in waiters {
        if instance.is_dead(connection, waiter.owner, waiter.key)? {
            remove(connection, conversation, waiter.key, &TakeoverReason::OwnerGone.failure(), now)?;
        } else {
            length += 1;
        }
    }
    Ok(length)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Waiter> {
    Ok(Waiter {
        key: row.get(0)?,
        owner: row.get(1)?,
        priority: row.get(2)?,
        id: TurnId::from_uuid(rows::uuid(row, 3)?),
    })
}

/// Whether a turn still has its place in the queue.
pub(crate) fn waits(connection: &Connection, instance: &mut Instance, ticket: Ticket) -> StoreResult<bool> {
    let stored = connection
        .prepare_cached("SELECT 1 FROM turns WHERE pk = ?1 AND state = 'queued'")
        .and_then(|mut select| select.exists([ticket.0]))
        .translated()?;
    if !stored {
        instance.live.remove(ticket.0);
    }
    Ok(instance.live.contains(ticket.0))
}

/// The conversation in whose queue a turn waits. The turn may run in another one: the running turn can make it a
/// branch.
pub(crate) fn conversation_of(connection: &Connection, ticket: Ticket) -> StoreResult<i64> {
    connection
        .prepare_cached("SELECT conversation_pk FROM turns WHERE pk = ?1")
        .and_then(|mut select| select.query_row([ticket.0], |row| row.get(0)))
        .translated()
}

/// What is stored of a waiting turn.
pub(crate) struct NewWaiter<'a> {
    pub(crate) tenant: i64,
    pub(crate) conversation: i64,
    pub(crate) session: i64,
    pub(crate) id: TurnId,
    pub(crate) api: &'a str,
    pub(crate) owner: i64,
    pub(crate) policy: TurnPolicy,
    pub(crate) retry: &'a RetryIdentity,
    pub(crate) resolution: &'a str,
    pub(crate) response: Option<&'a NewResponse>,
    /// The turn under whose id it waits, if it is a further attempt of that turn. Its row is deleted when it gives up.
    pub(crate) attempt_of: Option<TurnId>,
    pub(crate) now: Timestamp,
}

/// Adds a turn to the queue. An interrupting turn goes before the others.
pub(crate) fn add(connection: &Connection, waiter: &NewWaiter<'_>) -> StoreResult<i64> {
    let columns = TurnColumns {
        tenant_pk: waiter.tenant,
        id: waiter.id.uuid().into_bytes(),
        conversation_pk: waiter.conversation,
        session_pk: waiter.session,
        api: waiter.api,
        state: TurnState::Queued.as_str(),
        owner: waiter.owner,
        priority: priority(waiter.policy),
        resolution: waiter.resolution,
        fingerprint: &waiter.retry.fingerprint,
        created_at: waiter.now.0,
        sdk_attempt: waiter.retry.sdk_attempt,
        joinable: true,
        attempt_of: waiter.attempt_of.map(|turn| turn.uuid().into_bytes()),
        ..TurnColumns::default()
    };
    let key = insert_turn(connection, &columns.with_response(waiter.response))?;
    count(connection, waiter.conversation, 1)?;
    Ok(key)
}

/// The row of a turn that never began and does not wait in a living process. `None` if a client cancelled it.
fn never_began(connection: &Connection, instance: &Instance, turn: TurnId) -> StoreResult<Option<i64>> {
    let row: Option<(i64, TurnState, i64)> = connection
        .query_row(
            "SELECT pk, state, owner FROM turns WHERE id = ?1 AND first_seq IS NULL AND stop_kind IS NOT 'cancel'",
            [turn.uuid().as_bytes()],
            |row| Ok((row.get(0)?, rows::word(row, 1, TurnState::parse)?, row.get(2)?)),
        )
        .optional()
        .translated()?;
    Ok(match row {
        Some((key, state, _)) if state.is_unanswered() => Some(key),
        Some((key, TurnState::Queued, owner)) if instance.is_dead(connection, owner, key)? => Some(key),
        _ => None,
    })
}

/// Whether an admission can queue again under the id that it brings.
pub(crate) fn may_enter_again(
    connection: &Connection,
    instance: &Instance,
    admission: &Admission,
) -> StoreResult<bool> {
    Ok(never_began(connection, instance, admission.turn)?.is_some())
}

/// Queues a turn again that never began. It keeps its id, its age and the request fields that its response repeats.
pub(crate) fn enter_again(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    state: &ConversationState,
    resolution: Resolution,
) -> StoreResult<(i64, Timestamp)> {
    let gone = || StoreError::Unavailable("the turn that is asked for again is gone".to_owned());
    let key = never_began(connection, instance, admission.turn)?.ok_or_else(gone)?;
    connection
        .execute(
            "UPDATE conversations SET waiting = waiting - 1
             WHERE pk = (SELECT conversation_pk FROM turns WHERE pk = ?1 AND state = 'queued')",
            [key],
        )
        .translated()?;
    let since = connection
        .query_row(
            "UPDATE turns SET state = 'queued', conversation_pk = ?2, session_pk = ?3, owner = ?4, priority = ?5,
             resolution = ?6, fingerprint = ?7, sdk_attempt = ?8, joinable = 1, delivered = 0, retried = 0,
             failure_code = NULL, failure_message = NULL, ended_at = NULL WHERE pk = ?1 RETURNING created_at",
            params![
                key,
                state.key,
                state.head,
                instance.key(connection, admission.now)?,
                priority(admission.policy),
                resolution.as_str(),
                &admission.retry.fingerprint,
                admission.retry.sdk_attempt
            ],
            |row| row.get(0),
        )
        .translated()?;
    waiting::delete(connection, key)?;
    count(connection, state.key, 1)?;
    Ok((key, Timestamp(since)))
}

/// The waiting attempts of a failed turn: their row keys and their owners.
pub(crate) fn attempts_of(connection: &Connection, turn: TurnId) -> StoreResult<Vec<(i64, i64)>> {
    connection
        .prepare_cached("SELECT pk, owner FROM turns WHERE attempt_of = ?1 AND state = 'queued'")
        .and_then(|mut select| {
            select.query_map([turn.uuid().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .translated()
}

/// Removes a waiting turn. If it was visible while queued, it ends; else its row is deleted.
fn remove(connection: &Connection, conversation: i64, turn: i64, why: &TurnFailure, now: Timestamp) -> StoreResult<()> {
    let forgotten = connection
        .prepare_cached("DELETE FROM turns WHERE pk = ?1 AND state = 'queued' AND visible_while_queued = 0")
        .and_then(|mut delete| delete.execute([turn]))
        .translated()?;
    if forgotten == 0 && !end(connection, conversation, turn, why, now)? {
        return Ok(());
    }
    if forgotten == 1 {
        forget_idempotency(connection, turn)?;
    }
    count(connection, conversation, -1)
}

/// Ends a waiting turn. Its conversation is no longer provisional then, even if this was its only turn. The same
/// request finds the turn by its key or its fingerprint, and may take it over.
fn end(connection: &Connection, conversation: i64, turn: i64, why: &TurnFailure, now: Timestamp) -> StoreResult<bool> {
    let ended = connection
        .execute(
            "UPDATE turns SET state = ?2, failure_code = ?3, failure_message = ?4, ended_at = ?5
             WHERE pk = ?1 AND state = 'queued'",
            params![turn, why.code.ends_as().as_str(), why.code.as_str(), why.message, now.0],
        )
        .translated()?;
    connection.execute("UPDATE conversations SET provisional = 0 WHERE pk = ?1", [conversation]).translated()?;
    Ok(ended == 1)
}

/// Removes a turn from the queue for good, and its conversation if that was made only for it.
pub(crate) fn leave(
    connection: &Connection,
    conversation: i64,
    turn: i64,
    why: &TurnFailure,
    now: Timestamp,
) -> StoreResult<()> {
    remove(connection, conversation, turn, why, now)?;
    conversation::abandon(connection, conversation, now)
}

/// Removes the caller's own turn from the queue, if it waits.
pub(crate) fn withdraw(
    connection: &Connection,
    instance: &mut Instance,
    scope: &Scope,
    turn: TurnId,
    why: &TurnFailure,
    now: Timestamp,
) -> StoreResult<()> {
    let waiting: Option<(i64, i64)> = connection
        .prepare_cached("SELECT pk, conversation_pk FROM turns WHERE id = ?1 AND tenant_pk = ?2 AND state = 'queued'")
        .and_then(|mut select| {
            select
                .query_row(params![turn.uuid().as_bytes(), scope.tenant.0], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .translated()?;
    if let Some((key, conversation)) = waiting {
        instance.live.remove(key);
        leave(connection, conversation, key, why, now)?;
    }
    Ok(())
}

/// Deletes the idempotency keys of a turn that was removed.
pub(crate) fn forget_idempotency(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM idempotency WHERE turn_pk = ?1")
        .and_then(|mut delete| delete.execute([turn]))
        .map(drop)
        .translated()
}

/// Changes the number of waiting turns of a conversation.
pub(crate) fn count(connection: &Connection, conversation: i64, change: i64) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE conversations SET waiting = waiting + ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute([conversation, change]))
        .map(drop)
        .translated()
}
