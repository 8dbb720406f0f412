//! Waiting turns: rows in ticket order, those of dead processes left out.

use herma_model::{Timestamp, TurnId};
use herma_store::{Scope, TurnPolicy};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::rows;

/// The first turn in line that is still wanted, if any. Removes those whose process is gone.
pub(crate) fn first(
    connection: &Connection,
    instance: &Instance,
    conversation: i64,
    now: Timestamp,
) -> Outcome<Option<(i64, TurnId)>> {
    let mut select = connection
        .prepare_cached(
            "SELECT pk, owner, id FROM turns WHERE conversation_pk = ?1 AND state = 'queued' ORDER BY priority DESC, pk LIMIT 1",
        )
        .translated()?;
    loop {
        let next: Option<(i64, i64, TurnId)> = select
            .query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?, TurnId::from_uuid(rows::uuid(row, 2)?))))
            .optional()
            .translated()?;
        let Some((turn, owner, id)) = next else { return Ok(None) };
        if !instance.is_dead(connection, owner, turn, now)? {
            return Ok(Some((turn, id)));
        }
        remove(connection, conversation, turn)?;
    }
}

/// What a waiting turn is stored with.
pub(crate) struct NewWaiter<'a> {
    pub(crate) tenant: i64,
    pub(crate) conversation: i64,
    pub(crate) session: i64,
    pub(crate) id: TurnId,
    pub(crate) api: &'a str,
    pub(crate) owner: i64,
    pub(crate) policy: TurnPolicy,
    pub(crate) fingerprint: &'a [u8; 16],
    pub(crate) resolution: &'a str,
    pub(crate) now: Timestamp,
}

/// Puts a turn in line: an interrupting one before those that merely wait.
pub(crate) fn add(connection: &Connection, waiter: &NewWaiter<'_>) -> Outcome<i64> {
    let priority = i64::from(waiter.policy == TurnPolicy::Interrupt);
    connection
        .prepare_cached(
            "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, priority, resolution, fingerprint, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 'queued', 0, ?6, ?7, ?8, ?9, ?10)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                waiter.tenant,
                waiter.id.uuid().as_bytes(),
                waiter.conversation,
                waiter.session,
                waiter.api,
                waiter.owner,
                priority,
                waiter.resolution,
                waiter.fingerprint,
                waiter.now.0
            ])
        })
        .translated()?;
    let key = connection.last_insert_rowid();
    count(connection, waiter.conversation, 1)?;
    Ok(key)
}

/// Takes a turn out of line.
pub(crate) fn remove(connection: &Connection, conversation: i64, turn: i64) -> Outcome<()> {
    connection
        .prepare_cached("DELETE FROM turns WHERE pk = ?1 AND state = 'queued'")
        .and_then(|mut delete| delete.execute([turn]))
        .translated()?;
    count(connection, conversation, -1)
}

/// Takes the caller's own turn out of line, if it waits.
pub(crate) fn withdraw(connection: &Connection, instance: &mut Instance, scope: &Scope, turn: TurnId) -> Outcome<()> {
    let waiting: Option<(i64, i64)> = connection
        .prepare_cached("SELECT pk, conversation_pk FROM turns WHERE id = ?1 AND tenant_pk = ?2 AND state = 'queued'")
        .and_then(|mut select| {
            select
                .query_row(params![turn.uuid().as_bytes(), scope.tenant.0], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .translated()?;
    if let Some((key, conversation)) = waiting {
        instance.live.remove(&key);
        forget_idempotency(connection, key)?;
        remove(connection, conversation, key)?;
    }
    Ok(())
}

/// A turn that came to nothing binds no idempotency key.
pub(crate) fn forget_idempotency(connection: &Connection, turn: i64) -> Outcome<()> {
    connection
        .prepare_cached("DELETE FROM idempotency WHERE turn_pk = ?1")
        .and_then(|mut delete| delete.execute([turn]))
        .map(drop)
        .translated()
}

fn count(connection: &Connection, conversation: i64, change: i64) -> Outcome<()> {
    connection
        .prepare_cached("UPDATE conversations SET waiting = waiting + ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute([conversation, change]))
        .map(drop)
        .translated()
}
