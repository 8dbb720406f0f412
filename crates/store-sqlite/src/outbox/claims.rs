//! Which process delivers what, and how a delivery ended.
//!
//! A scope is claimed by one process at a time. A claim ends when it is settled, after its lease, or when its process
//! has ended. A row is marked as tried before it is delivered, so a later attempt knows that it may be a repetition.

use std::time::Duration;

use herma_model::{ConversationId, MessageId, Role, Seq, SessionKey, TenantId, Timestamp, TurnId};
use herma_store::outbox::KEPT_DELIVERIES;
use herma_store::search::text_of;
use herma_store::{Delivery, DeliveryClaim, DeliveryOutcome, DeliveryTask, RecordedMessage, RecordedTurn, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::WHOLE_TENANT;
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::{rewinds, rows};

/// How many scopes are looked at for one claim.
const MOST_SCOPES: i64 = 16;
/// How long a scope waits for the erasure of its tenant before it is looked at again.
const BEHIND_ERASURE: Duration = Duration::from_secs(5);
/// How much of an error is kept.
const LONGEST_ERROR: usize = 300;

/// A scope that may be claimed.
struct DueScope {
    pk: i64,
    tenant: TenantId,
    session_key: Option<SessionKey>,
    claim: i64,
    failures: i64,
    owner: i64,
    due_at: i64,
}

/// A row of the outbox.
struct OutboxRow {
    pk: i64,
    task: String,
    turn: Option<i64>,
    conversation: Option<i64>,
    erased: Option<[u8; 16]>,
    tried: bool,
}

/// Whether a claim could find something.
pub(crate) fn is_due(connection: &Connection, now: Timestamp) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM outbox_scopes WHERE due_at IS NOT NULL AND due_at <= ?1)
             OR EXISTS (SELECT 1 FROM outbox_scopes WHERE owner <> 0)",
        )
        .and_then(|mut select| select.query_row([now.0], |row| row.get(0)))
        .translated()
}

/// Claims the next delivery.
pub(crate) fn next(connection: &Connection, instance: &mut Instance, now: Timestamp) -> StoreResult<Option<Delivery>> {
    give_up_oldest(connection)?;
    for scope in due_scopes(connection, instance, now)? {
        let Some(rows) = first_rows(connection, scope.pk)? else {
            connection
                .execute("UPDATE outbox_scopes SET due_at = NULL, owner = 0, failures = 0 WHERE pk = ?1", [scope.pk])
                .translated()?;
            continue;
        };
        if scope.session_key.is_some() && is_behind_tenant_erasure(connection, &scope, &rows)? {
            let later = now.plus(BEHIND_ERASURE).0;
            connection
                .execute("UPDATE outbox_scopes SET due_at = ?2, owner = 0 WHERE pk = ?1", [scope.pk, later])
                .translated()?;
            continue;
        }
        let owner = instance.key(connection, now)?;
        return claim(connection, scope, &rows, owner, now).map(Some);
    }
    Ok(None)
}

/// Whether the tenant is to be erased before these rows: what was said after an erasure must not go with it.
fn is_behind_tenant_erasure(connection: &Connection, scope: &DueScope, waiting: &[OutboxRow]) -> StoreResult<bool> {
    let first = waiting.first().map_or(0, |row| row.pk);
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM outbox_scopes s CROSS JOIN outbox o ON o.scope_pk = s.pk
             WHERE s.tenant_pk = ?1 AND s.session_key = ?2 AND o.pk < ?3)",
        )
        .and_then(|mut select| select.query_row(params![scope.tenant.0, WHOLE_TENANT, first], |row| row.get(0)))
        .translated()
}

/// Deletes turns that have waited while so many others were written. This bounds the outbox.
fn give_up_oldest(connection: &Connection) -> StoreResult<()> {
    let dropped = connection
        .prepare_cached("DELETE FROM outbox WHERE task = 'record' AND pk <= (SELECT max(pk) FROM outbox) - ?1")
        .and_then(|mut delete| delete.execute([KEPT_DELIVERIES]))
        .translated()?;
    if dropped > 0 {
        tracing::warn!(dropped, "the outside memory provider was away for too long; turns were not handed over");
        add_dropped(connection, dropped)?;
    }
    Ok(())
}

