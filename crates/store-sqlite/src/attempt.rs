//! The row of a turn that gets the lease, for the first time or again.

use herma_model::{Resolution, Timestamp, TurnId, TurnState};
use herma_store::{Admission, StoreError};
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
    state: &ConversationState,
    grant: Grant,
) -> Outcome<TurnRow> {
    let Grant { owner, fence, resolution, brings_key } = grant;
    let row = |key, started_at| TurnRow { key, id: admission.turn, attempt: 1, started_at };
    if let Some(ticket) = admission.ticket {
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
