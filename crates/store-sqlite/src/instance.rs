//! This process, and the other processes that use the same file.
//!
//! Each process that takes leases holds an OS lock on a file of its own. The OS frees the lock when the process ends,
//! however it ends. So a lease is dead if its owner's lock can be taken.
//!
//! A process that is stopped but not ended keeps its lock. It counts as dead once this process has seen it renew
//! nothing for [`LEASE`]. That time is measured by the monotonic clock and counts only while the database took writes.
//! The wall clock decides nothing.

mod live;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_model::Timestamp;
use herma_store::{Lease, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use self::live::LiveTurns;
use crate::admissions::AdmittedTurn;
use crate::deliveries::Deliveries;
use crate::failure::{StoreResult, Translate};
use crate::lookups::Lookups;
use crate::renewals::{Clock, RENEWAL, Renewal, Renewals};
use crate::{deliveries, retry};

/// How long an owner must be seen renewing nothing before its leases can be taken over.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The longest gap between two checks that counts as watched time. During a longer gap the database may have been
/// locked.
const LONGEST_GAP: Duration = Duration::from_secs(4);
/// The owner of a parked turn. No process has this key.
pub(crate) const NOBODY: i64 = 0;
/// From here on an owner is late. The watching process then writes at every check, to prove that the owner could have
/// written too.
const LATE: Duration = Duration::from_secs(4);

/// This process as an owner of leases, and as a watcher of other owners.
pub(crate) struct Instance {
    directory: PathBuf,
    clock: Clock,
    registered: Option<Registered>,
    renewals: Arc<Renewals>,
    /// Turns of this process that run or wait.
    pub(crate) live: LiveTurns,
    /// Turns of this process that are rows of `admissions`, by their row key. Some may have been written out since.
    pub(crate) admitted: HashMap<i64, AdmittedTurn>,
    /// Conversations of which a commit of this process may have left a row in `admissions` behind.
    pub(crate) left_admissions: HashSet<i64>,
    /// Conversations whose next turn need not look them up.
    pub(crate) lookups: Lookups,
    /// Turns of this process that were not delivered.
    pub(crate) deliveries: Deliveries,
    /// Other owners of live turns, by their key, as this process last saw them.
    watched: HashMap<i64, WatchedOwner>,
}

struct Registered {
    key: i64,
    name: String,
    file: PathBuf,
    renewal: Renewal,
    /// The value that the last renewal stored. Every renewal stores a different one.
    stored: i64,
    /// Held as long as the process lives.
    _lock: File,
}

/// Another owner as this process last saw it.
struct WatchedOwner {
    stored: i64,
    looked: Instant,
    unrenewed: Duration,
}

/// The state that a rollback restores.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    renewal: Option<(Renewal, i64)>,
    live: usize,
    deliveries: usize,
}

impl Instance {
    pub(crate) fn new(database: &Path) -> Self {
        Self::with_clock(database, Arc::new(Instant::now))
    }

    pub(crate) fn with_clock(database: &Path, clock: Clock) -> Self {
        let mut directory = database.as_os_str().to_owned();
        directory.push("-instances");
        Self {
            directory: PathBuf::from(directory),
            renewals: Arc::new(Renewals::new(Arc::clone(&clock))),
            clock,
            registered: None,
            live: LiveTurns::default(),
            admitted: HashMap::new(),
            left_admissions: HashSet::new(),
            lookups: Lookups::default(),
            deliveries: Deliveries::default(),
            watched: HashMap::new(),
        }
    }

    /// The last committed renewal, for other parts of the process.
    pub(crate) fn renewals(&self) -> Arc<Renewals> {
        Arc::clone(&self.renewals)
    }

    /// The renewal series of a lease that is given now.
    pub(crate) fn renewal_series(&self) -> u64 {
        self.registered.as_ref().map_or(0, |registered| registered.renewal.series)
    }

    /// This process's key. Registers the process at its first lease, and renews its leases when that is due.
    pub(crate) fn key(&mut self, connection: &Connection, now: Timestamp) -> StoreResult<i64> {
        let at = (self.clock)();
        match &self.registered {
            None => self.register(connection, now),
            Some(own) if at.duration_since(own.renewal.at) >= RENEWAL => self.renew(connection, now),
            Some(own) => Ok(own.key),
        }
    }

    /// Renews the leases even if that is not due, and so shows whether the database takes writes. Registers this
    /// process if needed.
    pub(crate) fn renew(&mut self, connection: &Connection, now: Timestamp) -> StoreResult<i64> {
        let at = (self.clock)();
        let Some(own) = &mut self.registered else { return self.register(connection, now) };
        let stored = now.plus(LEASE).0.max(own.stored + 1);
        // Another process may have deleted the row while this process had no lease to renew.
        connection
            .prepare_cached(
                "INSERT INTO instances (pk, name, expires_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (pk) DO UPDATE SET expires_at = excluded.expires_at",
            )
            .and_then(|mut renew| renew.execute(params![own.key, own.name, stored]))
            .translated()?;
        (own.renewal, own.stored) = (own.renewal.next(at), stored);
        let key = own.key;
        self.write_deliveries(connection)?;
        Ok(key)
    }

