//! Recognises a request that was made before.
//!
//! There are four cases: the same idempotency key, an SDK's own retry, a request that its own retry overtook, and
//! another attempt of a first turn that failed.

use std::cmp::Reverse;

use herma_model::alias::Namespace;
use herma_model::limits::{MAX_RETRY_ATTEMPT, RETRY_WINDOW};
use herma_model::{ConversationId, Timestamp, TurnId, TurnState};
use herma_store::{Admission, AdmitOutcome, Refusal, RetryIdentity, Target, TurnPolicy};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::{admissions, queue, rows, snapshot};

/// How many turns with the same fingerprint are read from the index at most. A client may begin with the same words again
/// and again within a minute.
const MOST_ALIKE: usize = 256;

/// What the request repeats. `None` if it is a new one.
pub(crate) fn recognise(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
) -> StoreResult<Option<AdmitOutcome>> {
    if let Some(idempotency) = &admission.retry.idempotency
        && let Some((body, earlier)) = by_key(connection, admission, &idempotency.scopes)?
    {
        if !idempotency.repeats(&body) {
            return Ok(Some(AdmitOutcome::Refused(Refusal::IdempotencyMismatch)));
        }
        if let Some(outcome) = repeat(connection, instance, admission, &earlier)? {
            return Ok(Some(outcome));
        }
    }
    if let Some((bit, earlier)) = by_fingerprint(connection, instance, admission)? {
        let outcome = repeat(connection, instance, admission, &earlier)?;
        if matches!(outcome, Some(AdmitOutcome::Joined(_))) {
            connection
                .execute("UPDATE turns SET retried = retried | ?2 WHERE pk = ?1", params![earlier.key, bit])
                .translated()?;
        }
        return Ok(outcome);
    }
    failed_opening(connection, admission)
}

/// Whether a turn was requested with the same fingerprint.
pub(crate) fn is_of(connection: &Connection, turn: TurnId, retry: &RetryIdentity) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM turns WHERE id = ?1 AND fingerprint = ?2")
        .and_then(|mut select| select.exists(params![turn.uuid().as_bytes(), &retry.fingerprint]))
        .translated()
}

/// The turn of an earlier request with the same identity.
struct EarlierTurn {
    key: i64,
    turn: TurnId,
    state: TurnState,
    owner: i64,
    conversation: ConversationId,
    /// Whether it got the lease at least once.
    has_begun: bool,
    /// Whether clients get its id while it waits.
    visible_while_queued: bool,
    /// Whether any message that it was asked with still exists.
    has_messages: bool,
    /// Whether this is the row of a further attempt that waits under the turn's id.
    is_waiting_attempt: bool,
    /// Whether a client cancelled it by its id. Then it stays cancelled, even if the request is repeated.
    is_cancelled_by_id: bool,
    /// Whether its row says that its answer was delivered.
    is_marked_delivered: bool,
    /// Which of an SDK's own retries it was asked with.
    sdk_attempt: u32,
}

impl EarlierTurn {
    const COLUMNS: &str = "t.pk, coalesce(t.attempt_of, t.id), t.state, t.owner, c.id, t.stop_kind IS 'cancel',
         t.attempt_of IS NOT NULL OR EXISTS
             (SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = t.conversation_pk
              AND m.seq >= t.first_seq AND m.turn_pk = t.pk AND m.status <> 'partial'),
         t.attempt_of IS NOT NULL, t.first_seq IS NOT NULL, t.visible_while_queued, t.delivered, t.sdk_attempt";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            turn: TurnId::from_uuid(rows::uuid(row, 1)?),
            state: rows::word(row, 2, TurnState::parse)?,
            owner: row.get(3)?,
            conversation: ConversationId::from_uuid(rows::uuid(row, 4)?),
            is_cancelled_by_id: row.get(5)?,
            has_messages: row.get(6)?,
            is_waiting_attempt: row.get(7)?,
            has_begun: row.get(8)?,
            visible_while_queued: row.get(9)?,
            is_marked_delivered: row.get(10)?,
            sdk_attempt: row.get(11)?,
        })
    }
}

fn by_key(
    connection: &Connection,
    admission: &Admission,
    [name, conversation]: &[[u8; 16]; 2],
) -> StoreResult<Option<([u8; 16], EarlierTurn)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {}, i.body FROM idempotency i JOIN turns t ON t.pk = i.turn_pk
             JOIN conversations c ON c.pk = t.conversation_pk
             WHERE i.tenant_pk = ?1 AND i.scope IN (?2, ?3) LIMIT 1",
            EarlierTurn::COLUMNS
        ))
        .and_then(|mut select| {
            select
                .query_row(params![admission.scope.tenant.0, name, conversation], |row| {
                    Ok((row.get(12)?, EarlierTurn::read(row)?))
                })
                .optional()
        })
        .translated()
}

