//! This process among others on the same file.
//!
//! Each process that takes leases holds an OS lock on a file of its own. The lock goes with the process, however it ends, so
//! a lease whose owner's lock can be taken is dead. Where locks do not work, a time limit that living processes renew decides.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use herma_model::{Fence, Timestamp};
use herma_store::{Lease, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use crate::failure::{Outcome, Translate};

/// How long a lease lives without its owner renewing it.
const LEASE: Duration = Duration::from_secs(10);
/// How often an owner renews.
pub(crate) const RENEWAL: Duration = Duration::from_secs(3);

/// This process as an owner of leases.
pub(crate) struct Instance {
    directory: PathBuf,
    registered: Option<Registered>,
    /// Turns of this process that run or wait, by their key, with the fence they run under; waiting ones have none yet.
    pub(crate) live: HashMap<i64, Fence>,
}

struct Registered {
    key: i64,
    name: String,
    file: PathBuf,
    renewed_at: Timestamp,
    /// Held as long as the process lives.
    _lock: File,
}

/// A moment to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark(Option<Timestamp>);

impl Instance {
    pub(crate) fn new(database: &Path) -> Self {
        let mut directory = database.as_os_str().to_owned();
        directory.push("-instances");
        Self { directory: PathBuf::from(directory), registered: None, live: HashMap::new() }
    }

    /// This process' key, made at its first lease; renews its time limit when that is due.
    pub(crate) fn key(&mut self, connection: &Connection, now: Timestamp) -> Outcome<i64> {
        if let Some(registered) = &mut self.registered {
            if now.since(registered.renewed_at) >= RENEWAL {
                // Others may have cleared the row away while this process had no lease to renew.
                connection
                    .prepare_cached(
                        "INSERT INTO instances (pk, name, expires_at) VALUES (?1, ?2, ?3)
                         ON CONFLICT (pk) DO UPDATE SET expires_at = excluded.expires_at",
                    )
                    .and_then(|mut renew| renew.execute(params![registered.key, registered.name, now.plus(LEASE).0]))
                    .translated()?;
                registered.renewed_at = now;
            }
            return Ok(registered.key);
        }
        self.clear_away(connection, now)?;
        let name = Uuid::now_v7().simple().to_string();
        let (file, lock) = self.lock(&name).map_err(|error| {
            StoreError::Unavailable(format!("cannot write a lock file in {}: {error}", self.directory.display()))
        })?;
        connection
            .execute("INSERT INTO instances (name, expires_at) VALUES (?1, ?2)", params![name, now.plus(LEASE).0])
            .translated()?;
        let key = connection.last_insert_rowid();
        self.registered = Some(Registered { key, name, file, renewed_at: now, _lock: lock });
        Ok(key)
    }

    /// This process' key, if it has had a lease.
    pub(crate) fn registered_key(&self) -> Option<i64> {
        self.registered.as_ref().map(|registered| registered.key)
    }

    /// Forgets processes whose time is over: they own nothing any more, whether they are remembered or not.
    fn clear_away(&self, connection: &Connection, now: Timestamp) -> Outcome<()> {
        let gone: Vec<String> = connection
            .prepare("DELETE FROM instances WHERE expires_at < ?1 RETURNING name")
            .and_then(|mut delete| delete.query_map([now.0], |row| row.get(0))?.collect())
            .translated()?;
        for name in gone {
            self.lock_is_free(&name);
        }
        Ok(())
    }

    /// What of this process is stored, before a job or a transaction.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.registered.as_ref().map(|registered| registered.renewed_at))
    }

    /// Goes back to what is stored, after a job or a transaction was rolled back.
    pub(crate) fn restore(&mut self, mark: Mark) {
        match (mark.0, &mut self.registered) {
            (Some(renewed_at), Some(registered)) => registered.renewed_at = renewed_at,
            _ => self.unregister(),
        }
    }

    fn unregister(&mut self) {
        if let Some(registered) = self.registered.take() {
            let _ = fs::remove_file(registered.file);
        }
    }

    /// Reads which turns are this process' own, after a rollback has made memory wrong.
    pub(crate) fn reload_live(&mut self, connection: &Connection) {
        let Some(registered) = &self.registered else {
            self.live.clear();
            return;
        };
        let stored: rusqlite::Result<HashSet<i64>> = connection
            .prepare("SELECT pk FROM turns WHERE state IN ('queued', 'running') AND owner = ?1")
            .and_then(|mut select| select.query_map([registered.key], |row| row.get(0))?.collect());
        if let Ok(stored) = stored {
            self.live.retain(|turn, _| stored.contains(turn));
        }
    }

    /// Forgets a turn that ended or was given up, unless a later attempt of it runs here by now.
    pub(crate) fn let_go(&mut self, lease: Lease) {
        if self.live.get(&lease.turn) == Some(&lease.fence) {
            self.live.remove(&lease.turn);
        }
    }

    /// Whether the owner of a turn is gone. For this process' own turns: whether it has given them up.
    pub(crate) fn is_dead(&self, connection: &Connection, owner: i64, turn: i64, now: Timestamp) -> Outcome<bool> {
        if self.registered.as_ref().is_some_and(|own| own.key == owner) {
            return Ok(!self.live.contains_key(&turn));
        }
        let row: Option<(String, i64)> = connection
            .prepare_cached("SELECT name, expires_at FROM instances WHERE pk = ?1")
            .and_then(|mut select| select.query_row([owner], |row| Ok((row.get(0)?, row.get(1)?))).optional())
            .translated()?;
        let Some((name, expires_at)) = row else { return Ok(true) };
        Ok(expires_at < now.0 || self.lock_is_free(&name))
    }

    fn lock(&self, name: &str) -> std::io::Result<(PathBuf, File)> {
        fs::create_dir_all(&self.directory)?;
        let path = self.directory.join(name);
        let file = File::create(&path)?;
        file.lock()?;
        Ok((path, file))
    }

    /// Removes the file of a lock that is free.
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
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_000_000);

    fn database(directory: &Path) -> Connection {
        let mut connection = Connection::open(directory.join("test.db")).unwrap();
        crate::migrations::run(&mut connection).unwrap();
        connection
    }

    fn instance(directory: &Path) -> Instance {
        Instance::new(&directory.join("test.db"))
    }

    fn lock_files(directory: &Path) -> usize {
        fs::read_dir(directory.join("test.db-instances")).unwrap().count()
    }

    #[test]
    fn a_process_is_dead_when_its_lock_is_free_or_its_time_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let connection = database(directory.path());
        let (mut one, two) = (instance(directory.path()), instance(directory.path()));
        let key = one.key(&connection, START).unwrap();
        assert!(!two.is_dead(&connection, key, 1, START).unwrap());
        assert!(two.is_dead(&connection, key, 1, Timestamp(START.plus(LEASE).0 + 1)).unwrap());
        drop(one);
        assert!(two.is_dead(&connection, key, 1, START).unwrap());
        assert!(two.is_dead(&connection, key + 1, 1, START).unwrap(), "nobody is known by this key");
    }

    #[test]
    fn a_turn_of_our_own_is_dead_when_it_was_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let connection = database(directory.path());
        let mut own = instance(directory.path());
        let key = own.key(&connection, START).unwrap();
        own.live.insert(1, herma_model::Fence(1));
        assert!(!own.is_dead(&connection, key, 1, START).unwrap());
        assert!(own.is_dead(&connection, key, 2, START).unwrap());
    }

    #[test]
    fn those_who_are_gone_are_forgotten_and_the_idle_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let connection = database(directory.path());
        let (mut idle, mut gone) = (instance(directory.path()), instance(directory.path()));
        let key = idle.key(&connection, START).unwrap();
        gone.key(&connection, START).unwrap();
        // A lock that nobody held any more, and whose file nobody removed.
        gone.registered.as_mut().unwrap()._lock.unlock().unwrap();
        let later = Timestamp(START.plus(LEASE).0 + 1);
        let mut new = instance(directory.path());
        new.key(&connection, later).unwrap();
        let known: i64 = connection.query_row("SELECT count(*) FROM instances", [], |row| row.get(0)).unwrap();
        assert_eq!((known, lock_files(directory.path())), (1, 2), "the new one, and the idle one's lock");
        assert_eq!(idle.key(&connection, later).unwrap(), key);
        assert!(!new.is_dead(&connection, key, 1, later).unwrap());
    }

    #[test]
    fn a_renewal_that_was_rolled_back_is_done_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = database(directory.path());
        let (mut own, other) = (instance(directory.path()), instance(directory.path()));
        let key = own.key(&connection, START).unwrap();
        let later = START.plus(RENEWAL);
        let mark = own.mark();
        let transaction = connection.transaction().unwrap();
        own.key(&transaction, later).unwrap();
        transaction.rollback().unwrap();
        own.restore(mark);
        own.key(&connection, later).unwrap();
        assert!(!other.is_dead(&connection, key, 1, later.plus(LEASE)).unwrap());
    }

    #[test]
    fn a_registration_that_was_rolled_back_leaves_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let connection = database(directory.path());
        let mut own = instance(directory.path());
        let mark = own.mark();
        own.key(&connection, START).unwrap();
        own.restore(mark);
        assert_eq!(lock_files(directory.path()), 0);
    }
}
