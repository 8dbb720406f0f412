//! Stops a turn, whichever process runs it.

use std::time::Duration;

use herma_model::{SessionKey, StopKind, Timestamp, TurnId, TurnState};
use herma_store::{Scope, StopOutcome};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::park::end_parked;
use crate::takeover::{self, TakeoverReason, take_over};
use crate::{queue, rows, snapshot};

/// The turn that is to be stopped.
struct StopTarget {
    key: i64,
    state: TurnState,
    conversation: i64,
    session_key: Option<SessionKey>,
}

/// Ends a waiting or parked turn, and asks a running one to end. Ends a running turn that was asked longer than `grace`
/// ago.
pub(crate) fn stop(
    connection: &Connection,
    instance: &mut Instance,
    scope: &Scope,
    turn: TurnId,
    grace: Duration,
    now: Timestamp,
) -> StoreResult<StopOutcome> {
    let found = find(connection, scope, turn)?;
    let Some(target) = found.filter(|target| scope.keys.sees(target.session_key.as_ref())) else {
        return Ok(StopOutcome::NotFound);
    };
    match target.state {
        TurnState::Queued => {
            instance.live.remove(target.key);
            connection
                .execute(
                    "UPDATE turns SET stop_kind = ?2 WHERE pk = ?1",
                    params![target.key, StopKind::Cancel.as_str()],
                )
                .translated()?;
            queue::leave(connection, target.conversation, target.key, &TakeoverReason::Cancelled.failure(), now)?;
            Ok(StopOutcome::Ended)
        }
        TurnState::Running => stop_running(connection, instance, &target, grace, now),
        TurnState::Failed | TurnState::Cancelled | TurnState::Interrupted => {
            stop_waiting_attempts(connection, instance, turn, &target, now)?;
            Ok(StopOutcome::Ended)
        }
        TurnState::Completed => Ok(StopOutcome::Ended),
    }
}

/// Removes the waiting attempts of a failed turn from the queue, if there are any. Then the turn counts as cancelled.
fn stop_waiting_attempts(
    connection: &Connection,
    instance: &mut Instance,
    turn: TurnId,
    target: &StopTarget,
    now: Timestamp,
) -> StoreResult<()> {
    let attempts = queue::attempts_of(connection, turn)?;
    if attempts.is_empty() {
        return Ok(());
    }
    let why = TakeoverReason::Cancelled.failure();
    for (attempt, _) in attempts {
        instance.live.remove(attempt);
        queue::leave(connection, target.conversation, attempt, &why, now)?;
    }
    connection
        .execute(
            "UPDATE turns SET state = ?2, stop_kind = ?3, failure_code = ?4, failure_message = ?5,
             upstream_status = NULL, ended_at = ?6, cut_off = 0 WHERE pk = ?1",
            params![
                target.key,
                why.code.ends_as().as_str(),
                StopKind::Cancel.as_str(),
                why.code.as_str(),
                why.message,
                now.0
            ],
        )
        .translated()?;
    connection
        .execute(
            "UPDATE conversations SET version = version + 1, changes = changes + 1 WHERE pk = ?1",
            [target.conversation],
        )
        .map(drop)
        .translated()
}

fn find(connection: &Connection, scope: &Scope, turn: TurnId) -> StoreResult<Option<StopTarget>> {
    connection
        .prepare_cached(
            "SELECT t.pk, t.state, t.conversation_pk, c.session_key FROM turns t
             JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.id = ?1 AND t.tenant_pk = ?2 AND t.attempt_of IS NULL",
        )
        .and_then(|mut select| {
            select
                .query_row(params![turn.uuid().as_bytes(), scope.tenant.0], |row| {
                    let session_key = rows::session_key(row, 3)?;
                    Ok(StopTarget {
                        key: row.get(0)?,
                        state: rows::word(row, 1, TurnState::parse)?,
                        conversation: row.get(2)?,
                        session_key,
                    })
                })
                .optional()
        })
        .translated()
}

fn stop_running(
    connection: &Connection,
    instance: &Instance,
    target: &StopTarget,
    grace: Duration,
    now: Timestamp,
) -> StoreResult<StopOutcome> {
    let mut state = snapshot::load(connection, target.conversation)?;
    let Some(live) = takeover::live_turn(connection, instance, &mut state, now)? else { return Ok(StopOutcome::Ended) };
    if live.is_parked {
        end_parked(connection, &mut state, live.key, StopKind::Cancel, now)?;
        return Ok(StopOutcome::Ended);
    }
    match live.stop_requested {
        Some(at) if now.since(at) > grace => {
            take_over(connection, &mut state, live.key, TakeoverReason::of(live.stop_kind), now)?;
            Ok(StopOutcome::Ended)
        }
        Some(_) => Ok(StopOutcome::Asked),
        None => {
            connection
                .execute(
                    "UPDATE turns SET stop_requested = ?2, stop_kind = ?3 WHERE pk = ?1",
                    params![live.key, now.0, StopKind::Cancel.as_str()],
                )
                .translated()?;
            Ok(StopOutcome::Asked)
        }
    }
}
