//! Ends a turn in place of its owner: the owner's process is dead, or the turn did not end when it was asked to.

use std::sync::Arc;

use herma_model::message::Utterance;
use herma_model::turn::FailureCode;
use herma_model::{
    CallEnd, CallId, CallStatus, Message, MessageId, NewMessage, OwnCall, Role, StopKind, Timestamp, TurnFailure,
    TurnId, tool,
};
use herma_store::{Lease, StoreError, StreamedOutput};
use rusqlite::{Connection, params};

use crate::approvals;
use crate::delegates;
use crate::failure::{StoreResult, Translate};
use crate::instance::{Instance, NOBODY};
use crate::rows::{self, ConversationState, MESSAGE};
use crate::tables::insert_message;

/// Why a turn is taken over.
#[derive(Clone, Copy)]
pub(crate) enum TakeoverReason {
    /// Its owner is dead.
    OwnerGone,
    /// It did not yield to an interrupt.
    Interrupted,
    /// It did not end when a client cancelled it.
    Cancelled,
}

impl TakeoverReason {
    /// The reason for a turn that was asked to stop and did not.
    pub(crate) const fn of(asked: Option<StopKind>) -> Self {
        match asked {
            Some(StopKind::Cancel) => Self::Cancelled,
            Some(StopKind::Interrupt) | None => Self::Interrupted,
        }
    }

    pub(crate) fn failure(self) -> TurnFailure {
        match self {
            Self::OwnerGone => {
                TurnFailure::new(FailureCode::Abandoned, "the process that ran this turn ended; send the request again")
            }
            Self::Interrupted => TurnFailure::new(FailureCode::Interrupted, "another turn interrupted this one"),
            Self::Cancelled => TurnFailure::new(FailureCode::Cancelled, "the turn was cancelled"),
        }
    }
}

/// A turn that holds a lease.
pub(crate) struct LiveTurn {
    pub(crate) key: i64,
    pub(crate) id: TurnId,
    /// Whether it is parked. Then it can be ended at once.
    pub(crate) is_parked: bool,
    /// When it was asked to stop.
    pub(crate) stop_requested: Option<Timestamp>,
    /// How it was asked to stop.
    pub(crate) stop_kind: Option<StopKind>,
}

/// The running turn of a conversation. `None` if there is none, or if its owner was dead: then the turn is ended here.
pub(crate) fn live_turn(
    connection: &Connection,
    instance: &Instance,
    state: &mut ConversationState,
    now: Timestamp,
) -> StoreResult<Option<LiveTurn>> {
    let Some(key) = state.running else { return Ok(None) };
    let (owner, live): (i64, _) = connection
        .prepare_cached("SELECT owner, id, stop_requested, stop_kind FROM turns WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([key], |row| {
                let id = TurnId::from_uuid(rows::uuid(row, 1)?);
                let stop_requested = row.get::<_, Option<i64>>(2)?.map(Timestamp);
                let stop_kind = rows::optional_word(row, 3, StopKind::parse)?;
                let owner = row.get(0)?;
                Ok((owner, LiveTurn { key, id, is_parked: owner == NOBODY, stop_requested, stop_kind }))
            })
        })
        .translated()?;
    if instance.is_dead(connection, owner, key)? {
        take_over(connection, state, key, TakeoverReason::OwnerGone, now)?;
        return Ok(None);
    }
    Ok(Some(live))
}

