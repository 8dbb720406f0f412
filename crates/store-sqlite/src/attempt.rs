//! The row of a turn that gets the lease, for the first time or again.

use herma_model::{Resolution, Timestamp, TurnId, TurnState, Usage};
use herma_store::{Admission, StoreError, Ticket};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::expiry;
use crate::failure::{StoreResult, Translate};
use crate::instance::NOBODY;
use crate::rows::{self, ConversationState};
use crate::tables::{TurnColumns, insert_turn};
use crate::{rewinds, waiting};

/// What a turn gets with the lease.
#[derive(Clone, Copy)]
pub(crate) struct NewLease {
    pub(crate) owner: i64,
    pub(crate) fence: i64,
    pub(crate) resolution: Resolution,
    pub(crate) brings_key: bool,
}

/// The turn that got the lease.
pub(crate) struct TurnRow {
    pub(crate) key: i64,
    pub(crate) id: TurnId,
    pub(crate) attempt: u32,
    pub(crate) started_at: Timestamp,
    /// What earlier attempts in this row have used.
    pub(crate) usage: Option<Usage>,
}

/// Writes the row of a turn that runs for the first time, or takes it out of the queue.
pub(crate) fn first_attempt(
    connection: &Connection,
    admission: &Admission,
    ticket: Option<Ticket>,
    state: &ConversationState,
    lease: NewLease,
) -> StoreResult<TurnRow> {
    let NewLease { fence, resolution, brings_key, .. } = lease;
    let row = |key, started_at| TurnRow { key, id: admission.turn, attempt: 1, started_at, usage: None };
    if let Some(ticket) = ticket {
        let queued_at = connection
            .prepare_cached(
                "UPDATE turns SET state = 'running', fence = ?2, session_pk = ?3, resolution = ?4, brings_key = ?5,
                 first_seq = ?6, conversation_pk = ?7
                 WHERE pk = ?1 AND state = 'queued' RETURNING created_at",
            )
            .and_then(|mut update| {
                let set =
                    params![ticket.0, fence, state.head, resolution.as_str(), brings_key, state.next_seq, state.key];
                update.query_row(set, |row| row.get(0)).optional()
            })
            .translated()?;
        waiting::delete(connection, ticket.0)?;
        let lost = || StoreError::Unavailable("the turn lost its place in the queue".to_owned());
        return queued_at.map(|at| row(ticket.0, Timestamp(at))).ok_or_else(lost);
    }
    let columns = TurnColumns {
        tenant_pk: admission.scope.tenant.0,
        id: admission.turn.uuid().into_bytes(),
        api: admission.api,
        created_at: admission.now.0,
        ..started(admission, state, lease)
    };
    let key = insert_turn(connection, &columns.with_response(admission.response.as_ref()))?;
    Ok(row(key, admission.now))
}

/// The columns of a turn that gets the lease now.
fn started<'a>(admission: &'a Admission, state: &ConversationState, lease: NewLease) -> TurnColumns<'a> {
    TurnColumns {
        conversation_pk: state.key,
        session_pk: state.head,
        state: TurnState::Running.as_str(),
        fence: lease.fence,
        owner: lease.owner,
        resolution: lease.resolution.as_str(),
        fingerprint: &admission.retry.fingerprint,
        brings_key: lease.brings_key,
        first_seq: Some(state.next_seq),
        sdk_attempt: admission.retry.sdk_attempt,
        joinable: true,
        ..TurnColumns::default()
    }
}

