//! What a turn writes under its fence: steps while it runs, and its end.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{
    Cost, Fence, Message, MessageStatus, NewMessage, Resolution, Seq, SessionId, StopKind, TenantId, Timestamp, TurnId,
    TurnState,
};
use herma_store::{Append, Commit, Committed, Lease, Revision, StoreError, TurnOutcome, Version};
use rusqlite::{Connection, OptionalExtension, params};

use crate::admissions::AdmittedTurn;
use crate::failure::{StoreResult, Translate};
use crate::histories::HistoryColumns;
use crate::instance::Instance;
use crate::rows::ConversationState;
use crate::tables::{self, TurnColumns, insert_message};
use crate::takeover::clear_journal;
use crate::{admissions, approvals, outbox, recalls, rows, title};

/// Whether what was said is handed over to an outside memory provider.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOver {
    Yes,
    No,
}

/// Writes the turn's outcome and frees the lease, or changes nothing.
pub(crate) fn commit(
    connection: &Connection,
    instance: &mut Instance,
    commit: &Commit,
    hand_over: HandOver,
) -> StoreResult<Committed> {
    let lease = commit.lease;
    let added = match &commit.outcome {
        TurnOutcome::Completed { messages, .. } => messages.as_slice(),
        TurnOutcome::Unanswered { messages, .. } => messages.as_slice(),
    };
    let usage = match &commit.outcome {
        TurnOutcome::Completed { finish, .. } => finish.usage.unwrap_or_default(),
        TurnOutcome::Unanswered { .. } => herma_model::Usage::default(),
    };
    let admitted = match &commit.outcome {
        TurnOutcome::Completed { .. } if !added.is_empty() => admissions::take(connection, instance, lease)?,
        TurnOutcome::Completed { .. } | TurnOutcome::Unanswered { .. } => None,
    };
    let held = match &admitted {
        Some(admitted) => LeasedConversation::of(admitted),
        None => {
            admissions::write_out(connection, lease.conversation)?;
            LeasedConversation::by(connection, lease)?
        }
    };
    let history = commit.history.map(|end| HistoryColumns::of(lease.tenant, held.session_key.as_deref(), end));
    let LeasedConversation { session, seq, version, changes, session_key, .. } = held;
    let last_seq = seq + added.len() as i64 - 1;
    let is_answer = match &commit.outcome {
        TurnOutcome::Completed { messages, .. } => !messages.is_empty() || has_appended(connection, lease.turn)?,
        TurnOutcome::Unanswered { .. } => false,
    };
    let counted = (usage.input > 0).then(|| usage.total().saturating_sub(usage.reasoning) as i64);
    match (&admitted, &commit.outcome) {
        (Some(admitted), TurnOutcome::Completed { finish, .. }) => {
            insert_ended(connection, commit, finish, admitted, last_seq, history.as_ref())?;
        }
        _ => end_turn(connection, commit, seq, last_seq, history.as_ref())?,
    }
    // The message and the turn of an admission that was not written out are counted here.
    let unwritten = i64::from(admitted.is_some());
    connection
        .prepare_cached(
            "UPDATE conversations SET running_turn = NULL, fence = ?16, last_fence = ?16, version = ?2,
             next_seq = next_seq + ?3, message_count = message_count + ?3, turn_count = turn_count + ?17,
             updated_at = ?4, input_tokens = input_tokens + ?5, output_tokens = output_tokens + ?6,
             cached_tokens = cached_tokens + ?7, reasoning_tokens = reasoning_tokens + ?8, system = coalesce(?9, system),
             counted_seq = coalesce(?10, counted_seq), counted_tokens = coalesce(?11, counted_tokens),
             answered = max(answered, ?12), cost = coalesce(cost + ?13, ?13, cost),
             history = iif(?14, ?15, history) WHERE pk = ?1",
        )
        .and_then(|mut update| {
            update.execute(params![
                lease.conversation,
                version,
                unwritten + added.len() as i64,
                commit.now.0,
                usage.input as i64,
                usage.output as i64,
                usage.cached as i64,
                usage.reasoning as i64,
                commit.system.as_deref().map(rows::system_to),
                counted.map(|_| last_seq),
                counted,
                is_answer,
                commit.cost.map(Cost::micros),
                matches!(commit.outcome, TurnOutcome::Completed { .. }),
                history.as_ref().map(|columns| &columns.history),
                lease.fence.0,
                unwritten
            ])
        })
        .translated()?;
    if let Some(title) = &commit.title {
        title::make(connection, lease.conversation, title, commit.now)?;
    }
    let messages = insert(connection, lease, &commit.session, (session, seq), added, commit.now)?;
    if admitted.is_none() {
        clear_journal(connection, lease.turn)?;
    }
    if lease.resumed {
        approvals::forget(connection, lease.turn)?;
    }
    if let Some(recall) = &commit.recall {
        recalls::write(connection, lease, recall, commit.now)?;
    }
    if let (HandOver::Yes, true, Some(key)) = (hand_over, is_answer, &session_key) {
        outbox::record(connection, lease, key, commit.now)?;
    }
    instance.end(lease);
    if let Some(AdmittedTurn { state, name: Some(name), resolution, .. }) = admitted {
        let fence = lease.fence.0;
        let state = ConversationState { version, fence, last_fence: fence, next_seq: last_seq + 1, ..state };
        // The name under which a conversation was made leads to its head.
        let resolution = if resolution == Resolution::Created { Resolution::Head } else { resolution };
        instance.lookups.put(name, resolution, state);
    }
    let revision = Revision::after_turn(lease.fence, changes);
    Ok(Committed { version: Version(version), revision, messages })
}

