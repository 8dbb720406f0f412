//! Recognising a request that was made before: by its idempotency key, or as an SDK's own retry.

use herma_model::limits::{MAX_RETRY_ATTEMPT, RETRY_WINDOW};
use herma_model::{ConversationId, TurnId, TurnState};
use herma_store::{Admission, AdmitOutcome, Refusal, Target, TurnPolicy};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::{rows, snapshot};

/// What the request turns out to be, if it is not a new one.
pub(crate) fn recognise(
    connection: &Connection,
    instance: &Instance,
    admission: &Admission,
) -> Outcome<Option<AdmitOutcome>> {
    if let Some(idempotency) = &admission.retry.idempotency
        && let Some((body, earlier)) = by_key(connection, admission, &idempotency.scopes)?
    {
        if body != idempotency.body {
            return Ok(Some(AdmitOutcome::Refused(Refusal::IdempotencyMismatch)));
        }
        if let Some(outcome) = again(connection, instance, admission, &earlier)? {
            return Ok(Some(outcome));
        }
    }
    if !(1..=MAX_RETRY_ATTEMPT).contains(&admission.retry.sdk_attempt) {
        return Ok(None);
    }
    let bit = 1_i64 << admission.retry.sdk_attempt;
    let Some(earlier) = by_fingerprint(connection, admission, bit)? else { return Ok(None) };
    let outcome = again(connection, instance, admission, &earlier)?;
    if matches!(outcome, Some(AdmitOutcome::Joined(_))) {
        connection
            .execute("UPDATE turns SET retried = retried | ?2 WHERE pk = ?1", params![earlier.key, bit])
            .translated()?;
    }
    Ok(outcome)
}

/// The turn an earlier request of the same identity became.
struct Earlier {
    key: i64,
    turn: TurnId,
    state: TurnState,
    owner: i64,
    conversation: ConversationId,
    /// Whether somebody called it off by its id: then it stays so, however often it is asked for.
    called_off: bool,
}

impl Earlier {
    const COLUMNS: &str = "t.pk, t.id, t.state, t.owner, c.id, t.stop_kind IS 'cancel'";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            turn: TurnId::from_uuid(rows::uuid(row, 1)?),
            state: rows::word(row, 2, TurnState::parse)?,
            owner: row.get(3)?,
            conversation: ConversationId::from_uuid(rows::uuid(row, 4)?),
            called_off: row.get(5)?,
        })
    }
}

fn by_key(
    connection: &Connection,
    admission: &Admission,
    [name, conversation]: &[[u8; 16]; 2],
) -> Outcome<Option<([u8; 16], Earlier)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {}, i.body FROM idempotency i JOIN turns t ON t.pk = i.turn_pk JOIN conversations c ON c.pk = t.conversation_pk
             WHERE i.tenant_pk = ?1 AND i.scope IN (?2, ?3) LIMIT 1",
            Earlier::COLUMNS
        ))
        .and_then(|mut select| {
            select
                .query_row(params![admission.scope.tenant.0, name, conversation], |row| Ok((row.get(6)?, Earlier::read(row)?)))
                .optional()
        })
        .translated()
}

fn by_fingerprint(connection: &Connection, admission: &Admission, bit: i64) -> Outcome<Option<Earlier>> {
    let earliest = admission.now.0 - RETRY_WINDOW.as_millis() as i64;
    connection
        .prepare_cached(&format!(
            "SELECT {} FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.fingerprint = ?1 AND t.delivered = 0 AND t.tenant_pk = ?2 AND (t.retried & ?3) = 0
               AND (t.state IN ('queued', 'running') OR t.ended_at >= ?4) ORDER BY t.pk DESC LIMIT 1",
            Earlier::COLUMNS
        ))
        .and_then(|mut select| {
            select
                .query_row(
                    params![&admission.retry.fingerprint, admission.scope.tenant.0, bit, earliest],
                    Earlier::read,
                )
                .optional()
        })
        .translated()
}

/// A live or answered turn is joined. An unanswered one, or one whose process is gone, is tried again: a request that names its
/// conversation finds that out by aligning with it, one that does not, or that left it for a branch, is told where.
fn again(
    connection: &Connection,
    instance: &Instance,
    admission: &Admission,
    earlier: &Earlier,
) -> Outcome<Option<AdmitOutcome>> {
    if earlier.state == TurnState::Cancelled && earlier.called_off {
        return Ok(Some(AdmitOutcome::Joined(earlier.turn)));
    }
    let over = earlier.state.is_unanswered()
        || (earlier.state.is_live() && instance.is_dead(connection, earlier.owner, earlier.key)?);
    Ok(match (over, &admission.target) {
        (false, _) => Some(AdmitOutcome::Joined(earlier.turn)),
        (true, Target::New | Target::Branch { .. }) => Some(AdmitOutcome::RetryIn(earlier.conversation)),
        (true, Target::Alias { alias, namespace, .. }) if admission.policy == TurnPolicy::Branch => {
            let named = snapshot::find(connection, admission.scope.tenant, alias, *namespace)?;
            let has_left = named.is_none_or(|(state, _)| state.facts.id != earlier.conversation);
            has_left.then_some(AdmitOutcome::RetryIn(earlier.conversation))
        }
        (true, Target::Alias { .. }) => None,
    })
}

/// Binds the request's idempotency key to the turn that now stands for it.
pub(crate) fn bind(connection: &Connection, admission: &Admission, turn: i64) -> Outcome<()> {
    let Some(idempotency) = &admission.retry.idempotency else { return Ok(()) };
    let mut insert = connection
        .prepare_cached("INSERT OR REPLACE INTO idempotency (scope, tenant_pk, body, turn_pk, created_at) VALUES (?1, ?2, ?3, ?4, ?5)")
        .translated()?;
    for scope in &idempotency.scopes {
        insert
            .execute(params![scope, admission.scope.tenant.0, &idempotency.body, turn, admission.now.0])
            .translated()?;
    }
    Ok(())
}