    /// Writes which turns were delivered.
    pub(crate) fn write_deliveries(&mut self, connection: &Connection) -> StoreResult<()> {
        let Some(own) = &self.registered else { return Ok(()) };
        self.deliveries.write(connection, own.key, |turn| self.live.contains(turn))
    }

    /// Writes which turns were delivered, if that is due.
    pub(crate) fn write_deliveries_if_due(&mut self, connection: &Connection) -> StoreResult<()> {
        let Some(own) = &self.registered else { return Ok(()) };
        self.deliveries.write_if_due(connection, own.key, |turn| self.live.contains(turn))
    }

    /// Whether the answer of a turn was delivered, as far as its process has said.
    pub(crate) fn is_delivered(&self, connection: &Connection, owner: i64, turn: i64) -> StoreResult<bool> {
        match self.registered_key() == Some(owner) {
            true => Ok(self.deliveries.is_own_delivered(turn)),
            false => deliveries::is_delivered_by(connection, owner, turn),
        }
    }

    fn register(&mut self, connection: &Connection, now: Timestamp) -> StoreResult<i64> {
        self.clear_away(connection, now)?;
        let name = Uuid::now_v7().simple().to_string();
        let (file, lock) = self.lock(&name).map_err(|error| {
            StoreError::Unavailable(format!("cannot write a lock file in {}: {error}", self.directory.display()))
        })?;
        let stored = now.plus(LEASE).0;
        connection
            .execute("INSERT INTO instances (name, expires_at) VALUES (?1, ?2)", params![name, stored])
            .translated()?;
        let key = connection.last_insert_rowid();
        let renewal = Renewal { at: (self.clock)(), series: 1 };
        self.registered = Some(Registered { key, name, file, renewal, stored, _lock: lock });
        Ok(key)
    }

    /// This process's key, if it has ever had a lease.
    pub(crate) fn registered_key(&self) -> Option<i64> {
        self.registered.as_ref().map(|registered| registered.key)
    }

