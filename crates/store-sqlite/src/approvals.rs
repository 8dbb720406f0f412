//! Questions whether calls of a turn may be made, and their answers.
//!
//! A turn has questions while it is parked, and afterwards until it ends. Only those of its last park are kept.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::{ApprovalAnswer, ApprovalChoice, CallId, Message, OwnCall, Role, Timestamp, TurnId};
use herma_store::{AnswerOutcome, PendingApproval, Question, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;
use crate::tables::insert_grant;

/// The largest number of parked turns that are named at once.
const MOST_TURNS: usize = 100;

/// A question of a turn.
pub(crate) struct AskedQuestion {
    place: i64,
    /// The message that makes the call lies before this place.
    before: i64,
    pub(crate) approval: PendingApproval,
}

/// The index of the message that makes the calls. A model may give calls of several messages the same id, so its place
/// decides.
pub(crate) fn asking_message(asked: &[AskedQuestion], messages: &[Arc<Message>]) -> Option<usize> {
    let before = asked.first()?.before;
    messages.iter().rposition(|message| message.seq.0 < before && message.said.role == Role::Assistant)
}

/// The answers so far about calls of the first of these messages that have no result after it.
pub(crate) fn answers_without_result(
    asked: &[AskedQuestion],
    messages: &[Arc<Message>],
) -> Vec<(CallId, ApprovalAnswer)> {
    let Some((caller, rest)) = messages.split_first() else { return Vec::new() };
    let results: HashSet<&CallId> = rest
        .iter()
        .take_while(|message| message.said.role == Role::Tool)
        .flat_map(|message| message.said.calls.iter())
        .collect();
    let about = asked.iter().filter(|asked| caller.seq.0 < asked.before).map(|asked| &asked.approval);
    about
        .filter(|approval| !results.contains(&approval.call.id))
        .filter_map(|approval| Some((approval.call.id.clone(), approval.answer?)))
        .collect()
}

/// The questions of a turn, in order.
pub(crate) fn of_turn(connection: &Connection, turn: i64) -> StoreResult<Vec<AskedQuestion>> {
    connection
        .prepare_cached(
            "SELECT place, before_seq, call_id, server, tool, asks, waits, name, arguments, asked_at, choice, answered,
             expired FROM approvals WHERE turn_pk = ?1 ORDER BY place",
        )
        .and_then(|mut select| select.query_map([turn], read)?.collect())
        .translated()
}

fn read(row: &Row<'_>) -> rusqlite::Result<AskedQuestion> {
    let choice = rows::optional_word(row, 10, ApprovalChoice::parse)?;
    let (order, expired): (Option<u32>, bool) = (row.get(11)?, row.get(12)?);
    let call = OwnCall {
        id: CallId::from(row.get_ref(2)?.as_str()?),
        server: rows::text(row, 3)?,
        tool: rows::text(row, 4)?,
        asks: row.get(5)?,
        waits: row.get(6)?,
        max_output: None,
    };
    let approval = PendingApproval {
        call,
        name: rows::text(row, 7)?,
        arguments: rows::text(row, 8)?,
        asked_at: Timestamp(row.get(9)?),
        answer: choice.zip(order).map(|(choice, order)| ApprovalAnswer { choice, order, expired }),
    };
    Ok(AskedQuestion { place: row.get(0)?, before: row.get(1)?, approval })
}

/// Forgets that a turn was parked, and all its questions.
pub(crate) fn forget(connection: &Connection, turn: i64) -> StoreResult<()> {
    for statement in ["DELETE FROM parked_turns WHERE turn_pk = ?1", "DELETE FROM approvals WHERE turn_pk = ?1"] {
        connection.prepare_cached(statement).and_then(|mut delete| delete.execute([turn])).translated()?;
    }
    Ok(())
}

/// A parked turn that a caller can see.
struct ParkedTurn {
    key: i64,
    tenant: i64,
    conversation: i64,
}

impl ParkedTurn {
    fn find(connection: &Connection, scope: &Scope, turn: TurnId) -> StoreResult<Option<Self>> {
        let found = connection
            .query_row(
                "SELECT t.pk, t.conversation_pk, c.session_key FROM turns t JOIN parked_turns p ON p.turn_pk = t.pk
                 JOIN conversations c ON c.pk = t.conversation_pk WHERE t.id = ?1 AND t.tenant_pk = ?2",
                params![turn.uuid().as_bytes(), scope.tenant.0],
                |row| {
                    let session_key = rows::session_key(row, 2)?;
                    Ok((Self { key: row.get(0)?, tenant: scope.tenant.0, conversation: row.get(1)? }, session_key))
                },
            )
            .optional()
            .translated()?;
        Ok(found.filter(|(_, key)| scope.keys.sees(key.as_ref())).map(|(turn, _)| turn))
    }
}

/// Answers questions of a parked turn, and grants what the answer grants.
pub(crate) fn answer(
    connection: &Connection,
    scope: &Scope,
    turn: TurnId,
    question: &Question,
    choice: ApprovalChoice,
    now: Timestamp,
) -> StoreResult<AnswerOutcome> {
    let Some(turn) = ParkedTurn::find(connection, scope, turn)? else { return Ok(AnswerOutcome::NotFound) };
    let asked = of_turn(connection, turn.key)?;
    let answered = count_answers(&asked);
    let mut open = asked.iter().filter(|asked| asked.approval.answer.is_none());
    let chosen: Vec<&AskedQuestion> = match question {
        Question::Oldest => open.next().into_iter().collect(),
        Question::Call(call) => open.find(|asked| asked.approval.call.id == *call).into_iter().collect(),
        Question::All => open.collect(),
    };
    for (order, asked) in (answered..).zip(&chosen) {
        write_answer(connection, turn.key, asked.place, ApprovalAnswer::given(choice, order))?;
        let grant = match choice {
            ApprovalChoice::Once | ApprovalChoice::Deny => continue,
            ApprovalChoice::Session => Some(turn.conversation),
            ApprovalChoice::Always => None,
        };
        insert_grant(connection, turn.tenant, grant, &asked.approval.call, now)?;
    }
    let Some(last) = chosen.last().map(|asked| asked.approval.call.clone()) else {
        return Ok(AnswerOutcome::NothingAsked);
    };
    let is_complete = answered as usize + chosen.len() == asked.len();
    Ok(if is_complete { AnswerOutcome::Complete(last) } else { AnswerOutcome::Answered(last) })
}

fn count_answers(asked: &[AskedQuestion]) -> u32 {
    asked.iter().filter(|asked| asked.approval.answer.is_some()).map(|_| 1).sum()
}

fn write_answer(connection: &Connection, turn: i64, place: i64, answer: ApprovalAnswer) -> StoreResult<()> {
    let ApprovalAnswer { choice, order, expired } = answer;
    connection
        .prepare_cached(
            "UPDATE approvals SET choice = ?3, answered = ?4, expired = ?5 WHERE turn_pk = ?1 AND place = ?2",
        )
        .and_then(|mut update| update.execute(params![turn, place, choice.as_str(), order, expired]))
        .map(drop)
        .translated()
}

/// Whether an open question was asked before a moment.
pub(crate) fn are_late(connection: &Connection, asked_before: Timestamp) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM approvals WHERE choice IS NULL AND asked_at < ?1")
        .and_then(|mut select| select.exists([asked_before.0]))
        .translated()
}

