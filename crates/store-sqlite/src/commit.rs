//! What a turn writes under its fence: steps while it runs, and its end.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{
    Cost, Fence, Message, MessageStatus, NewMessage, Resolution, Seq, SessionId, StopKind, Timestamp, TurnState, Usage,
};
use herma_store::{Append, Commit, Committed, Lease, Revision, StoreError, TurnOutcome, Version};
use rusqlite::{Connection, OptionalExtension, params};

use crate::admissions::AdmittedTurn;
use crate::failure::{StoreResult, Translate};
use crate::histories::HistoryColumns;
use crate::instance::Instance;
use crate::memories::recalls;
use crate::rows::ConversationState;
use crate::tables::{TurnColumns, insert_message, insert_turn};
use crate::takeover::clear_journal;
use crate::{admissions, approvals, outbox, rows, title};

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
        TurnOutcome::Unanswered { .. } => Usage::default(),
    };
    let candidate = match &commit.outcome {
        TurnOutcome::Completed { .. } if !added.is_empty() => instance.admitted.remove(&lease.turn),
        TurnOutcome::Completed { .. } | TurnOutcome::Unanswered { .. } => None,
    };
    let mut freed = None;
    if let Some(admitted) = candidate {
        let ending = Ending::of(commit, added.len(), LeasedConversation::of(&admitted));
        if ending.free(connection, commit, usage, true, Some(&admitted))? == 1 {
            freed = Some((ending, admitted));
        }
    }
    let (ending, admitted, is_answer) = match (freed, &commit.outcome) {
        (Some((ending, admitted)), TurnOutcome::Completed { finish, .. }) => {
            insert_ended(connection, commit, finish, &admitted, &ending)?;
            admissions::leave(connection, instance, lease.conversation)?;
            (ending, Some(admitted), true)
        }
        _ => {
            admissions::write_out(connection, lease.conversation)?;
            let ending = Ending::of(commit, added.len(), LeasedConversation::by(connection, lease)?);
            let is_answer = match &commit.outcome {
                TurnOutcome::Completed { messages, .. } => {
                    !messages.is_empty() || has_appended(connection, lease.turn)?
                }
                TurnOutcome::Unanswered { .. } => false,
            };
            end_turn(connection, commit, &ending)?;
            ending.free(connection, commit, usage, is_answer, None)?;
            (ending, None, is_answer)
        }
    };
    instance.deliveries.note_other_write();
    if let Some(title) = &commit.title {
        let facts = admitted.as_ref().map(|admitted| admitted.state.facts.as_ref());
        title::make(connection, lease.conversation, facts, title, commit.now)?;
    }
    let Ending { held: LeasedConversation { session, seq, version, changes, session_key, .. }, last_seq, .. } = ending;
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

/// How a commit leaves its conversation.
struct Ending {
    held: LeasedConversation,
    /// The place of the turn's last message.
    last_seq: i64,
    history: Option<HistoryColumns>,
}

impl Ending {
    fn of(commit: &Commit, added: usize, held: LeasedConversation) -> Self {
        let tenant = commit.lease.tenant;
        let history = commit.history.map(|end| HistoryColumns::of(tenant, held.session_key.as_deref(), end));
        Self { last_seq: held.seq + added as i64 - 1, held, history }
    }

    /// Writes the conversation and frees its lease. A turn that is not written out has its message and itself counted
    /// here. If it was written out meanwhile, nothing changes. Returns how many rows were changed.
    fn free(
        &self,
        connection: &Connection,
        commit: &Commit,
        usage: Usage,
        is_answer: bool,
        admitted: Option<&AdmittedTurn>,
    ) -> StoreResult<usize> {
        let lease = commit.lease;
        let counted = (usage.input > 0).then(|| usage.total().saturating_sub(usage.reasoning) as i64);
        let next_seq = self.last_seq + 1;
        let unwritten = i64::from(admitted.is_some());
        let new_messages = next_seq - self.held.seq + unwritten;
        connection
            .prepare_cached(
                "UPDATE conversations SET running_turn = NULL, fence = ?16, last_fence = ?16, version = ?2,
                 next_seq = next_seq + ?3, message_count = message_count + ?3, turn_count = turn_count + ?17,
                 updated_at = ?4, input_tokens = input_tokens + ?5, output_tokens = output_tokens + ?6,
                 cached_tokens = cached_tokens + ?7, reasoning_tokens = reasoning_tokens + ?8,
                 system = coalesce(?9, system), counted_seq = coalesce(?10, counted_seq),
                 counted_tokens = coalesce(?11, counted_tokens), answered = max(answered, ?12),
                 cost = coalesce(cost + ?13, ?13, cost), history = iif(?14, ?15, history)
                 WHERE pk = ?1 AND (?17 = 0 OR fence < ?16
                 AND EXISTS (SELECT 1 FROM admissions WHERE conversation_pk = ?1 AND turn_pk = ?18))",
            )
            .and_then(|mut update| {
                update.execute(params![
                    lease.conversation,
                    self.held.version,
                    new_messages,
                    commit.now.0,
                    usage.input as i64,
                    usage.output as i64,
                    usage.cached as i64,
                    usage.reasoning as i64,
                    commit.system.as_deref().map(rows::system_to),
                    counted.map(|_| self.last_seq),
                    counted,
                    is_answer,
                    commit.cost.map(Cost::micros),
                    matches!(commit.outcome, TurnOutcome::Completed { .. }),
                    self.history.as_ref().map(|columns| &columns.history),
                    lease.fence.0,
                    unwritten,
                    lease.turn
                ])
            })
            .translated()
    }
}

/// Writes a turn of which nothing was written but its admission, with its outcome and the message it was asked with.
fn insert_ended(
    connection: &Connection,
    commit: &Commit,
    finish: &Finish,
    admitted: &AdmittedTurn,
    ending: &Ending,
) -> StoreResult<()> {
    let lease = commit.lease;
    let history = ending.history.as_ref();
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
        last_seq: Some(ending.last_seq),
        model: finish.model.as_deref(),
        finish_reason: Some(finish.reason.as_str()),
        created_at: admitted.created_at.0,
        ended_at: Some(commit.now.0),
        record: commit.record.as_deref(),
        sdk_attempt: admitted.sdk_attempt,
        joinable: admitted.joinable,
        history: history.map(|columns| columns.history),
        history_key: history.map(|columns| columns.key),
        ..TurnColumns::default()
    };
    insert_turn(connection, &columns.with_usage(finish.usage).with_response(admitted.response.as_ref()))?;
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
fn end_turn(connection: &Connection, commit: &Commit, ending: &Ending) -> StoreResult<()> {
    let Ending { held: LeasedConversation { seq: answer_seq, .. }, last_seq, history } = ending;
    let history = history.as_ref();
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
                    is_result.then_some(*answer_seq)
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