/// The turn that this request repeats, or that its own later retry began before it, and the bit of the attempt's
/// number.
///
/// A delivered turn that has ended counts only if the retry shows that its client has not seen the answer. A run that
/// still runs counts, although its id was delivered. A request counts as overtaken only if its client is gone. If the
/// client still waits, it is a new request with the same words. An attempt whose process died while it waited counts
/// only if there is no other, because it may have waited to repeat a failed turn.
fn by_fingerprint(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
) -> StoreResult<Option<(i64, EarlierTurn)>> {
    let attempt = admission.retry.sdk_attempt;
    if attempt > MAX_RETRY_ATTEMPT {
        return Ok(None);
    }
    let hung_up = admission.client.is_closed();
    if attempt == 0 && !hung_up {
        return Ok(None);
    }
    admissions::write_out_all(connection)?;
    let bit = 1_i64 << attempt;
    let mut found = Vec::new();
    for key in with_fingerprint(connection, admission)? {
        let Some(earlier) = joinable(connection, admission, key, bit)? else { continue };
        let is_delivered =
            earlier.is_marked_delivered || instance.is_delivered(connection, earlier.owner, earlier.key)?;
        let may_be_joined = !is_delivered || admission.retry.unseen || earlier.state.is_live();
        if attempt > 0 && may_be_joined || hung_up && earlier.sdk_attempt > attempt {
            found.push((is_delivered, earlier));
        }
    }
    found.sort_by_key(|(is_delivered, earlier)| (*is_delivered, Reverse(earlier.key)));
    let mut lost = None;
    for (_, earlier) in found {
        if earlier.state != TurnState::Queued || !instance.is_dead(connection, earlier.owner, earlier.key)? {
            return Ok(Some((bit, earlier)));
        }
        lost.get_or_insert(earlier);
    }
    Ok(lost.map(|earlier| (bit, earlier)))
}

/// The keys of turns that were asked for with the same fingerprint.
fn with_fingerprint(connection: &Connection, admission: &Admission) -> StoreResult<Vec<i64>> {
    let fingerprint = &admission.retry.fingerprint;
    let mut keys: Vec<i64> = connection
        .prepare_cached(&format!(
            "SELECT pk FROM turns WHERE fingerprint = ?1 AND joinable = 1 ORDER BY pk DESC LIMIT {MOST_ALIKE}"
        ))
        .and_then(|mut select| select.query_map([fingerprint], |row| row.get(0))?.collect())
        .translated()?;
    let Some(conversation) = conversation_of(connection, admission)? else { return Ok(keys) };
    for turn in lately_in(connection, conversation, admission.now)? {
        let is_same = connection
            .prepare_cached("SELECT 1 FROM turns WHERE pk = ?1 AND fingerprint = ?2 AND joinable = 0")
            .and_then(|mut select| select.exists(params![turn, fingerprint]))
            .translated()?;
        if is_same && !keys.contains(&turn) {
            keys.push(turn);
        }
    }
    Ok(keys)
}

/// The conversation that a request goes to, if it is there. Completed turns of requests that name their conversation
/// are not in the index of joinable turns: they are looked for where the name leads.
fn conversation_of(connection: &Connection, admission: &Admission) -> StoreResult<Option<i64>> {
    let (sql, id) = match &admission.target {
        Target::New => return Ok(None),
        Target::Alias { alias, namespace, .. } => {
            let found = snapshot::find(connection, admission.scope.tenant, alias, *namespace)?;
            return Ok(found.map(|(state, _)| state.key));
        }
        Target::Branch { source } => ("SELECT conversation_pk FROM turns WHERE id = ?1", source.uuid()),
        Target::Anew { source } => ("SELECT pk FROM conversations WHERE id = ?1", source.uuid()),
    };
    connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_row([id.as_bytes()], |row| row.get(0)).optional())
        .translated()
}

