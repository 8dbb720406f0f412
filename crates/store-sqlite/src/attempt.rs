//! The row of a turn that gets the lease, for the first time or again.

use herma_model::{Resolution, Timestamp, TurnId, TurnState};
use herma_store::{Admission, StoreError, Ticket};
use rusqlite::{Connection, OptionalExtension, params};

use crate::expiry;
use crate::failure::{Outcome, Translate};
use crate::rows::{self, ConversationState};
use crate::waiting;

/// What a turn is given with the lease.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) owner: i64,
    pub(crate) fence: i64,
    pub(crate) resolution: Resolution,
    pub(crate) brings_key: bool,
}

/// The turn that was given the lease.
pub(crate) struct TurnRow {
    pub(crate) key: i64,
    pub(crate) id: TurnId,
    pub(crate) attempt: u32,
    pub(crate) started_at: Timestamp,
}

/// Writes the row of a turn that was never tried, or has it leave the queue.
pub(crate) fn first_attempt(
    connection: &Connection,
    admission: &Admission,
    ticket: Option<Ticket>,
    state: &ConversationState,
    grant: Grant,
) -> Outcome<TurnRow> {
    let Grant { owner, fence, resolution, brings_key } = grant;
    let row = |key, started_at| TurnRow { key, id: admission.turn, attempt: 1, started_at };
    if let Some(ticket) = ticket {
        let queued_at = connection
            .prepare_cached(
                "UPDATE turns SET state = 'running', fence = ?2, session_pk = ?3, resolution = ?4, brought_key = ?5, first_seq = ?6, conversation_pk = ?7
                 WHERE pk = ?1 AND state = 'queued' RETURNING created_at",
            )
            .and_then(|mut update| {
                let set =
                    params![ticket.0, fence, state.head, resolution.as_str(), brings_key, state.next_seq, state.key];
                update.query_row(set, |row| row.get(0)).optional()
            })
            .translated()?;
        waiting::drop_all(connection, ticket.0)?;
        let lost = || StoreError::Unavailable("the turn lost its place in the queue".to_owned());
        return queued_at.map(|at| row(ticket.0, Timestamp(at))).ok_or_else(lost);
    }
    connection
        .prepare_cached(
            "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution, fingerprint, brought_key, first_seq, created_at,
             echo, kept, promised, sdk_attempt, joinable)
             VALUES (?1, ?2, ?3, ?4, ?5, 'running', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, 1)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                admission.scope.tenant.0,
                admission.turn.uuid().as_bytes(),
                state.key,
                state.head,
                admission.api,
                fence,
                owner,
                resolution.as_str(),
                &admission.retry.fingerprint,
                brings_key,
                state.next_seq,
                admission.now.0,
                admission.response.as_ref().map(|response| &response.echo),
                admission.response.as_ref().is_some_and(|response| response.kept),
                admission.response.as_ref().is_some_and(|response| response.promised),
                admission.retry.sdk_attempt
            ])
        })
        .translated()?;
    Ok(row(connection.last_insert_rowid(), admission.now))
}

/// Runs an unanswered turn again, if the last that was said in the conversation is its.
pub(crate) fn next_attempt(
    connection: &Connection,
    admission: &Admission,
    state: &ConversationState,
    unanswered: TurnId,
    grant: Grant,
) -> Outcome<Option<TurnRow>> {
    let Grant { owner, fence, resolution, brings_key } = grant;
    let last: Option<(i64, TurnId, TurnState, i64)> = connection
        .prepare_cached(
            "SELECT t.pk, t.id, t.state, t.created_at FROM sessions s JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk
             WHERE s.conversation_pk = ?1 AND m.compaction_pk IS NULL ORDER BY s.pk DESC, m.seq DESC LIMIT 1",
        )
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
    expiry::look_again(connection, key)?;
    // How the attempt before ended stays in the row until this one ends, for the case that it is taken back.
    let attempt = connection
        .query_row(
            "UPDATE turns SET state = 'running', attempt = attempt + 1, fence = ?2, owner = ?3, fingerprint = ?4, delivered = 0, retried = 0,
             sdk_attempt = ?12, joinable = 1,
             stop_requested = NULL, stop_kind = NULL, brought_key = ?5, resolution = ?6, session_pk = ?7, rotated = 0, echo = coalesce(?8, echo),
             kept = coalesce(?9, kept), promised = coalesce(?10, promised), api = iif(?8 IS NULL, api, ?11) WHERE pk = ?1 RETURNING attempt",
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
                admission.response.as_ref().map(|response| response.promised),
                admission.api,
                admission.retry.sdk_attempt
            ],
            |row| row.get(0),
        )
        .translated()?;
    Ok(Some(TurnRow { key, id, attempt, started_at: Timestamp(created_at) }))
}

