//! Responses that were kept long enough.
//!
//! Turns are looked at in the order they were made, from a mark on, and the mark stops at the first response that is to be kept still. So no
//! index is needed for their age, and a turn pays nothing for it.

use herma_model::{Timestamp, TurnState};
use herma_store::Expired;
use rusqlite::Connection;

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// Most turns that one step looks at.
const STEP: usize = 1000;

/// Whether turns were made since the mark.
pub(crate) fn is_due(connection: &Connection) -> StoreResult<bool> {
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM turns WHERE pk > (SELECT through FROM expiry))", [], |row| row.get(0))
        .translated()
}

/// Forgets responses that ended before a moment, some at a time.
pub(crate) fn step(connection: &Connection, before: Timestamp) -> StoreResult<Expired> {
    let turns = next(connection)?;
    let passed = turns.iter().take_while(|turn| turn.is_passed(before)).count();
    let mut responses = 0;
    for turn in turns[..passed].iter().filter(|turn| turn.is_response) {
        forget(connection, turn.key)?;
        responses += 1;
    }
    if let Some(last) = turns[..passed].last() {
        connection.execute("UPDATE expiry SET through = ?1", [last.key]).translated()?;
    }
    Ok(Expired { responses, is_all: passed < STEP })
}

/// Makes a turn one that cannot be fetched as a response.
pub(crate) fn forget(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE turns SET kept = 0, echo = NULL WHERE pk = ?1")
        .and_then(|mut update| update.execute([turn]))
        .map(drop)
        .translated()
}

/// A turn that is tried again may be a response again: it is looked at anew.
pub(crate) fn look_again(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE expiry SET through = ?1 - 1 WHERE through >= ?1")
        .and_then(|mut update| update.execute([turn]))
        .map(drop)
        .translated()
}

struct Aged {
    key: i64,
    /// Whether it can be fetched as a response.
    is_response: bool,
    /// When it ended; none while it is live.
    ended_at: Option<i64>,
}

impl Aged {
    /// Whether nothing is to be kept of it as a response.
    fn is_passed(&self, before: Timestamp) -> bool {
        !self.is_response || self.ended_at.is_some_and(|at| at < before.0)
    }
}

fn next(connection: &Connection) -> StoreResult<Vec<Aged>> {
    let read = |row: &rusqlite::Row<'_>| {
        let is_live = rows::word(row, 2, TurnState::parse)?.is_live();
        let ended_at: Option<i64> = row.get(3)?;
        Ok(Aged { key: row.get(0)?, is_response: row.get(1)?, ended_at: ended_at.filter(|_| !is_live) })
    };
    connection
        .prepare_cached(
            "SELECT pk, kept AND api = 'responses', state, ended_at FROM turns WHERE pk > (SELECT through FROM expiry) ORDER BY pk LIMIT ?1",
        )
        .and_then(|mut select| select.query_map([STEP as i64], read)?.collect())
        .translated()
}