fn add_dropped(connection: &Connection, dropped: usize) -> StoreResult<()> {
    connection.execute("UPDATE outbox_state SET dropped = dropped + ?1", [dropped as i64]).map(drop).translated()
}

/// Scopes that are due, the longest waiting first, and those whose process has ended.
fn due_scopes(connection: &Connection, instance: &Instance, now: Timestamp) -> StoreResult<Vec<DueScope>> {
    const COLUMNS: &str = "pk, tenant_pk, session_key, claim, failures, owner, due_at";
    let select = |rest: &str, with: &[i64]| -> StoreResult<Vec<DueScope>> {
        connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM outbox_scopes {rest}"))
            .and_then(|mut select| select.query_map(rusqlite::params_from_iter(with), due_scope)?.collect())
            .translated()
    };
    let claimed = select("INDEXED BY outbox_scopes_claimed WHERE owner <> 0", &[])?;
    let mut busy_tenants = Vec::new();
    let mut due = Vec::new();
    for scope in claimed {
        if scope.due_at > now.0 && !instance.has_ended(connection, scope.owner)? {
            busy_tenants.push(scope.tenant);
        } else {
            due.push(scope);
        }
    }
    due.extend(select(
        "INDEXED BY outbox_scopes_due WHERE due_at IS NOT NULL AND due_at <= ?1 AND owner = 0 ORDER BY due_at LIMIT ?2",
        &[now.0, MOST_SCOPES],
    )?);
    // A tenant is erased after everything that is on its way.
    due.retain(|scope| scope.session_key.is_some() || !busy_tenants.contains(&scope.tenant));
    Ok(due)
}

fn due_scope(row: &Row<'_>) -> rusqlite::Result<DueScope> {
    Ok(DueScope {
        pk: row.get(0)?,
        tenant: TenantId(row.get(1)?),
        session_key: rows::session_key(row, 2)?,
        claim: row.get(3)?,
        failures: row.get(4)?,
        owner: row.get(5)?,
        due_at: row.get::<_, Option<i64>>(6)?.unwrap_or(0),
    })
}

/// The first rows of a scope that are delivered together: an erasure, or turns of one conversation.
fn first_rows(connection: &Connection, scope: i64) -> StoreResult<Option<Vec<OutboxRow>>> {
    let mut waiting: Vec<OutboxRow> = connection
        .prepare_cached(
            "SELECT pk, task, turn_pk, conversation_pk, conversation, tried FROM outbox
             WHERE scope_pk = ?1 AND held = 0 ORDER BY pk LIMIT ?2",
        )
        .and_then(|mut select| {
            let read = |row: &Row<'_>| {
                Ok(OutboxRow {
                    pk: row.get(0)?,
                    task: row.get(1)?,
                    turn: row.get(2)?,
                    conversation: row.get(3)?,
                    erased: row.get(4)?,
                    tried: row.get(5)?,
                })
            };
            select.query_map(params![scope, Delivery::MOST_TURNS as i64], read)?.collect()
        })
        .translated()?;
    let Some(first) = waiting.first() else { return Ok(None) };
    let (conversation, tried) = (first.conversation, first.tried);
    let together = match conversation {
        Some(_) => waiting.iter().take_while(|row| row.conversation == conversation && row.tried == tried).count(),
        None => 1,
    };
    waiting.truncate(together);
    Ok(Some(waiting))
}

fn claim(
    connection: &Connection,
    scope: DueScope,
    waiting: &[OutboxRow],
    owner: i64,
    now: Timestamp,
) -> StoreResult<Delivery> {
    let (Some(first), Some(last)) = (waiting.first(), waiting.last()) else {
        return Err(StoreError::Failed("a claim has no rows".to_owned()));
    };
    let number = scope.claim + 1;
    connection
        .execute(
            "UPDATE outbox_scopes SET owner = ?2, claim = ?3, due_at = ?4 WHERE pk = ?1",
            params![scope.pk, owner, number, now.plus(Delivery::LEASE).0],
        )
        .translated()?;
    let mut mark = connection.prepare_cached("UPDATE outbox SET tried = 1 WHERE pk = ?1").translated()?;
    for row in waiting {
        mark.execute([row.pk]).translated()?;
    }
    let erased = || first.erased.map(|id| ConversationId::from_uuid(uuid::Uuid::from_bytes(id)));
    let task = match (first.task.as_str(), first.conversation, erased()) {
        ("record", Some(conversation), _) => record_task(connection, conversation, waiting)?,
        ("erase_conversation", _, Some(conversation)) => DeliveryTask::EraseConversation(conversation),
        ("erase_tenant", ..) => DeliveryTask::EraseTenant,
        _ => DeliveryTask::EraseKey,
    };
    Ok(Delivery {
        claim: DeliveryClaim { scope: scope.pk, claim: number, rows: (first.pk, last.pk) },
        tenant: scope.tenant,
        session_key: scope.session_key,
        task,
        is_repeated: first.tried,
        failures: u32::try_from(scope.failures).unwrap_or(u32::MAX),
    })
}

