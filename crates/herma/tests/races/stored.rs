//! Counts in the database that neither a client nor the store's port can read: turns by their state, joins, leases,
//! journals. A store of the test's own would take part in the race, because every store takes over turns.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::support::until;

/// A database that another process serves. It is opened for each query.
pub(crate) struct Stored(PathBuf);

impl Stored {
    pub(crate) fn open(data: &Path) -> Self {
        Self(data.join("herma.db"))
    }

    fn count(&self, query: &str) -> i64 {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.0, flags).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        connection.query_row(query, [], |row| row.get(0)).unwrap()
    }

    /// Turns in this state. Running ones may not be written out.
    pub(crate) fn turns(&self, state: &str) -> i64 {
        self.count(&format!(
            "SELECT (SELECT count(*) FROM turns WHERE state = '{state}')
             + (SELECT count(*) FROM live_admissions WHERE '{state}' = 'running')"
        ))
    }

    /// The primary key of the newest queued turn; 0 if none is queued.
    pub(crate) fn last_waiting(&self) -> i64 {
        self.count("SELECT coalesce(max(pk), 0) FROM turns WHERE state = 'queued'")
    }

    /// Turns in any state.
    pub(crate) fn all_turns(&self) -> i64 {
        self.count("SELECT count(*) FROM turns")
    }

    /// The sum of the attempts of all turns.
    pub(crate) fn attempts(&self) -> i64 {
        self.count("SELECT coalesce(sum(attempt), 0) FROM turns")
    }

    /// Turns whose answer counts as delivered, if all were or none.
    pub(crate) fn delivered(&self) -> i64 {
        self.count(
            "SELECT count(*) FROM turns t JOIN instances i ON i.pk = t.owner
             WHERE t.pk <= i.delivered_through AND length(i.undelivered) = 0",
        )
    }

    /// Conversations of all tenants.
    pub(crate) fn conversations(&self) -> i64 {
        self.count("SELECT count(*) FROM conversations")
    }

    /// Characters in the journals of running turns.
    pub(crate) fn journaled(&self) -> i64 {
        self.count("SELECT coalesce(sum(length(text)), 0) FROM turn_journal")
    }

    /// Holds the database's write lock, as another program would, until it is dropped.
    pub(crate) fn lock(&self) -> Connection {
        let connection = Connection::open(&self.0).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    }

    /// Waits until so many turns are in this state.
    pub(crate) async fn until_turns(&self, state: &str, wanted: i64) {
        until(&format!("{wanted} turns were to be {state}"), async || self.turns(state) == wanted).await;
    }

    /// Waits until so many retries have joined turns. Each retry sets one bit of `retried`.
    pub(crate) async fn until_joined(&self, wanted: u32) {
        let numbers = "SELECT coalesce(sum(retried), 0) FROM turns";
        let joined = async || self.count(numbers).count_ones() == wanted;
        until(&format!("{wanted} retries were to join"), joined).await;
    }

    /// Turns that a retry began and that the original request joined later.
    pub(crate) fn overtaken(&self) -> i64 {
        self.count("SELECT count(*) FROM turns WHERE sdk_attempt > 0 AND (retried & 1) = 1")
    }

    /// Turns that another request joined.
    pub(crate) fn joined_turns(&self) -> i64 {
        self.count("SELECT count(*) FROM turns WHERE retried <> 0")
    }

    /// Waits until no turn runs or is queued. Then checks that no lease, waiter or journal is left and that message
    /// counts are right.
    pub(crate) async fn until_settled(&self) {
        self.until_turns("queued", 0).await;
        self.until_turns("running", 0).await;
        assert_eq!(self.count("SELECT count(*) FROM conversations WHERE running_turn IS NOT NULL"), 0, "leases held");
        assert_eq!(self.count("SELECT count(*) FROM conversations WHERE waiting <> 0"), 0, "waiters counted");
        assert_eq!(self.count("SELECT count(*) FROM turn_journal"), 0, "journals left");
        let uncounted = "SELECT count(*) FROM conversations c
            WHERE origin_kind <> 'branch' AND deleted = 0 AND message_count <>
                (SELECT count(*) FROM messages m JOIN sessions s ON s.pk = m.session_pk
                WHERE s.conversation_pk = c.pk AND m.compaction_pk IS NULL)";
        assert_eq!(self.count(uncounted), 0, "conversations that count their messages wrong");
    }
}