/// Denies the open questions that were asked before a moment.
pub(crate) fn deny_late(connection: &Connection, asked_before: Timestamp) -> StoreResult<()> {
    let late: Vec<i64> = connection
        .prepare_cached("SELECT DISTINCT turn_pk FROM approvals WHERE choice IS NULL AND asked_at < ?1")
        .and_then(|mut select| select.query_map([asked_before.0], |row| row.get(0))?.collect())
        .translated()?;
    for turn in late {
        let asked = of_turn(connection, turn)?;
        let answered = count_answers(&asked);
        let open = asked.iter().filter(|asked| asked.approval.answer.is_none());
        for (order, asked) in (answered..).zip(open.filter(|asked| asked.approval.asked_at < asked_before)) {
            let answer = ApprovalAnswer { choice: ApprovalChoice::Deny, order, expired: true };
            write_answer(connection, turn, asked.place, answer)?;
        }
    }
    Ok(())
}

/// Parked turns without an open question, oldest first.
pub(crate) fn complete_turns(connection: &Connection) -> StoreResult<Vec<TurnId>> {
    connection
        .prepare_cached(&format!(
            "SELECT t.id FROM parked_turns p JOIN turns t ON t.pk = p.turn_pk WHERE NOT EXISTS
             (SELECT 1 FROM approvals a WHERE a.turn_pk = p.turn_pk AND a.choice IS NULL)
             ORDER BY p.parked_at, p.turn_pk LIMIT {MOST_TURNS}"
        ))
        .and_then(|mut select| select.query_map([], |row| rows::uuid(row, 0).map(TurnId::from_uuid))?.collect())
        .translated()
}