fn record_task(connection: &Connection, conversation: i64, waiting: &[OutboxRow]) -> StoreResult<DeliveryTask> {
    let id = connection
        .query_row("SELECT id FROM conversations WHERE pk = ?1", [conversation], |row| rows::uuid(row, 0))
        .translated()?;
    let mut turns = Vec::new();
    for turn in waiting.iter().filter_map(|row| row.turn) {
        turns.extend(recorded_turn(connection, conversation, turn)?);
    }
    Ok(DeliveryTask::Record(ConversationId::from_uuid(id), turns))
}

/// What was said in a turn. `None` if nothing of it is there any more.
fn recorded_turn(connection: &Connection, conversation: i64, turn: i64) -> StoreResult<Option<RecordedTurn>> {
    let found: Option<(TurnId, i64, i64)> = connection
        .prepare_cached("SELECT id, first_seq, last_seq FROM turns WHERE pk = ?1 AND first_seq IS NOT NULL")
        .and_then(|mut select| {
            select
                .query_row([turn], |row| Ok((TurnId::from_uuid(rows::uuid(row, 0)?), row.get(1)?, row.get(2)?)))
                .optional()
        })
        .translated()?;
    let Some((id, first, last)) = found else { return Ok(None) };
    let messages: Vec<Option<RecordedMessage>> = connection
        .prepare_cached(
            "SELECT m.id, m.seq, m.role, m.payload, m.created_at, c.rewinds FROM conversations c
             CROSS JOIN sessions s ON s.conversation_pk = c.pk CROSS JOIN messages m ON m.session_pk = s.pk
             WHERE c.pk = ?1 AND c.deleted = 0 AND m.seq BETWEEN ?2 AND ?3 AND m.turn_pk = ?4
             AND m.compaction_pk IS NULL AND m.status = 'complete' AND m.role <> 'tool' ORDER BY m.seq",
        )
        .and_then(|mut select| select.query_map(params![conversation, first, last, turn], recorded_message)?.collect())
        .translated()?;
    let messages: Vec<_> = messages.into_iter().flatten().collect();
    Ok((!messages.is_empty()).then_some(RecordedTurn { turn: id, messages }))
}

fn recorded_message(row: &Row<'_>) -> rusqlite::Result<Option<RecordedMessage>> {
    let seq = Seq(row.get(1)?);
    let text = text_of(row.get_ref(3)?.as_str()?);
    if rewinds::read(row, 5)?.hide(seq) || text.trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(RecordedMessage {
        id: MessageId::from_uuid(rows::uuid(row, 0)?),
        seq,
        role: rows::word(row, 2, Role::parse)?,
        text,
        created_at: Timestamp(row.get(4)?),
    }))
}

/// Writes how a delivery ended; `false`, without any change, if its claim is not the newest.
pub(crate) fn settle(
    connection: &Connection,
    claim: DeliveryClaim,
    outcome: &DeliveryOutcome,
    now: Timestamp,
) -> StoreResult<bool> {
    let is_ours = connection
        .prepare_cached("UPDATE outbox_scopes SET owner = 0, due_at = ?3 WHERE pk = ?1 AND claim = ?2 AND owner <> 0")
        .and_then(|mut update| update.execute(params![claim.scope, claim.claim, now.0]))
        .translated()?;
    if is_ours == 0 {
        return Ok(false);
    }
    match outcome {
        DeliveryOutcome::Done => {
            connection.execute("UPDATE outbox_state SET delivered_at = ?1, error = NULL", [now.0]).translated()?;
            finish(connection, claim)?;
        }
        DeliveryOutcome::Held => {
            connection.execute("UPDATE outbox SET held = 1 WHERE pk = ?1", [claim.rows.0]).translated()?;
            next_row(connection, claim)?;
        }
        DeliveryOutcome::Later(at, error) => put_off(connection, claim, *at, error, now)?,
        DeliveryOutcome::Refused(at, error) => {
            note_error(connection, error, now)?;
            let dropped = delete_rows(connection, claim, "AND task = 'record'")?;
            if dropped == 0 {
                return put_off(connection, claim, *at, error, now).map(|()| true);
            }
            add_dropped(connection, dropped)?;
            next_row(connection, claim)?;
        }
    }
    Ok(true)
}