/// Writes a turn of which nothing was written but its admission, with its outcome and the message it was asked with.
fn insert_ended(
    connection: &Connection,
    commit: &Commit,
    finish: &Finish,
    admitted: &AdmittedTurn,
    last_seq: i64,
    history: Option<&HistoryColumns>,
) -> StoreResult<()> {
    let lease = commit.lease;
    let columns = TurnColumns {
        pk: Some(lease.turn),
        tenant_pk: lease.tenant.0,
        id: lease.id.uuid().into_bytes(),
        conversation_pk: lease.conversation,
        session_pk: admitted.state.head,
        api: admitted.api,
        state: TurnState::Completed.as_str(),
        fence: lease.fence.0,
        owner: admitted.owner,
        resolution: admitted.resolution.as_str(),
        fingerprint: &admitted.fingerprint,
        first_seq: Some(admitted.state.next_seq),
        answer_seq: Some(admitted.state.next_seq + 1),
        last_seq: Some(last_seq),
        model: finish.model.as_deref(),
        finish_reason: Some(finish.reason.as_str()),
        created_at: admitted.created_at.0,
        ended_at: Some(commit.now.0),
        record: commit.record.as_deref(),
        sdk_attempt: admitted.sdk_attempt,
        joinable: true,
        history: history.map(|columns| columns.history),
        history_key: history.map(|columns| columns.key),
        ..TurnColumns::default()
    };
    tables::insert(connection, &columns.with_usage(finish.usage).with_response(admitted.response.as_ref()))?;
    let (seq, message) = (admitted.state.next_seq, &admitted.message);
    insert_message(connection, admitted.state.head, seq, lease.turn, lease.attempt, message, admitted.created_at)
        .map(drop)
}

