//! Which answers of this process were delivered.
//!
//! A retry may join a turn whose answer was not delivered. Most answers are, so a process remembers those that are not,
//! and writes them into its row of `instances`: the highest number that it has given to a turn, and the turns up to
//! there that were not delivered. That is one small row for all turns of a moment. It is written at most once a second
//! while there are turns, and soon after the last one. A crash before that loses the mark. Then a retry of the request
//! gets the same answer again.
//!
//! A turn that runs in one process may be delivered by another, which has joined it. Then the mark is in its own row.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use herma_model::limits::RETRY_WINDOW;
use herma_model::{TenantId, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::admissions;
use crate::failure::{StoreResult, Translate};

/// How often the row is written while there are turns.
const PAUSE: Duration = Duration::from_secs(1);
/// The smallest number of turns that are removed from the index of joinable turns at a time. Turns that were delivered
/// together are on the same pages.
const BATCH: usize = 64;

/// Deliveries of this process.
#[derive(Default)]
pub(crate) struct Deliveries {
    undelivered: HashMap<TurnId, Undelivered>,
    /// The turns that the current transaction has added, in their order.
    added: Vec<TurnId>,
    /// The highest number of a turn of this process.
    through: i64,
    /// Whether the row of this process says something else.
    is_changed: bool,
    /// Whether the current transaction is more than a note of deliveries.
    has_turns: bool,
    /// When the row was written last.
    written: Option<Instant>,
    /// Delivered turns that a retry may still join, in the order of their delivery.
    lately: VecDeque<(Instant, i64)>,
}

/// A turn of this process that runs, waits, or was not delivered.
struct Undelivered {
    tenant: TenantId,
    key: i64,
    /// When it was first seen ended. After [`RETRY_WINDOW`] no retry joins it.
    ended: Option<Instant>,
}

impl Deliveries {
    /// Notes a turn that runs or waits in this process from now on.
    pub(crate) fn began(&mut self, tenant: TenantId, turn: TurnId, key: i64) {
        self.undelivered.insert(turn, Undelivered { tenant, key, ended: None });
        self.added.push(turn);
        self.through = self.through.max(key);
        (self.is_changed, self.has_turns) = (true, true);
    }

    /// Called if the current transaction is more than a note of deliveries.
    pub(crate) fn note_other_write(&mut self) {
        self.has_turns = true;
    }

    /// Notes that a turn's answer was delivered completely. Another process's turn is marked in its own row.
    pub(crate) fn add(&mut self, connection: &Connection, tenant: TenantId, turn: TurnId) -> StoreResult<()> {
        match self.undelivered.get(&turn) {
            Some(known) if known.tenant == tenant => {
                self.lately.push_back((Instant::now(), known.key));
                self.undelivered.remove(&turn);
                self.is_changed = true;
                Ok(())
            }
            Some(_) => Ok(()),
            None => mark(connection, tenant, turn),
        }
    }

    /// Delivered turns that no retry can join any more, if they are enough for a batch.
    pub(crate) fn take_old(&mut self, now: Instant) -> Vec<i64> {
        let is_old = |at: &Instant| now.duration_since(*at) > RETRY_WINDOW;
        if !self.lately.get(BATCH - 1).is_some_and(|(at, _)| is_old(at)) {
            return Vec::new();
        }
        let old = self.lately.partition_point(|(at, _)| is_old(at));
        self.lately.drain(..old).map(|(_, turn)| turn).collect()
    }

    /// Writes the row of this process if that is due. Called before the current transaction is committed.
    pub(crate) fn write_if_due(
        &mut self,
        connection: &Connection,
        owner: i64,
        is_live: impl Fn(i64) -> bool,
    ) -> StoreResult<()> {
        let is_recent = self.written.is_some_and(|written| written.elapsed() < PAUSE);
        if self.has_turns && is_recent { Ok(()) } else { self.write(connection, owner, is_live) }
    }

    /// Writes the row of this process, if there is anything new.
    pub(crate) fn write(
        &mut self,
        connection: &Connection,
        owner: i64,
        is_live: impl Fn(i64) -> bool,
    ) -> StoreResult<()> {
        if !self.is_changed {
            return Ok(());
        }
        let now = Instant::now();
        self.undelivered.retain(|_, turn| {
            if is_live(turn.key) {
                turn.ended = None;
                return true;
            }
            now.duration_since(*turn.ended.get_or_insert(now)) <= RETRY_WINDOW
        });
        let mut keys: Vec<i64> = self.undelivered.values().map(|turn| turn.key).collect();
        keys.sort_unstable();
        let list: Vec<u8> = keys.into_iter().flat_map(i64::to_le_bytes).collect();
        connection
            .prepare_cached("UPDATE instances SET delivered_through = ?2, undelivered = ?3 WHERE pk = ?1")
            .and_then(|mut update| update.execute(params![owner, self.through, list]))
            .translated()?;
        (self.is_changed, self.written) = (false, Some(now));
        Ok(())
    }

    /// How many turns the current transaction has added, for [`Deliveries::undo`].
    pub(crate) fn added(&self) -> usize {
        self.added.len()
    }

    /// Makes what was written final, because it was committed.
    pub(crate) fn settle(&mut self) {
        self.added.clear();
        self.has_turns = false;
    }

    /// Takes back the turns that were added since there were `added` of them. What was written is written again.
    pub(crate) fn undo(&mut self, added: usize) {
        for turn in self.added.drain(added..) {
            self.undelivered.remove(&turn);
        }
        self.is_changed = true;
        self.written = None;
    }

    /// Whether the answer of this process's own turn was delivered.
    pub(crate) fn is_own_delivered(&self, turn: i64) -> bool {
        turn <= self.through && !self.undelivered.values().any(|undelivered| undelivered.key == turn)
    }
}

/// Whether another process says that the answer of its turn was delivered.
pub(crate) fn is_delivered_by(connection: &Connection, owner: i64, turn: i64) -> StoreResult<bool> {
    let said: Option<(i64, Option<Vec<u8>>)> = connection
        .prepare_cached("SELECT delivered_through, undelivered FROM instances WHERE pk = ?1")
        .and_then(|mut select| select.query_row([owner], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .translated()?;
    let Some((through, list)) = said else { return Ok(false) };
    let is_listed = list.unwrap_or_default().chunks_exact(8).any(|key| key == turn.to_le_bytes());
    Ok(turn <= through && !is_listed)
}

/// Marks a turn in its own row.
fn mark(connection: &Connection, tenant: TenantId, turn: TurnId) -> StoreResult<()> {
    let mut update =
        connection.prepare_cached("UPDATE turns SET delivered = 1 WHERE id = ?1 AND tenant_pk = ?2").translated()?;
    let mut mark = || update.execute(params![turn.uuid().as_bytes(), tenant.0]).translated();
    if mark()? == 0 && admissions::is_any(connection)? {
        admissions::write_out_all(connection)?;
        mark()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const OWNER: i64 = 1;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE instances (pk INTEGER PRIMARY KEY, delivered_through DEFAULT 0, undelivered);
                 INSERT INTO instances (pk) VALUES (1)",
            )
            .unwrap();
        connection
    }

    fn turn(number: i64) -> TurnId {
        TurnId::from_uuid(Uuid::from_u128(number as u128))
    }

    fn began(deliveries: &mut Deliveries, number: i64) {
        deliveries.began(TenantId(1), turn(number), number);
    }

    fn is_delivered(connection: &Connection, number: i64) -> bool {
        is_delivered_by(connection, OWNER, number).unwrap()
    }

    #[test]
    fn turns_are_undelivered_until_the_row_says_otherwise() {
        let (connection, mut deliveries) = (database(), Deliveries::default());
        (1..=3).for_each(|number| began(&mut deliveries, number));
        deliveries.add(&connection, TenantId(1), turn(2)).unwrap();
        assert!(!is_delivered(&connection, 2), "nothing is written yet");
        deliveries.write(&connection, OWNER, |_| false).unwrap();
        assert_eq!([1, 2, 3, 4].map(|number| is_delivered(&connection, number)), [false, true, false, false]);
        assert_eq!([1, 2, 3, 4].map(|number| deliveries.is_own_delivered(number)), [false, true, false, false]);
    }

    #[test]
    fn another_tenant_delivers_nothing() {
        let (connection, mut deliveries) = (database(), Deliveries::default());
        began(&mut deliveries, 1);
        deliveries.add(&connection, TenantId(2), turn(1)).unwrap();
        assert!(!deliveries.is_own_delivered(1));
    }

    #[test]
    fn the_row_is_written_once_a_second_while_there_are_turns() {
        let (connection, mut deliveries) = (database(), Deliveries::default());
        let end = |deliveries: &mut Deliveries, number| {
            deliveries.add(&connection, TenantId(1), turn(number)).unwrap();
            deliveries.write_if_due(&connection, OWNER, |_| true).unwrap();
            deliveries.settle();
        };
        began(&mut deliveries, 1);
        end(&mut deliveries, 1);
        assert!(is_delivered(&connection, 1));
        began(&mut deliveries, 2);
        end(&mut deliveries, 2);
        assert!(!is_delivered(&connection, 2));
        began(&mut deliveries, 3);
        deliveries.settle();
        end(&mut deliveries, 3);
        assert!(is_delivered(&connection, 2) && is_delivered(&connection, 3), "no turn begins or ends any more");
    }

    #[test]
    fn a_turn_that_was_rolled_back_is_forgotten() {
        let (connection, mut deliveries) = (database(), Deliveries::default());
        began(&mut deliveries, 1);
        let before = deliveries.added();
        began(&mut deliveries, 2);
        deliveries.undo(before);
        deliveries.write(&connection, OWNER, |_| true).unwrap();
        assert!(!is_delivered(&connection, 1));
        assert_eq!(deliveries.undelivered.len(), 1);
    }

    #[test]
    fn delivered_turns_leave_the_index_in_batches_after_the_window() {
        let (connection, mut deliveries) = (database(), Deliveries::default());
        let count = BATCH as i64;
        for number in 1..=count {
            began(&mut deliveries, number);
            deliveries.add(&connection, TenantId(1), turn(number)).unwrap();
            let expected = if number < count { 0 } else { BATCH };
            let later = Instant::now() + RETRY_WINDOW + Duration::from_secs(1);
            assert!(deliveries.take_old(Instant::now()).is_empty());
            assert_eq!(deliveries.take_old(later).len(), expected);
        }
    }
}