/// Ends the running turn without an answer, stores its journal as a partial answer, and frees the lease.
pub(crate) fn take_over(
    connection: &Connection,
    conversation: &mut ConversationState,
    turn: i64,
    why: TakeoverReason,
    now: Timestamp,
) -> StoreResult<()> {
    let (attempt, session, id, is_parked): (u32, i64, TurnId, bool) = connection
        .prepare_cached("SELECT attempt, session_pk, id, owner = ?2 FROM turns WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([turn, NOBODY], |row| {
                Ok((row.get(0)?, row.get(1)?, TurnId::from_uuid(rows::uuid(row, 2)?), row.get(3)?))
            })
        })
        .translated()?;
    if matches!(why, TakeoverReason::OwnerGone) {
        let conversation = conversation.facts.id;
        tracing::warn!(%conversation, turn = %id, "the owner of a running turn is gone; the turn is taken over");
    }
    let StreamedOutput { text, record } = journal(connection, turn, 0)?.0;
    let appended = appended(connection, turn)?;
    let cut_off = settle(connection, conversation.key, turn, id, attempt, appended, is_parked)?;
    let answer_seq = (!cut_off.is_empty()).then_some(conversation.next_seq);
    for result in &cut_off {
        insert_message(connection, session, conversation.next_seq, turn, attempt, result, now)?;
        conversation.next_seq += 1;
    }
    if !text.is_empty() {
        let id = MessageId::answered(id, attempt, appended + cut_off.len());
        let partial = NewMessage { id, said: Utterance::partial_text(&text) };
        insert_message(connection, session, conversation.next_seq, turn, attempt, &partial, now)?;
        conversation.next_seq += 1;
    }
    connection
        .prepare_cached(
            "UPDATE turns SET state = ?2, failure_code = ?3, failure_message = ?4, upstream_status = NULL,
             ended_at = ?5, last_seq = ?6, record = iif(?8, coalesce(record, ''), '') || ?7, cut_off = ?9,
             answer_seq = coalesce(answer_seq, ?10) WHERE pk = ?1",
        )
        .and_then(|mut update| {
            let failure = why.failure();
            let state = failure.code.ends_as().as_str();
            let last_seq = conversation.next_seq - 1;
            let (code, message) = (failure.code.as_str(), failure.message);
            let has_appended = appended > 0;
            let ended =
                params![turn, state, code, message, now.0, last_seq, record, has_appended, !is_parked, answer_seq];
            update.execute(ended)
        })
        .translated()?;
    clear_journal(connection, turn)?;
    approvals::forget(connection, turn)?;
    conversation.running = None;
    conversation.last_fence = conversation.fence;
    conversation.version += 1;
    connection
        .prepare_cached(
            "UPDATE conversations SET running_turn = NULL, version = ?2, last_fence = fence,
             message_count = message_count + (?3 - next_seq), next_seq = ?3,
             updated_at = ?4 WHERE pk = ?1",
        )
        .and_then(|mut update| {
            update.execute(params![conversation.key, conversation.version, conversation.next_seq, now.0])
        })
        .map(drop)
        .translated()
}

/// Results for the calls of Herma's own tools that had none when the turn's owner went away: calls that the turn made
/// itself, and calls of an earlier turn that its request decided about. Whether they were carried out is not known,
/// unless a person had denied them or the turn was parked. Of a delegation, the model is told what the children had
/// answered.
fn settle(
    connection: &Connection,
    conversation: i64,
    turn: i64,
    id: TurnId,
    attempt: u32,
    appended: usize,
    is_parked: bool,
) -> StoreResult<Vec<NewMessage>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM turns t JOIN sessions s ON s.conversation_pk = t.conversation_pk
             JOIN messages m ON m.session_pk = s.pk AND m.seq >= t.first_seq AND m.turn_pk = t.pk
             AND m.attempt = t.attempt AND m.role <> 'user' WHERE t.pk = ?1 ORDER BY s.pk, m.seq"
        ))
        .translated()?;
    let said: Vec<Arc<Message>> =
        select.query_map([turn], |row| rows::message(row).map(Arc::new)).and_then(Iterator::collect).translated()?;
    let is_settled = |call: &CallId| said.iter().any(|message| message.said.calls.contains(call));
    let decided = said.iter().filter_map(|message| message.said.decision()).filter(|decided| !is_settled(&decided.id));
    let ids = (appended..).map(|nth| MessageId::answered(id, attempt, nth));
    let decided = decided.zip(ids).map(|(decided, id)| NewMessage { id, said: decided.cut_off() });
    let mut results: Vec<NewMessage> = decided.collect();
    let open = tool::unsettled(said.iter().map(|message| &message.said));
    if open.is_empty() {
        return Ok(results);
    }
    let caller = said.iter().rposition(|message| message.said.role == Role::Assistant).unwrap_or(said.len());
    let answers = approvals::answers_without_result(&approvals::of_turn(connection, turn)?, &said[caller..]);
    let first = appended + results.len();
    let result = |(call, nth): (OwnCall, usize)| {
        let answer = answers.iter().find(|(id, _)| *id == call.id).map(|(_, answer)| *answer);
        let said = match answer {
            _ if is_parked => call.not_allowed_yet(answer),
            Some(answer) if !answer.choice.allows() => call.not_allowed_yet(Some(answer)),
            _ => {
                let text = delegates::cut_off(connection, conversation, &call)?;
                let end = CallEnd { answer, ..CallEnd::at_once(CallStatus::Uncertain) };
                Utterance::tool_result(&call.id, &text, &end)
            }
        };
        Ok(NewMessage { id: MessageId::answered(id, attempt, nth), said })
    };
    for open in open.into_iter().zip(first..) {
        results.push(result(open)?);
    }
    Ok(results)
}