/// Runs an unanswered turn again at the end of its conversation, in a row of its own that takes over the turn's id. The
/// old row stays, under an id that no turn has, and keeps what the turn said where it failed. `None` if the turn has an
/// answer, runs, or belongs to another conversation.
pub(crate) fn attempt_at_the_end(
    connection: &Connection,
    admission: &Admission,
    state: &ConversationState,
    unanswered: TurnId,
    grant: Grant,
) -> Outcome<Option<TurnRow>> {
    let Some((left, attempt, created_at)) = unanswered_turn(connection, state.key, unanswered)? else {
        return Ok(None);
    };
    if let Some(ticket) = admission.ticket {
        connection.execute("DELETE FROM turns WHERE pk = ?1 AND state = 'queued'", [ticket.0]).translated()?;
    }
    let Grant { owner, fence, resolution, brings_key } = grant;
    let response = admission.response.as_ref();
    let (id, left_id) = (unanswered.uuid(), unanswered.left_behind(attempt).uuid());
    connection
        .execute(
            "UPDATE turns SET id = ?2, attempt_of = ?3 WHERE pk = ?1",
            params![left, left_id.as_bytes(), id.as_bytes()],
        )
        .translated()?;
    connection
        .execute(
            "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, attempt, fence, owner,
             resolution, fingerprint, brought_key, first_seq, created_at, echo, kept, promised, sdk_attempt, joinable)
             SELECT tenant_pk, ?2, conversation_pk, ?3, iif(?4 IS NULL, api, ?5), 'running', attempt + 1, ?6, ?7,
             ?8, ?9, ?10, ?11, created_at, coalesce(?4, echo), coalesce(?12, kept), coalesce(?13, promised), ?14, 1
             FROM turns WHERE pk = ?1",
            params![
                left,
                id.as_bytes(),
                state.head,
                response.map(|response| &response.echo),
                admission.api,
                fence,
                owner,
                resolution.as_str(),
                &admission.retry.fingerprint,
                brings_key,
                state.next_seq,
                response.map(|response| response.kept),
                response.map(|response| response.promised),
                admission.retry.sdk_attempt
            ],
        )
        .translated()?;
    let key = connection.last_insert_rowid();
    connection
        .execute(
            "UPDATE turns SET kept = 0, promised = 0, echo = NULL, delivered = 1, joinable = 0 WHERE pk = ?1",
            [left],
        )
        .translated()?;
    connection.execute("UPDATE idempotency SET turn_pk = ?2 WHERE turn_pk = ?1", [left, key]).translated()?;
    Ok(Some(TurnRow { key, id: unanswered, attempt: attempt + 1, started_at: Timestamp(created_at) }))
}

/// Under which id an admission waits.
pub(crate) enum WaitsAs {
    /// Its own.
    Itself,
    /// That of the promised turn that it tries again.
    AttemptOf(RepeatedTurn),
    /// The turn that it wants to try again has an answer, runs, or belongs to another conversation.
    Nothing,
}

/// A promised turn that failed.
pub(crate) struct RepeatedTurn {
    pub(crate) turn: TurnId,
    pub(crate) key: i64,
    pub(crate) asked_at: Timestamp,
}

/// Decides under which id an admission waits. The id of a promised turn was given out, so all its attempts have it.
pub(crate) fn waits_as(connection: &Connection, admission: &Admission, conversation: i64) -> Outcome<WaitsAs> {
    let is_promised = admission.response.as_ref().is_some_and(|response| response.promised);
    let Some(turn) = admission.retry_of.or(admission.anew_of).filter(|_| is_promised) else {
        return Ok(WaitsAs::Itself);
    };
    let Some((key, _, created_at)) = unanswered_turn(connection, conversation, turn)? else {
        return Ok(WaitsAs::Nothing);
    };
    let was_promised: bool = connection
        .query_row("SELECT promised AND api = ?2 FROM turns WHERE pk = ?1", params![key, admission.api], |row| {
            row.get(0)
        })
        .translated()?;
    Ok(match was_promised {
        true => WaitsAs::AttemptOf(RepeatedTurn { turn, key, asked_at: Timestamp(created_at) }),
        false => WaitsAs::Itself,
    })
}

/// The row, the last attempt and the beginning of a turn of a conversation, if it has no answer.
fn unanswered_turn(connection: &Connection, conversation: i64, turn: TurnId) -> Outcome<Option<(i64, u32, i64)>> {
    let found = connection
        .prepare_cached(
            "SELECT pk, attempt, created_at, state FROM turns
             WHERE id = ?1 AND conversation_pk = ?2 AND first_seq IS NOT NULL",
        )
        .and_then(|mut select| {
            select
                .query_row(params![turn.uuid().as_bytes(), conversation], |row| {
                    let state = rows::word(row, 3, TurnState::parse)?;
                    Ok(state.is_unanswered().then_some((row.get(0)?, row.get(1)?, row.get(2)?)))
                })
                .optional()
        })
        .translated()?;
    Ok(found.flatten())
}

/// Takes an attempt back that began anew: the turn's id returns to the row where the turn had failed before, and the
/// attempt's own row goes. `false`, and nothing has happened, if the attempt did not begin anew.
pub(crate) fn give_place_back(connection: &Connection, turn: i64, attempt: u32) -> Outcome<bool> {
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
            "UPDATE turns SET (echo, kept, promised, api, delivered, joinable) =
             (SELECT echo, kept, promised, api, 0, 1 FROM turns WHERE pk = ?2) WHERE pk = ?1",
            [left, turn],
        )
        .translated()?;
    expiry::look_again(connection, left)?;
    connection.execute("DELETE FROM turns WHERE pk = ?1", [turn]).translated()?;
    connection.execute("UPDATE turns SET id = attempt_of, attempt_of = NULL WHERE pk = ?1", [left]).translated()?;
    Ok(true)
}