/// Runs an unanswered turn again. `None` unless the last message that is not rewound belongs to that turn.
pub(crate) fn next_attempt(
    connection: &Connection,
    admission: &Admission,
    state: &ConversationState,
    unanswered: TurnId,
    lease: NewLease,
) -> StoreResult<Option<TurnRow>> {
    let NewLease { owner, fence, resolution, brings_key } = lease;
    let shown = rewinds::shows("m.seq", "(SELECT rewinds FROM conversations WHERE pk = ?1)");
    let last: Option<(i64, TurnId, TurnState, i64)> = connection
        .prepare_cached(&format!(
            "SELECT t.pk, t.id, t.state, t.created_at FROM sessions s JOIN messages m ON m.session_pk = s.pk
             JOIN turns t ON t.pk = m.turn_pk
             WHERE s.conversation_pk = ?1 AND m.compaction_pk IS NULL AND {shown}
             ORDER BY s.pk DESC, m.seq DESC LIMIT 1",
        ))
        .and_then(|mut select| {
            select
                .query_row([state.key], |row| {
                    let id = TurnId::from_uuid(rows::uuid(row, 1)?);
                    Ok((row.get(0)?, id, rows::word(row, 2, TurnState::parse)?, row.get(3)?))
                })
                .optional()
        })
        .translated()?;
    let Some((key, id, stored, created_at)) = last else { return Ok(None) };
    if id != unanswered || !stored.is_unanswered() {
        return Ok(None);
    }
    if let Some(ticket) = admission.ticket {
        connection.execute("DELETE FROM turns WHERE pk = ?1 AND state = 'queued'", [ticket.0]).translated()?;
    }
    expiry::check_again(connection, key)?;
    // How the previous attempt ended stays in the row until this one ends, in case this one is retracted.
    let (attempt, usage) = connection
        .query_row(
            "UPDATE turns SET state = 'running', attempt = attempt + 1, fence = ?2, owner = ?3, fingerprint = ?4,
             delivered = 0, retried = 0, sdk_attempt = ?12, joinable = 1,
             stop_requested = NULL, stop_kind = NULL, brings_key = ?5, resolution = ?6, session_pk = ?7, rotated = 0,
             echo = coalesce(?8, echo), kept = coalesce(?9, kept),
             visible_while_queued = coalesce(?10, visible_while_queued), api = iif(?8 IS NULL, api, ?11)
             WHERE pk = ?1 RETURNING attempt, input_tokens, output_tokens, cached_tokens, reasoning_tokens,
             cache_write_tokens",
            params![
                key,
                fence,
                owner,
                &admission.retry.fingerprint,
                brings_key,
                resolution.as_str(),
                state.head,
                admission.response.as_ref().map(|response| &response.echo),
                admission.response.as_ref().map(|response| response.kept),
                admission.response.as_ref().map(|response| response.visible_while_queued),
                admission.api,
                admission.retry.sdk_attempt
            ],
            |row| Ok((row.get(0)?, rows::turn_usage(row, [1, 2, 3, 4, 5])?)),
        )
        .translated()?;
    Ok(Some(TurnRow { key, id, attempt, started_at: Timestamp(created_at), usage }))
}

/// Runs an unanswered turn again at the end of its conversation, in a new row that takes the turn's id. The old row
/// stays under an unused id and keeps the messages of the failed attempt. `None` if the turn has an answer, runs, or
/// belongs to another conversation.
pub(crate) fn attempt_at_the_end(
    connection: &Connection,
    admission: &Admission,
    state: &ConversationState,
    unanswered: TurnId,
    lease: NewLease,
) -> StoreResult<Option<TurnRow>> {
    let Some(left) = UnansweredTurn::find(connection, state.key, unanswered)? else { return Ok(None) };
    if let Some(ticket) = admission.ticket {
        connection.execute("DELETE FROM turns WHERE pk = ?1 AND state = 'queued'", [ticket.0]).translated()?;
    }
    let (id, left_id) = (unanswered.uuid(), unanswered.left_behind(left.attempt).uuid());
    connection
        .execute(
            "UPDATE turns SET id = ?2, attempt_of = ?3 WHERE pk = ?1",
            params![left.key, left_id.as_bytes(), id.as_bytes()],
        )
        .translated()?;
    let response = admission.response.as_ref();
    let attempt = left.attempt + 1;
    let columns = TurnColumns {
        tenant_pk: admission.scope.tenant.0,
        id: id.into_bytes(),
        api: if response.is_some() { admission.api } else { &left.api },
        attempt,
        created_at: left.created_at.0,
        echo: response.map(|response| response.echo.as_ref()).or(left.echo.as_deref()),
        kept: response.map_or(left.kept, |response| response.kept),
        visible_while_queued: response.map_or(left.visible_while_queued, |response| response.visible_while_queued),
        ..started(admission, state, lease)
    };
    let key = insert_turn(connection, &columns)?;
    connection
        .execute(
            "UPDATE turns SET kept = 0, visible_while_queued = 0, echo = NULL, delivered = 1, joinable = 0
             WHERE pk = ?1",
            [left.key],
        )
        .translated()?;
    connection.execute("UPDATE idempotency SET turn_pk = ?2 WHERE turn_pk = ?1", [left.key, key]).translated()?;
    Ok(Some(TurnRow { key, id: unanswered, attempt, started_at: left.created_at, usage: None }))
}