/// How many messages the running attempt of a turn has appended.
pub(crate) fn appended(connection: &Connection, turn: i64) -> StoreResult<usize> {
    connection
        .query_row(
            "SELECT count(*) FROM turns t JOIN sessions s ON s.conversation_pk = t.conversation_pk
             JOIN messages m ON m.session_pk = s.pk AND m.seq >= t.answer_seq AND m.turn_pk = t.pk
             AND m.attempt = t.attempt
             WHERE t.pk = ?1",
            [turn],
            |row| row.get::<_, u32>(0).map(|count| count as usize),
        )
        .translated()
}

/// The streamed output of a running turn since its last append, from part `from` of its journal on, and the number of
/// parts.
pub(crate) fn journal(connection: &Connection, turn: i64, from: u32) -> StoreResult<(StreamedOutput, u32)> {
    let mut select = connection
        .prepare_cached("SELECT text, record, part FROM turn_journal WHERE turn_pk = ?1 AND part >= ?2 ORDER BY part")
        .translated()?;
    let mut rows = select.query([turn, from.into()]).translated()?;
    let (mut shown, mut parts) = (StreamedOutput::default(), from);
    while let Some(row) = rows.next().translated()? {
        shown.text.push_str(row.get_ref(0).and_then(|text| Ok(text.as_str()?)).translated()?);
        shown.record.push_str(row.get_ref(1).and_then(|text| Ok(text.as_str()?)).translated()?);
        parts = row.get::<_, u32>(2).translated()? + 1;
    }
    tracing::debug!(bytes = shown.text.len() + shown.record.len(), "a journal is read");
    Ok((shown, parts))
}

/// Deletes a turn's journal.
pub(crate) fn clear_journal(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("DELETE FROM turn_journal WHERE turn_pk = ?1")
        .and_then(|mut delete| delete.execute([turn]))
        .map(drop)
        .translated()
}

/// [`StoreError::Fenced`] unless a turn holds its lease.
pub(crate) fn require_lease(connection: &Connection, lease: Lease) -> StoreResult<()> {
    let is_held = connection
        .prepare_cached(
            "SELECT 1 FROM conversations WHERE pk = ?1 AND tenant_pk = ?2 AND running_turn = ?3 AND fence = ?4",
        )
        .and_then(|mut select| select.exists([lease.conversation, lease.tenant.0, lease.turn, lease.fence.0]))
        .translated()?;
    if is_held { Ok(()) } else { Err(StoreError::Fenced) }
}

/// Adds streamed output to the journal of a turn that still runs under its fence. Otherwise [`StoreError::Fenced`].
pub(crate) fn append_journal(
    connection: &Connection,
    turn: i64,
    fence: i64,
    shown: &StreamedOutput,
) -> StoreResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO turn_journal (turn_pk, part, text, record)
             SELECT pk, (SELECT coalesce(max(part) + 1, 0) FROM turn_journal WHERE turn_pk = ?1), ?3, ?4 FROM turns
             WHERE pk = ?1 AND fence = ?2 AND state = 'running'",
        )
        .and_then(|mut insert| insert.execute(params![turn, fence, shown.text, shown.record]))
        .translated()
        .and_then(|added| if added == 1 { Ok(()) } else { Err(StoreError::Fenced) })
}