/// Writes steps of a turn that continues, or changes nothing. Their streamed output is removed from the journal.
pub(crate) fn append(connection: &Connection, append: &Append) -> StoreResult<Committed> {
    let Append { lease, session, messages, usage, cost, record, recall, now } = append;
    admissions::write_out(connection, lease.conversation)?;
    let held = LeasedConversation::by(connection, *lease)?;
    let added = messages.len() as i64;
    let written = connection
        .execute(
            "UPDATE turns SET answer_seq = coalesce(answer_seq, ?2), record = ?3,
             input_tokens = coalesce(input_tokens + ?4, ?4, input_tokens),
             output_tokens = coalesce(output_tokens + ?5, ?5, output_tokens),
             cached_tokens = coalesce(cached_tokens + ?6, ?6, cached_tokens),
             reasoning_tokens = coalesce(reasoning_tokens + ?7, ?7, reasoning_tokens),
             cache_write_tokens = coalesce(cache_write_tokens + ?8, ?8, cache_write_tokens)
             WHERE pk = ?1 AND stop_requested IS NULL",
            params![
                lease.turn,
                held.seq,
                record,
                usage.map(|usage| usage.input as i64),
                usage.map(|usage| usage.output as i64),
                usage.map(|usage| usage.cached as i64),
                usage.map(|usage| usage.reasoning as i64),
                usage.map(|usage| usage.cache_write as i64).filter(|tokens| *tokens > 0)
            ],
        )
        .translated()?;
    if written == 0 {
        return Err(stop_requested(connection, lease.turn)?);
    }
    connection
        .execute(
            "UPDATE conversations SET version = ?2, next_seq = next_seq + ?3, message_count = message_count + ?3,
             updated_at = ?4, input_tokens = input_tokens + ?5, output_tokens = output_tokens + ?6,
             cached_tokens = cached_tokens + ?7, reasoning_tokens = reasoning_tokens + ?8,
             cost = coalesce(cost + ?9, ?9, cost) WHERE pk = ?1",
            params![
                lease.conversation,
                held.version,
                added,
                now.0,
                usage.map_or(0, |usage| usage.input as i64),
                usage.map_or(0, |usage| usage.output as i64),
                usage.map_or(0, |usage| usage.cached as i64),
                usage.map_or(0, |usage| usage.reasoning as i64),
                cost.map(Cost::micros)
            ],
        )
        .translated()?;
    let messages = insert(connection, *lease, session, (held.session, held.seq), messages, *now)?;
    clear_journal(connection, lease.turn)?;
    if let Some(recall) = recall {
        recalls::write(connection, *lease, recall, *now)?;
    }
    let revision = Revision {
        last_turn: held.last_turn,
        changes: held.changes,
        running: Some((lease.fence, Seq(held.seq + added))),
    };
    Ok(Committed { version: Version(held.version), revision, messages })
}

/// The conversation of a lease that is still held: its head, its next place, its next version and the parts of its
/// revision.
struct LeasedConversation {
    session: i64,
    seq: i64,
    version: i64,
    changes: i64,
    last_turn: Fence,
    session_key: Option<String>,
}

impl LeasedConversation {
    /// That of a turn that is not written out: its message takes a place, and its admission a version.
    fn of(admitted: &AdmittedTurn) -> Self {
        Self {
            session: admitted.state.head,
            seq: admitted.state.next_seq + 1,
            version: admitted.state.version + 2,
            changes: admitted.state.changes,
            last_turn: Fence(admitted.state.last_fence),
            session_key: admitted.state.facts.session_key.as_ref().map(|key| key.as_str().to_owned()),
        }
    }

    fn by(connection: &Connection, lease: Lease) -> StoreResult<Self> {
        connection
            .prepare_cached(
                "SELECT head_pk, next_seq, version + 1, changes, last_fence, session_key FROM conversations
                 WHERE pk = ?1 AND tenant_pk = ?2 AND running_turn = ?3 AND fence = ?4",
            )
            .and_then(|mut select| {
                let held = [lease.conversation, lease.tenant.0, lease.turn, lease.fence.0];
                select
                    .query_row(held, |row| {
                        Ok(Self {
                            session: row.get(0)?,
                            seq: row.get(1)?,
                            version: row.get(2)?,
                            changes: row.get(3)?,
                            last_turn: Fence(row.get(4)?),
                            session_key: row.get(5)?,
                        })
                    })
                    .optional()
            })
            .translated()?
            .ok_or(StoreError::Fenced)
    }
}

/// Writes messages of a turn, beginning at `seq`.
fn insert(
    connection: &Connection,
    lease: Lease,
    session: &SessionId,
    (key, seq): (i64, i64),
    added: &[NewMessage],
    now: Timestamp,
) -> StoreResult<Vec<Arc<Message>>> {
    let mut messages = Vec::with_capacity(added.len());
    for (place, message) in (seq..).zip(added) {
        insert_message(connection, key, place, lease.turn, lease.attempt, message, now)?;
        messages.push(Arc::new(Message {
            id: message.id,
            seq: Seq(place),
            session: session.clone(),
            turn: lease.id,
            attempt: lease.attempt,
            created_at: now,
            said: message.said.clone(),
        }));
    }
    Ok(messages)
}

