//! Lists and rows for people and front ends.

use std::fmt::Write as _;
use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{Alias, EndReason, KeyScope, Timestamp};
use herma_store::{ConversationRow, Cursor, ListFilter, Page, Pin, Scope};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use crate::failure::{Outcome, Translate};
use crate::rows::{self, FACTS, FACTS_JOINS, FACTS_WIDTH, SESSION};
use crate::snapshot;

const ROW: &str = "c.title, c.source, c.metadata, c.archived, c.created_at, c.updated_at, c.ended_at, c.end_reason, c.message_count, c.turn_count, \
     c.input_tokens, c.output_tokens, c.cached_tokens, c.reasoning_tokens";

/// One conversation.
pub(crate) fn conversation(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    pin: Pin,
) -> Outcome<Option<ConversationRow>> {
    let Some((state, session)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else {
        return Ok(None);
    };
    let mut found = by_key(connection, state.key)?;
    if let (Pin::Exact, Some(session)) = (pin, session) {
        let pinned = connection
            .prepare_cached(&format!("SELECT {SESSION}, s.ended_at, s.end_reason FROM sessions s WHERE s.pk = ?1"))
            .and_then(|mut select| {
                select.query_row([session], |row| Ok((rows::session(row, 0)?, ended(row, 7)?))).optional()
            })
            .translated()?;
        if let Some((facts, ended)) = pinned {
            found.session = facts;
            found.ended = ended.or(found.ended);
        }
    }
    Ok(Some(found))
}

/// A conversation that is known to exist, at its head.
pub(crate) fn by_key(connection: &Connection, conversation: i64) -> Outcome<ConversationRow> {
    connection
        .prepare_cached(&format!("SELECT {FACTS}, {ROW} FROM conversations c {FACTS_JOINS} WHERE c.pk = ?1"))
        .and_then(|mut select| select.query_row([conversation], read))
        .translated()
}

/// A page of conversations, most recently changed first.
pub(crate) fn conversations(
    connection: &Connection,
    scope: &Scope,
    filter: &ListFilter,
) -> Outcome<Page<ConversationRow>> {
    let mut sql =
        format!("SELECT {FACTS}, {ROW} FROM conversations c {FACTS_JOINS} WHERE c.tenant_pk = ? AND c.deleted = 0");
    let mut values = vec![Value::Integer(scope.tenant.0)];
    let mut only = |clause: &str, value: Option<String>| {
        if let Some(value) = value {
            sql.push_str(clause);
            values.push(Value::Text(value));
        }
    };
    only(" AND h.kind = ?", filter.kind.map(|kind| kind.as_str().to_owned()));
    only(" AND c.origin_kind = ?", filter.origin_kind.map(|kind| kind.as_str().to_owned()));
    only(" AND c.session_key = ?", filter.session_key.as_ref().map(ToString::to_string));
    only(" AND c.source = ?", filter.source.clone());
    if let KeyScope::Patterns(patterns) = &scope.keys {
        sql.push_str(" AND (c.session_key IS NULL");
        for pattern in patterns.iter() {
            sql.push_str(" OR c.session_key GLOB ?");
            values.push(Value::Text(glob(pattern)));
        }
        sql.push(')');
    }
    if let Some(after) = filter.after {
        sql.push_str(" AND (c.updated_at, c.pk) < (?, ?)");
        values.extend([Value::Integer(after.updated_at.0), Value::Integer(after.row)]);
    }
    let _ = write!(sql, " ORDER BY c.updated_at DESC, c.pk DESC LIMIT {}", filter.limit + 1);
    let mut select = connection.prepare_cached(&sql).translated()?;
    let mut keyed: Vec<(i64, ConversationRow)> = select
        .query_map(params_from_iter(values), |row| Ok((row.get(0)?, read(row)?)))
        .and_then(Iterator::collect)
        .translated()?;
    let more = keyed.len() > filter.limit;
    keyed.truncate(filter.limit);
    let next = keyed.last().filter(|_| more).map(|(row, last)| Cursor { updated_at: last.updated_at, row: *row });
    Ok(Page { rows: keyed.into_iter().map(|(_, row)| row).collect(), next })
}

/// A session key pattern in SQLite's GLOB, in which only `*` is special for us.
fn glob(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len());
    for letter in pattern.chars() {
        match letter {
            '?' | '[' => {
                glob.push('[');
                glob.push(letter);
                glob.push(']');
            }
            other => glob.push(other),
        }
    }
    glob
}

fn ended(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<(Timestamp, EndReason)>> {
    let when: Option<i64> = row.get(at)?;
    Ok(when.map(Timestamp).zip(rows::optional_word(row, at + 1, EndReason::parse)?))
}

fn read(row: &Row<'_>) -> rusqlite::Result<ConversationRow> {
    const AT: usize = FACTS_WIDTH;
    let state = rows::conversation(row)?;
    Ok(ConversationRow {
        session: state.facts.head.clone(),
        running: state.running.is_some(),
        facts: Arc::new(state.facts),
        title: row.get(AT)?,
        source: rows::text(row, AT + 1)?,
        metadata: rows::optional_text(row, AT + 2)?,
        archived: row.get(AT + 3)?,
        created_at: Timestamp(row.get(AT + 4)?),
        updated_at: Timestamp(row.get(AT + 5)?),
        ended: ended(row, AT + 6)?,
        message_count: rows::count(row, AT + 8)?,
        turn_count: rows::count(row, AT + 9)?,
        usage: rows::usage(row, AT + 10)?,
    })
}