/// The turns that ended in a conversation lately. The last message of a turn is as old as its end.
fn lately_in(connection: &Connection, conversation: i64, now: Timestamp) -> StoreResult<Vec<i64>> {
    let mut select = connection
        .prepare_cached(
            "SELECT m.turn_pk, m.created_at FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = ?1 ORDER BY s.pk DESC, m.seq DESC",
        )
        .translated()?;
    let mut messages = select.query([conversation]).translated()?;
    let mut turns = Vec::new();
    while let Some(message) = messages.next().translated()? {
        let (turn, created_at): (i64, i64) =
            message.get(0).and_then(|turn| Ok((turn, message.get(1)?))).translated()?;
        if turns.last() == Some(&turn) {
            continue;
        }
        if created_at < earliest(now) {
            break;
        }
        turns.push(turn);
    }
    Ok(turns)
}

/// The turn with this key, if it is the caller's, ended lately or lives, and this attempt has not joined it yet.
fn joinable(connection: &Connection, admission: &Admission, key: i64, bit: i64) -> StoreResult<Option<EarlierTurn>> {
    connection
        .prepare_cached(&format!(
            "SELECT {} FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.pk = ?1 AND t.tenant_pk = ?2 AND (t.retried & ?3) = 0
               AND (t.state IN ('queued', 'running') OR t.ended_at >= ?4)",
            EarlierTurn::COLUMNS
        ))
        .and_then(|mut select| {
            let wanted = params![key, admission.scope.tenant.0, bit, earliest(admission.now)];
            select.query_row(wanted, EarlierTurn::read).optional()
        })
        .translated()
}

/// The earliest end time of a turn that can still be recognised.
pub(crate) fn earliest(now: Timestamp) -> i64 {
    now.0 - RETRY_WINDOW.as_millis() as i64
}

/// For a request that names no conversation: the conversation whose only turn has the same fingerprint and failed.
/// Without this, a client that retries without a retry count would leave one conversation for each attempt.
fn failed_opening(connection: &Connection, admission: &Admission) -> StoreResult<Option<AdmitOutcome>> {
    let is_visible_while_queued = admission.response.as_ref().is_some_and(|response| response.visible_while_queued);
    let names_none = admission.target == Target::New && admission.creation.parent.is_none();
    if !admission.may_reopen || !names_none || is_visible_while_queued {
        return Ok(None);
    }
    let failed = connection
        .prepare_cached(
            "SELECT c.id FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.fingerprint = ?1 AND t.joinable = 1 AND t.tenant_pk = ?2 AND t.ended_at >= ?3
               AND (t.state = 'failed' OR t.state = 'cancelled' OR t.state = 'interrupted')
               AND t.stop_kind IS NOT 'cancel'
               AND t.visible_while_queued = 0 AND c.turn_count = 1 AND c.origin_kind = ?4 ORDER BY t.pk DESC LIMIT 1",
        )
        .and_then(|mut select| {
            let kind = admission.creation.kind.as_str();
            let wanted = params![&admission.retry.fingerprint, admission.scope.tenant.0, earliest(admission.now), kind];
            select.query_row(wanted, |row| rows::uuid(row, 0)).optional()
        })
        .translated()?;
    Ok(failed.map(|id| AdmitOutcome::Reopen(ConversationId::from_uuid(id))))
}

/// Takes turns out of the index of joinable turns: no request is recognised by their fingerprint any more.
pub(crate) fn forget(connection: &Connection, turns: &[i64]) -> StoreResult<()> {
    let mut update =
        connection.prepare_cached("UPDATE turns SET joinable = 0 WHERE pk = ?1 AND joinable = 1").translated()?;
    for turn in turns {
        update.execute([turn]).translated()?;
    }
    Ok(())
}

/// The turns in that index that ended too long ago, of every process. Reads the whole index.
pub(crate) fn forgettable(connection: &Connection, now: Timestamp) -> StoreResult<Vec<i64>> {
    connection
        .prepare(&format!("SELECT pk FROM turns INDEXED BY turns_joinable WHERE {FORGETTABLE} ORDER BY pk"))
        .and_then(|mut select| select.query_map([earliest(now)], |row| row.get(0))?.collect())
        .translated()
}

/// Takes these turns out of that index, except those that run again since they were found.
pub(crate) fn forget_old(connection: &Connection, turns: &[i64], now: Timestamp) -> StoreResult<()> {
    let mut update = connection
        .prepare_cached(&format!("UPDATE turns SET joinable = 0 WHERE pk = ?2 AND {FORGETTABLE}"))
        .translated()?;
    for turn in turns {
        update.execute([earliest(now), *turn]).translated()?;
    }
    Ok(())
}