/// Under which id an admission waits.
pub(crate) enum WaitsAs {
    /// Its own.
    Itself,
    /// The id of the turn that it tries again. That turn was visible while queued.
    AttemptOf(RepeatedTurn),
    /// The turn that it wants to try again has an answer, runs, or belongs to another conversation.
    Nothing,
}

/// A failed turn that was visible while queued.
pub(crate) struct RepeatedTurn {
    pub(crate) turn: TurnId,
    pub(crate) key: i64,
    pub(crate) asked_at: Timestamp,
}

/// Decides under which id an admission waits. Clients know the id of a turn that is visible while queued, so all its
/// attempts have that id. A request that may show its own history alone waits under its own: after others were
/// answered it is no attempt of that turn.
pub(crate) fn waits_as(connection: &Connection, admission: &Admission, conversation: i64) -> StoreResult<WaitsAs> {
    let is_visible_while_queued = admission.response.as_ref().is_some_and(|response| response.visible_while_queued);
    let keeps_id = is_visible_while_queued && !admission.own_history_alone;
    let Some(turn) = admission.retry_of.or(admission.anew_of).filter(|_| keeps_id) else {
        return Ok(WaitsAs::Itself);
    };
    let Some(found) = UnansweredTurn::find(connection, conversation, turn)? else { return Ok(WaitsAs::Nothing) };
    Ok(match found.visible_while_queued && found.api == admission.api {
        true => WaitsAs::AttemptOf(RepeatedTurn { turn, key: found.key, asked_at: found.created_at }),
        false => WaitsAs::Itself,
    })
}

/// A turn of a conversation that began and has no answer.
struct UnansweredTurn {
    key: i64,
    /// The number of its last attempt.
    attempt: u32,
    created_at: Timestamp,
    api: String,
    echo: Option<String>,
    kept: bool,
    visible_while_queued: bool,
}

impl UnansweredTurn {
    fn find(connection: &Connection, conversation: i64, turn: TurnId) -> StoreResult<Option<Self>> {
        let read = |row: &Row<'_>| {
            let is_unanswered = rows::word(row, 3, TurnState::parse)?.is_unanswered();
            let found = Self {
                key: row.get(0)?,
                attempt: row.get(1)?,
                created_at: Timestamp(row.get(2)?),
                api: row.get(4)?,
                echo: row.get(5)?,
                kept: row.get(6)?,
                visible_while_queued: row.get(7)?,
            };
            Ok(is_unanswered.then_some(found))
        };
        let found = connection
            .prepare_cached(
                "SELECT pk, attempt, created_at, state, api, echo, kept, visible_while_queued FROM turns
                 WHERE id = ?1 AND conversation_pk = ?2 AND first_seq IS NOT NULL",
            )
            .and_then(|mut select| select.query_row(params![turn.uuid().as_bytes(), conversation], read).optional())
            .translated()?;
        Ok(found.flatten())
    }
}

/// Retracts an attempt that `attempt_at_the_end` began: deletes its row and gives the turn's id back to the row of the
/// failed attempt. `false`, without any change, if the attempt was not begun that way.
pub(crate) fn retract_attempt_at_the_end(connection: &Connection, turn: i64, attempt: u32) -> StoreResult<bool> {
    let left: Option<i64> = connection
        .query_row(
            "SELECT l.pk FROM turns t JOIN turns l ON l.attempt_of = t.id WHERE t.pk = ?1 AND l.attempt + 1 = ?2
             AND l.state <> 'queued' ORDER BY l.pk DESC LIMIT 1",
            params![turn, attempt],
            |row| row.get(0),
        )
        .optional()
        .translated()?;
    let Some(left) = left else { return Ok(false) };
    connection.execute("UPDATE idempotency SET turn_pk = ?2 WHERE turn_pk = ?1", [turn, left]).translated()?;
    connection
        .execute(
            "UPDATE turns SET (echo, kept, visible_while_queued, api, delivered, joinable, owner) =
             (SELECT echo, kept, visible_while_queued, api, 0, 1, ?3 FROM turns WHERE pk = ?2) WHERE pk = ?1",
            // No process says that it was delivered.
            [left, turn, NOBODY],
        )
        .translated()?;
    expiry::check_again(connection, left)?;
    connection.execute("DELETE FROM turns WHERE pk = ?1", [turn]).translated()?;
    connection.execute("UPDATE turns SET id = attempt_of, attempt_of = NULL WHERE pk = ?1", [left]).translated()?;
    Ok(true)
}
