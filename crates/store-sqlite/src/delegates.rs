//! Conversations that a call of `delegate_task` made, and what they have answered.

use herma_model::{ChildAnswer, ConversationId, OwnCall, Payload, TenantId, TurnState};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::{rows, usage};

/// Like [`of_call`], by the conversation's id. Empty if it is deleted.
pub(crate) fn children_of_call(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
    call: &str,
) -> StoreResult<Vec<ChildAnswer>> {
    let key = usage::key_of(connection, tenant, conversation)?;
    key.map_or_else(|| Ok(Vec::new()), |key| of_call(connection, key, call))
}

/// What the model is told of a call whose turn was cut off before it had a result.
pub(crate) fn cut_off(connection: &Connection, conversation: i64, call: &OwnCall) -> StoreResult<String> {
    let children = if call.delegates() { of_call(connection, conversation, &call.id)? } else { Vec::new() };
    Ok(call.cut_off(&children))
}

/// Along an index that has only conversations that a call made.
const CHILDREN: &str = "SELECT c.pk, c.id, c.running_turn IS NOT NULL OR c.waiting > 0, c.created_at
     FROM conversations c WHERE c.parent_pk = ?1 AND c.parent_tool_call = ?2 ORDER BY c.created_at, c.pk";

/// When a conversation last made a call of this id. Reads back from its end.
const CALLED_AT: &str = "SELECT m.created_at FROM sessions s JOIN messages m ON m.session_pk = s.pk
     WHERE s.conversation_pk = ?1 AND m.role = 'assistant' AND m.calls IS NOT NULL
     AND EXISTS (SELECT 1 FROM json_each(m.calls) WHERE value = ?2) ORDER BY s.pk DESC, m.seq DESC LIMIT 1";

/// How the last turn of a conversation ended. The last turn is that of the last message, or a later one without
/// messages, which has no answer.
const LAST_STATE: &str = "SELECT state FROM turns WHERE pk = max(
     coalesce((SELECT m.turn_pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1
     AND m.turn_pk > 0 ORDER BY s.pk DESC, m.seq DESC LIMIT 1), 0),
     coalesce((SELECT max(t.pk) FROM turns t INDEXED BY turns_unanswered WHERE t.conversation_pk = ?1
     AND (t.state = 'failed' OR t.state = 'cancelled' OR t.state = 'interrupted')), 0))";

/// The last message of the last turn with an answer.
const LAST_ANSWER: &str = "SELECT m.payload FROM sessions s JOIN messages m ON m.session_pk = s.pk
     JOIN turns t ON t.pk = m.turn_pk AND t.state = 'completed'
     WHERE s.conversation_pk = ?1 AND m.role = 'assistant' ORDER BY s.pk DESC, m.seq DESC LIMIT 1";

/// What the children of a call have answered, in the order they were made.
///
/// Some model servers number the calls of each answer anew. So a child that is older than the call is not of this call,
/// but of an earlier one with the same id.
fn of_call(connection: &Connection, conversation: i64, call: &str) -> StoreResult<Vec<ChildAnswer>> {
    let children: Vec<(i64, ConversationId, bool, i64)> = connection
        .prepare_cached(CHILDREN)
        .and_then(|mut select| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, ConversationId::from_uuid(rows::uuid(row, 1)?), row.get(2)?, row.get(3)?))
            };
            select.query_map(params![conversation, call], read)?.collect()
        })
        .translated()?;
    if children.is_empty() {
        return Ok(Vec::new());
    }
    let called_at: Option<i64> = connection
        .prepare_cached(CALLED_AT)
        .and_then(|mut select| select.query_row(params![conversation, call], |row| row.get(0)).optional())
        .translated()?;
    let mut answers = Vec::with_capacity(children.len());
    for (key, id, is_live, created_at) in children {
        if called_at.is_none_or(|called_at| created_at >= called_at) {
            let state = if is_live { None } else { last_state(connection, key)? };
            answers.push(ChildAnswer::ended(id, state, last_answer(connection, key)?));
        }
    }
    Ok(answers)
}

fn last_state(connection: &Connection, conversation: i64) -> StoreResult<Option<TurnState>> {
    connection
        .prepare_cached(LAST_STATE)
        .and_then(|mut select| select.query_row([conversation], |row| rows::word(row, 0, TurnState::parse)).optional())
        .translated()
}

fn last_answer(connection: &Connection, conversation: i64) -> StoreResult<Option<String>> {
    let payload: Option<Payload> = connection
        .prepare_cached(LAST_ANSWER)
        .and_then(|mut select| {
            select.query_row([conversation], |row| rows::text(row, 0).map(Payload::from_json)).optional()
        })
        .translated()?;
    Ok(payload.and_then(|payload| payload.text()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations;

    #[test]
    fn children_are_found_along_indexes() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrations::run(&mut connection).unwrap();
        for sql in [CHILDREN, CALLED_AT, LAST_STATE, LAST_ANSWER] {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let values = vec![1; explain.parameter_count()];
            let steps: Vec<String> = explain
                .query_map(rusqlite::params_from_iter(values), |row| row.get(3))
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap();
            let scans = steps.iter().filter(|step| step.starts_with("SCAN") && !step.contains("json_each"));
            assert_eq!(scans.count(), 0, "{sql}: {steps:?}");
            if sql == CHILDREN {
                let index = "INDEX conversations_by_call (parent_pk=? AND parent_tool_call=?)";
                assert!(steps[0].contains(index), "{steps:?}");
            }
        }
    }
}