/// Ends the turn's row. A turn that was asked to stop cannot be completed.
fn end_turn(
    connection: &Connection,
    commit: &Commit,
    answer_seq: i64,
    last_seq: i64,
    history: Option<&HistoryColumns>,
) -> StoreResult<()> {
    let ended = match &commit.outcome {
        TurnOutcome::Completed { finish, .. } => {
            let usage = finish.usage;
            connection
                .prepare_cached(
                    "UPDATE turns SET state = 'completed', ended_at = ?2, model = ?3, finish_reason = ?4,
                     input_tokens = coalesce(input_tokens + ?5, ?5, input_tokens),
                     output_tokens = coalesce(output_tokens + ?6, ?6, output_tokens),
                     cached_tokens = coalesce(cached_tokens + ?7, ?7, cached_tokens),
                     reasoning_tokens = coalesce(reasoning_tokens + ?8, ?8, reasoning_tokens),
                     failure_code = NULL, failure_message = NULL, upstream_status = NULL,
                     answer_seq = coalesce(answer_seq, ?9), last_seq = ?10, record = ?11,
                     cache_write_tokens = coalesce(cache_write_tokens + ?12, ?12, cache_write_tokens),
                     cut_off = 0, history = ?13, history_key = ?14 WHERE pk = ?1 AND stop_requested IS NULL",
                )
                .and_then(|mut update| {
                    update.execute(params![
                        commit.lease.turn,
                        commit.now.0,
                        finish.model,
                        finish.reason.as_str(),
                        usage.map(|u| u.input as i64),
                        usage.map(|u| u.output as i64),
                        usage.map(|u| u.cached as i64),
                        usage.map(|u| u.reasoning as i64),
                        answer_seq,
                        last_seq,
                        commit.record,
                        usage.map(|u| u.cache_write as i64).filter(|tokens| *tokens > 0),
                        history.map(|columns| &columns.history),
                        history.map(|columns| columns.key)
                    ])
                })
                .translated()?
        }
        TurnOutcome::Unanswered { state, failure, messages } => connection
            .prepare_cached(
                "UPDATE turns SET state = ?2, ended_at = ?3, failure_code = ?4, failure_message = ?5,
                 upstream_status = ?6, last_seq = ?7, record = ?8, cut_off = 0, answer_seq = coalesce(answer_seq, ?9)
                 WHERE pk = ?1",
            )
            .and_then(|mut update| {
                let is_result = messages.first().is_some_and(|first| first.said.status == MessageStatus::Complete);
                update.execute(params![
                    commit.lease.turn,
                    state.as_str(),
                    commit.now.0,
                    failure.code.as_str(),
                    failure.message,
                    failure.upstream_status,
                    last_seq,
                    commit.record,
                    is_result.then_some(answer_seq)
                ])
            })
            .translated()?,
    };
    if ended == 1 { Ok(()) } else { Err(stop_requested(connection, commit.lease.turn)?) }
}

/// Whether a turn has appended a part of its answer.
fn has_appended(connection: &Connection, turn: i64) -> StoreResult<bool> {
    connection
        .query_row("SELECT answer_seq IS NOT NULL FROM turns WHERE pk = ?1", [turn], |row| row.get(0))
        .translated()
}

/// The error for a turn that was asked to stop: it may write no more of its answer.
pub(crate) fn stop_requested(connection: &Connection, turn: i64) -> StoreResult<StoreError> {
    let kind = connection
        .query_row("SELECT stop_kind FROM turns WHERE pk = ?1", [turn], |row| {
            rows::optional_word(row, 0, StopKind::parse)
        })
        .translated()?;
    Ok(StoreError::StopRequested(kind.unwrap_or(StopKind::Interrupt)))
}

/// Notes that a turn's answer was delivered completely.
pub(crate) fn mark_delivered(connection: &Connection, tenant: TenantId, turn: TurnId) -> StoreResult<()> {
    let mark = || {
        connection
            .prepare_cached("UPDATE turns SET delivered = 1 WHERE id = ?1 AND tenant_pk = ?2")
            .and_then(|mut update| update.execute(params![turn.uuid().as_bytes(), tenant.0]))
            .translated()
    };
    if mark()? == 0 && admissions::is_any(connection)? {
        admissions::write_out_all(connection)?;
        mark()?;
    }
    Ok(())
}
