//! Rewrites or removes a message. Its place is never used again: after a removal there is a gap.

use herma_model::{Message, Role, Timestamp, Utterance};
use herma_store::{Rewrite, RewriteOutcome};
use rusqlite::{Connection, params};

use crate::compact::{Idle, idle};
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::lineage::{END, Lineage};
use crate::memories::recalls;
use crate::messages::{self, MessagePlace};
use crate::{rows, title};

/// Rewrites or removes a message, or changes nothing except that a dead owner's turn is ended.
pub(crate) fn rewrite(connection: &Connection, instance: &Instance, rewrite: &Rewrite) -> StoreResult<RewriteOutcome> {
    let state = match idle(connection, instance, &rewrite.scope, &rewrite.alias, rewrite.now)? {
        Idle::Free(state) => *state,
        Idle::Busy(turn) => return Ok(RewriteOutcome::Busy(turn)),
        Idle::NotFound => return Ok(RewriteOutcome::NotFound),
    };
    let lineage = Lineage::after(connection, &state, 0)?;
    let Some(place) = messages::find(connection, rewrite.scope.tenant, &lineage, rewrite.seen.id)? else {
        return Ok(RewriteOutcome::NotFound);
    };
    let stored = place.read(connection)?;
    if place.conversation != state.key || is_inherited(connection, state.key, &stored)? {
        return Ok(RewriteOutcome::Shared);
    }
    if stored.said != rewrite.seen.said {
        return Ok(RewriteOutcome::Stale);
    }
    match &rewrite.said {
        Some(left) => replace(connection, place, left)?,
        None => remove(connection, place, &stored)?,
    }
    note(connection, state.key, rewrite.said.is_none(), rewrite.now)?;
    recalls::forget_rewritten(connection, state.key)?;
    if stored.said.role == Role::User {
        title::forget_excerpt(connection, state.key, rewrite.now)?;
    }
    Ok(RewriteOutcome::Done)
}

/// Whether a branch inherits a message of its conversation.
fn is_inherited(connection: &Connection, conversation: i64, message: &Message) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM sessions s JOIN sessions b ON b.base_session_pk = s.pk AND b.kind = 'branch'
             WHERE s.conversation_pk = ?1 AND b.base_seq >= ?2",
        )
        .and_then(|mut select| select.exists([conversation, message.seq.0]))
        .translated()
}

fn replace(connection: &Connection, place: MessagePlace, said: &Utterance) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE messages SET role = ?2, status = ?3, payload = ?4, extra = ?5, digest = ?6, calls = ?7, tokens = ?8
             WHERE pk = ?1",
        )
        .and_then(|mut update| {
            update.execute(params![
                place.key,
                said.role.as_str(),
                said.status.as_str(),
                said.payload.as_json(),
                said.extra.as_deref(),
                &said.digest.0,
                rows::calls_to(&said.calls),
                said.tokens
            ])
        })
        .map(drop)
        .translated()
}

/// Removes a message, its pin, and its place in its turn. The turn then begins with its next message, if there is one.
fn remove(connection: &Connection, place: MessagePlace, message: &Message) -> StoreResult<()> {
    for statement in [
        "DELETE FROM pins WHERE conversation_pk = ?1 AND seq = ?2 AND message_pk = ?3",
        "DELETE FROM carried WHERE compaction_pk IN (SELECT pk FROM compactions WHERE conversation_pk = ?1) AND seq = ?2
         AND message_pk = ?3",
    ] {
        connection.execute(statement, [place.conversation, message.seq.0, place.key]).translated()?;
    }
    let turn: i64 = connection
        .query_row("DELETE FROM messages WHERE pk = ?1 RETURNING turn_pk", [place.key], |row| row.get(0))
        .translated()?;
    connection
        .prepare_cached(
            "UPDATE turns SET first_seq = (SELECT m.seq FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = turns.conversation_pk AND s.pk <= turns.session_pk AND m.turn_pk = turns.pk
             AND m.seq BETWEEN turns.first_seq AND iif(turns.state = 'completed', turns.last_seq, ?2)
             ORDER BY s.pk, m.seq LIMIT 1) WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute([turn, END]))
        .map(drop)
        .translated()
}

/// Marks what was read or counted of the conversation before as no longer valid.
fn note(connection: &Connection, conversation: i64, is_removed: bool, now: Timestamp) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE conversations SET version = version + 1, changes = changes + 1, rewrites = rewrites + 1,
             message_count = message_count - ?2, updated_at = ?3, counted_seq = NULL,
             counted_tokens = NULL WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute(params![conversation, is_removed, now.0]))
        .map(drop)
        .translated()
}
