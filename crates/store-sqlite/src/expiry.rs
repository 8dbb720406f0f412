//! Deletes responses that were kept long enough.
//!
//! Turns are checked in the order of their keys, after a stored mark. The mark stops at the first response that must
//! still be kept. So no index by age is needed, and turns pay nothing for this.

use herma_model::{Timestamp, TurnState};
use herma_store::Expired;
use rusqlite::Connection;

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// The largest number of turns that one step checks.
const STEP: usize = 1000;

/// Whether there are turns after the mark.
pub(crate) fn is_due(connection: &Connection) -> StoreResult<bool> {
    connection
        .query_row("SELECT EXISTS (SELECT 1 FROM turns WHERE pk > (SELECT through FROM expiry))", [], |row| row.get(0))
        .translated()
}

/// Makes responses unavailable that ended before `before`, up to [`STEP`] turns at a time.
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

/// Makes a turn's response unavailable.
pub(crate) fn forget(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE turns SET kept = 0, echo = NULL WHERE pk = ?1")
        .and_then(|mut update| update.execute([turn]))
        .map(drop)
        .translated()
}

/// Moves the mark before a turn that is tried again: it may become a response again.
pub(crate) fn check_again(connection: &Connection, turn: i64) -> StoreResult<()> {
    connection
        .prepare_cached("UPDATE expiry SET through = ?1 - 1 WHERE through >= ?1")
        .and_then(|mut update| update.execute([turn]))
        .map(drop)
        .translated()
}

struct ExpiringTurn {
    key: i64,
    /// Whether it can be fetched as a response.
    is_response: bool,
    /// When it ended. `None` while it is live.
    ended_at: Option<i64>,
}

impl ExpiringTurn {
    /// Whether the mark may pass it: it is no response, or it is old enough.
    fn is_passed(&self, before: Timestamp) -> bool {
        !self.is_response || self.ended_at.is_some_and(|at| at < before.0)
    }
}

fn next(connection: &Connection) -> StoreResult<Vec<ExpiringTurn>> {
    let read = |row: &rusqlite::Row<'_>| {
        let is_live = rows::word(row, 2, TurnState::parse)?.is_live();
        let ended_at: Option<i64> = row.get(3)?;
        Ok(ExpiringTurn { key: row.get(0)?, is_response: row.get(1)?, ended_at: ended_at.filter(|_| !is_live) })
    };
    connection
        .prepare_cached(
            "SELECT pk, kept AND api = 'responses', state, ended_at FROM turns WHERE pk > (SELECT through FROM expiry)
             ORDER BY pk LIMIT ?1",
        )
        .and_then(|mut select| select.query_map([STEP as i64], read)?.collect())
        .translated()
}