/// Deletes the rows of a claim. The erasure of a key or a tenant also does what was held or asked for before it.
fn finish(connection: &Connection, claim: DeliveryClaim) -> StoreResult<()> {
    let (first, last) = claim.rows;
    // Turns may have been erased while they were on their way.
    let task: Option<String> = connection
        .query_row("SELECT task FROM outbox WHERE pk = ?1", [first], |row| row.get(0))
        .optional()
        .translated()?;
    let earlier = match task.as_deref() {
        Some("erase_key") => Some("scope_pk = ?1 AND pk < ?2 AND task <> 'record' AND ?3 > 0"),
        Some("erase_tenant") => Some(
            "scope_pk IN (SELECT pk FROM outbox_scopes WHERE tenant_pk =
             (SELECT tenant_pk FROM outbox_scopes WHERE pk = ?1)) AND pk < ?2 AND task <> 'record' AND ?3 > 0",
        ),
        _ => None,
    };
    for rows in [Some("scope_pk = ?1 AND pk BETWEEN ?2 AND ?3"), earlier].into_iter().flatten() {
        let with = params![claim.scope, first, last];
        // The session key leaves the file with the last row that needs it, so the file is overwritten once more.
        let again = "UPDATE erasures SET scrubbed = 0 WHERE id IN (SELECT erasure FROM outbox WHERE";
        connection.execute(&format!("{again} {rows})"), with).translated()?;
        connection.execute(&format!("DELETE FROM outbox WHERE {rows}"), with).translated()?;
    }
    next_row(connection, claim)?;
    if earlier.is_some() { forget_scope(connection, claim.scope) } else { Ok(()) }
}

/// Deletes a scope that nothing is known about any more. A tenant's takes all of the tenant's with it.
fn forget_scope(connection: &Connection, scope: i64) -> StoreResult<()> {
    connection
        .execute(
            "DELETE FROM outbox_scopes WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.scope_pk = outbox_scopes.pk)
             AND (pk = ?1 OR tenant_pk = (SELECT tenant_pk FROM outbox_scopes WHERE pk = ?1 AND session_key = ''))",
            [scope],
        )
        .map(drop)
        .translated()
}

fn delete_rows(connection: &Connection, claim: DeliveryClaim, only: &str) -> StoreResult<usize> {
    let (first, last) = claim.rows;
    connection
        .execute(
            &format!("DELETE FROM outbox WHERE scope_pk = ?1 AND pk BETWEEN ?2 AND ?3 {only}"),
            params![claim.scope, first, last],
        )
        .translated()
}

/// Goes on with the scope: its next row is due now, or nothing waits.
fn next_row(connection: &Connection, claim: DeliveryClaim) -> StoreResult<()> {
    connection
        .execute(
            "UPDATE outbox_scopes SET failures = 0, due_at = iif(
             EXISTS (SELECT 1 FROM outbox WHERE scope_pk = ?1 AND held = 0), due_at, NULL) WHERE pk = ?1",
            [claim.scope],
        )
        .map(drop)
        .translated()
}

fn put_off(
    connection: &Connection,
    claim: DeliveryClaim,
    at: Timestamp,
    error: &str,
    now: Timestamp,
) -> StoreResult<()> {
    connection
        .execute(
            "UPDATE outbox_scopes SET failures = failures + 1, due_at = ?2 WHERE pk = ?1",
            [claim.scope, at.0.max(now.0)],
        )
        .translated()?;
    note_error(connection, error, now)
}

fn note_error(connection: &Connection, error: &str, now: Timestamp) -> StoreResult<()> {
    let short: String = error.chars().take(LONGEST_ERROR).collect();
    connection
        .execute("UPDATE outbox_state SET failed_at = ?1, error = ?2", params![now.0, short])
        .map(drop)
        .translated()
}