    /// Deletes the rows of processes that have ended. They own nothing any more, with or without a row. While retries
    /// may come, their rows say what they have delivered.
    fn clear_away(&self, connection: &Connection, now: Timestamp) -> StoreResult<()> {
        let known: Vec<(i64, String)> = connection
            .prepare("SELECT pk, name FROM instances WHERE expires_at < ?1")
            .and_then(|mut select| {
                select.query_map([retry::earliest(now)], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .translated()?;
        for (key, name) in known {
            if self.lock_is_free(&name) {
                connection.execute("DELETE FROM instances WHERE pk = ?1", [key]).translated()?;
            }
        }
        Ok(())
    }

    /// The state before a job or a transaction, for `restore`.
    pub(crate) fn mark(&self) -> Mark {
        let renewal = self.registered.as_ref().map(|registered| (registered.renewal, registered.stored));
        Mark { renewal, live: self.live.changes(), deliveries: self.deliveries.added() }
    }

    /// Returns to `mark` after a job or a transaction was rolled back.
    pub(crate) fn restore(&mut self, mark: Mark) {
        self.live.undo(mark.live);
        self.lookups.forget();
        self.lookups.end_transaction();
        self.deliveries.undo(mark.deliveries);
        match (mark.renewal, &mut self.registered) {
            (Some((renewal, stored)), Some(registered)) => (registered.renewal, registered.stored) = (renewal, stored),
            _ => self.unregister(),
        }
    }

    /// Called before a write that is not a turn's: it may change what turns remember.
    pub(crate) fn before_other_write(&mut self) {
        self.lookups.forget();
        self.deliveries.note_other_write();
    }

    /// Publishes the renewal after a transaction was committed.
    pub(crate) fn note_commit(&mut self) {
        self.live.settle();
        self.lookups.end_transaction();
        self.deliveries.settle();
        self.renewals.publish(self.registered.as_ref().map(|registered| (registered.key, registered.renewal)));
    }

    fn unregister(&mut self) {
        if let Some(registered) = self.registered.take() {
            let _ = fs::remove_file(registered.file);
        }
    }

    /// Forgets the turns that are not stored as live. Called after a rollback, when memory may be wrong.
    pub(crate) fn reload_live(&mut self, connection: &Connection) {
        let Some(registered) = &self.registered else {
            self.live.retain(&HashSet::new());
            self.admitted.clear();
            return;
        };
        let stored: rusqlite::Result<HashSet<i64>> = connection
            .prepare(
                "SELECT pk FROM turns WHERE state IN ('queued', 'running') AND owner = ?1
                 UNION ALL SELECT turn_pk FROM live_admissions WHERE owner = ?1",
            )
            .and_then(|mut select| select.query_map([registered.key], |row| row.get(0))?.collect());
        if let Ok(stored) = stored {
            self.live.retain(&stored);
            self.admitted.retain(|turn, _| stored.contains(turn));
        }
    }

    /// Forgets a turn that was given up, unless a later attempt of it runs here by now.
    pub(crate) fn forget_given_up(&mut self, lease: Lease) {
        if self.is_live(lease) {
            self.live.give_up(lease.turn);
            self.admitted.remove(&lease.turn);
        }
    }

    /// Forgets a turn that the current transaction ends. A rollback makes it live again, and its owner will try again.
    pub(crate) fn end(&mut self, lease: Lease) {
        if self.is_live(lease) {
            self.live.remove(lease.turn);
            self.admitted.remove(&lease.turn);
        }
    }

    fn is_live(&self, lease: Lease) -> bool {
        self.live.fence(lease.turn) == Some(lease.fence)
    }

    /// Checks when the owners of live turns last renewed. Called every few seconds, inside a transaction that writes.
    pub(crate) fn watch(&mut self, connection: &Connection, now: Timestamp) -> StoreResult<()> {
        let looked = (self.clock)();
        let own = self.registered_key();
        let owners: Vec<(i64, i64)> = connection
            .prepare_cached(
                "SELECT pk, expires_at FROM instances
                 WHERE pk IN (SELECT owner FROM turns WHERE state IN ('queued', 'running')
                 UNION ALL SELECT owner FROM live_admissions)",
            )
            .and_then(|mut select| select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .translated()?;
        let mut before = std::mem::take(&mut self.watched);
        for (owner, stored) in owners.into_iter().filter(|(owner, _)| Some(*owner) != own) {
            let unrenewed = before
                .remove(&owner)
                .filter(|seen| seen.stored == stored)
                .map(|seen| (seen.unrenewed, looked.duration_since(seen.looked)))
                .filter(|(_, gap)| *gap <= LONGEST_GAP)
                .map_or(Duration::ZERO, |(unrenewed, gap)| unrenewed + gap);
            self.watched.insert(owner, WatchedOwner { stored, looked, unrenewed });
        }
        if self.watched.values().any(|seen| seen.unrenewed >= LATE)
            && let Err(error) = self.renew(connection, now)
        {
            self.restart_watching();
            return Err(error);
        }
        Ok(())
    }

    /// Starts watching again from zero, because the database did not take a write.
    pub(crate) fn restart_watching(&mut self) {
        self.watched.clear();
    }

    /// Whether the owner of a live turn is dead. For this process's own turns: whether they were given up. A parked
    /// turn has no owner that could die.
    pub(crate) fn is_dead(&self, connection: &Connection, owner: i64, turn: i64) -> StoreResult<bool> {
        if owner == NOBODY {
            return Ok(false);
        }
        if self.registered.as_ref().is_some_and(|own| own.key == owner) {
            return Ok(!self.live.contains(turn));
        }
        let row: Option<(String, i64)> = connection
            .prepare_cached("SELECT name, expires_at FROM instances WHERE pk = ?1")
            .and_then(|mut select| select.query_row([owner], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .translated()?;
        let Some((name, stored)) = row else { return Ok(true) };
        let is_silent = self.watched.get(&owner).is_some_and(|seen| seen.stored == stored && seen.unrenewed >= LEASE);
        Ok(is_silent || self.lock_is_free(&name))
    }

    /// Whether another process has ended. This process has not.
    pub(crate) fn has_ended(&self, connection: &Connection, owner: i64) -> StoreResult<bool> {
        if self.registered_key() == Some(owner) {
            return Ok(false);
        }
        let name: Option<String> = connection
            .prepare_cached("SELECT name FROM instances WHERE pk = ?1")
            .and_then(|mut select| select.query_row([owner], |row| row.get(0)).optional())
            .translated()?;
        Ok(name.is_none_or(|name| self.lock_is_free(&name)))
    }

    fn lock(&self, name: &str) -> std::io::Result<(PathBuf, File)> {
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join(name);
        let file = File::create(&path)?;
        file.lock()?;
        Ok((path, file))
    }

    /// Whether a process has ended. Also removes its lock file then.
    fn lock_is_free(&self, name: &str) -> bool {
        let path = self.directory.join(name);
        match File::open(&path) {
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            Ok(file) => match file.try_lock() {
                Ok(()) => {
                    let _ = fs::remove_file(&path);
                    true
                }
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
            },
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.unregister();
    }
}

#[cfg(test)]
mod tests;