/// Whether a turn can be joined but ended before `?1`.
const FORGETTABLE: &str = "joinable = 1 AND ended_at < ?1 AND state <> 'queued' AND state <> 'running'";

/// The outcome for a request that repeats an earlier turn. A live or answered turn is joined. If the turn is
/// unanswered, the caller gets its id and asks for a further attempt. If the turn's process is dead and the request
/// names its conversation, the admission itself ends the turn: `None`.
fn repeat(
    connection: &Connection,
    instance: &Instance,
    admission: &Admission,
    earlier: &EarlierTurn,
) -> StoreResult<Option<AdmitOutcome>> {
    if earlier.state == TurnState::Cancelled && earlier.is_cancelled_by_id {
        return Ok(Some(AdmitOutcome::Joined(earlier.turn)));
    }
    // A visible turn that never began has no place yet: its id is taken over, and its history finds the place.
    let has_place = earlier.has_begun || !earlier.visible_while_queued;
    if admission.own_history_alone && has_place && earlier.state.is_unanswered() && was_followed(connection, earlier)? {
        return Ok(None);
    }
    let over = earlier.state.is_unanswered()
        || (earlier.state.is_live() && instance.is_dead(connection, earlier.owner, earlier.key)?);
    if !over || earlier.state.is_unanswered() && waits_again(connection, instance, earlier.turn)? {
        return Ok(Some(AdmitOutcome::Joined(earlier.turn)));
    }
    if [admission.retry_of, admission.anew_of].contains(&Some(earlier.turn)) {
        return Ok(None);
    }
    if earlier.visible_while_queued && !earlier.has_begun {
        let takes_over = admission.takes_over && admission.turn == earlier.turn;
        return Ok((!takes_over).then_some(AdmitOutcome::NeverBegan(earlier.turn)));
    }
    let retry = AdmitOutcome::RetryIn(earlier.conversation, earlier.turn);
    Ok(match &admission.target {
        _ if earlier.state.is_unanswered() || earlier.is_waiting_attempt => earlier.has_messages.then_some(retry),
        Target::New | Target::Branch { .. } | Target::Anew { .. } => Some(retry),
        Target::Alias { alias, namespace, .. }
            if admission.policy == TurnPolicy::Branch || *namespace == Namespace::Current =>
        {
            let named = snapshot::find(connection, admission.scope.tenant, alias, *namespace)?;
            let has_left = named.is_none_or(|(state, _)| state.facts.id != earlier.conversation);
            has_left.then_some(retry)
        }
        Target::Alias { .. } => None,
    })
}

/// Whether messages of other turns follow a turn in its conversation.
fn was_followed(connection: &Connection, earlier: &EarlierTurn) -> StoreResult<bool> {
    let last: Option<i64> = connection
        .prepare_cached(
            "SELECT m.turn_pk FROM conversations c JOIN sessions s ON s.conversation_pk = c.pk
             JOIN messages m ON m.session_pk = s.pk WHERE c.id = ?1 AND m.turn_pk > 0
             ORDER BY s.pk DESC, m.seq DESC LIMIT 1",
        )
        .and_then(|mut select| select.query_row([earlier.conversation.uuid().as_bytes()], |row| row.get(0)).optional())
        .translated()?;
    Ok(last.is_some_and(|last| last != earlier.key))
}

/// Whether an attempt waits under the id of a failed turn, in a living process.
fn waits_again(connection: &Connection, instance: &Instance, turn: TurnId) -> StoreResult<bool> {
    for (key, owner) in queue::attempts_of(connection, turn)? {
        if !instance.is_dead(connection, owner, key)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Binds the request's idempotency key to its turn. If the key is already bound to this turn, its age does not change,
/// so that it survives an attempt that is retracted.
pub(crate) fn bind(connection: &Connection, admission: &Admission, turn: i64) -> StoreResult<()> {
    let Some(idempotency) = &admission.retry.idempotency else { return Ok(()) };
    let mut insert = connection
        .prepare_cached(
            "INSERT INTO idempotency (scope, tenant_pk, body, turn_pk, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant_pk, scope) DO UPDATE SET body = excluded.body, turn_pk = excluded.turn_pk,
             created_at = iif(turn_pk = excluded.turn_pk, created_at, excluded.created_at)",
        )
        .translated()?;
    for scope in &idempotency.scopes {
        insert
            .execute(params![scope, admission.scope.tenant.0, &idempotency.body, turn, admission.now.0])
            .translated()?;
    }
    Ok(())
}
