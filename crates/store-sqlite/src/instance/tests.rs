//! Which processes count as alive, and what a rollback restores.

use std::sync::Mutex;

use herma_model::{Fence, TenantId, TurnId};

use super::*;

const START: Timestamp = Timestamp(1_000_000);
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A database file, and a monotonic clock that only the test moves.
struct Directory {
    directory: tempfile::TempDir,
    connection: Connection,
    time: Arc<Mutex<Instant>>,
}

impl Directory {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = Connection::open(directory.path().join("test.db")).unwrap();
        crate::migrations::run(&mut connection).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        Self { directory, connection, time: Arc::new(Mutex::new(Instant::now())) }
    }

    fn instance(&self) -> Instance {
        let time = Arc::clone(&self.time);
        Instance::with_clock(&self.directory.path().join("test.db"), Arc::new(move || *time.lock().unwrap()))
    }

    fn pass(&self, span: Duration) {
        *self.time.lock().unwrap() += span;
    }

    /// A process that owns a running turn.
    fn owner(&self) -> (Instance, i64) {
        let mut owner = self.instance();
        let key = owner.key(&self.connection, START).unwrap();
        owner.note_commit();
        self.connection
            .execute(
                "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution,
                 fingerprint, created_at)
                 VALUES (1, randomblob(16), 1, 1, 'test', 'running', 1, ?1, 'created', randomblob(16), 0)",
                [key],
            )
            .unwrap();
        (owner, key)
    }

    /// Checks as often as the sweep does, `checks` times.
    fn watch(&self, watcher: &mut Instance, checks: u32) {
        for _ in 0..checks {
            self.pass(CHECK_INTERVAL);
            watcher.watch(&self.connection, START).unwrap();
        }
    }

    fn lock_files(&self) -> usize {
        fs::read_dir(self.directory.path().join("test.db-instances")).unwrap().count()
    }
}

#[test]
fn a_process_is_dead_when_its_lock_is_free() {
    let directory = Directory::new();
    let ((one, key), two) = (directory.owner(), directory.instance());
    assert!(!two.is_dead(&directory.connection, key, 1).unwrap());
    drop(one);
    assert!(two.is_dead(&directory.connection, key, 1).unwrap());
    assert!(two.is_dead(&directory.connection, key + 1, 1).unwrap(), "no process has this key");
}

#[test]
fn a_process_is_dead_when_it_was_watched_renewing_nothing_for_the_time_of_a_lease() {
    let directory = Directory::new();
    let ((_one, key), mut two) = (directory.owner(), directory.instance());
    directory.watch(&mut two, 5);
    assert!(!two.is_dead(&directory.connection, key, 1).unwrap(), "seen for the first time 8 s ago");
    directory.watch(&mut two, 1);
    assert!(two.is_dead(&directory.connection, key, 1).unwrap());
}

#[test]
fn a_process_that_renews_lives() {
    let directory = Directory::new();
    let ((mut one, key), mut two) = (directory.owner(), directory.instance());
    for _ in 0..10 {
        directory.watch(&mut two, 2);
        one.key(&directory.connection, START).unwrap();
        assert!(!two.is_dead(&directory.connection, key, 1).unwrap());
    }
    directory.watch(&mut two, 6);
    one.key(&directory.connection, START).unwrap();
    assert!(!two.is_dead(&directory.connection, key, 1).unwrap(), "renewed since the last check");
}

#[test]
fn time_without_checks_does_not_count_as_watched() {
    let directory = Directory::new();
    let ((_one, key), mut two) = (directory.owner(), directory.instance());
    directory.watch(&mut two, 4);
    directory.pass(Duration::from_secs(60));
    directory.watch(&mut two, 5);
    assert!(!two.is_dead(&directory.connection, key, 1).unwrap());
    directory.watch(&mut two, 1);
    assert!(two.is_dead(&directory.connection, key, 1).unwrap());
}

#[test]
fn time_in_which_the_watcher_could_not_write_does_not_count_as_watched() {
    let directory = Directory::new();
    let ((_one, key), mut two) = (directory.owner(), directory.instance());
    directory.watch(&mut two, 2);
    directory.connection.pragma_update(None, "query_only", true).unwrap();
    let refused = (0..8)
        .filter(|_| {
            directory.pass(CHECK_INTERVAL);
            two.watch(&directory.connection, START).is_err()
        })
        .count();
    assert!(refused > 0, "if an owner is late, the watcher writes");
    directory.connection.pragma_update(None, "query_only", false).unwrap();
    directory.watch(&mut two, 2);
    assert!(!two.is_dead(&directory.connection, key, 1).unwrap());
}

#[test]
fn a_series_of_renewals_goes_on_until_one_comes_too_late() {
    let directory = Directory::new();
    let (mut own, _) = directory.owner();
    let (renewals, first) = (own.renewals(), own.renewal_series());
    for _ in 0..5 {
        assert_eq!(renewals.fresh_series(), Some(first));
        directory.pass(RENEWAL);
        assert!(renewals.is_due());
        own.key(&directory.connection, START).unwrap();
        own.note_commit();
    }
    directory.pass(LEASE);
    assert_eq!(renewals.fresh_series(), None);
    own.key(&directory.connection, START).unwrap();
    assert_eq!(renewals.fresh_series(), None, "not committed yet");
    own.note_commit();
    assert_eq!(renewals.fresh_series(), Some(first + 1));
}

#[test]
fn a_turn_of_our_own_is_dead_when_it_was_given_up() {
    let directory = Directory::new();
    let mut own = directory.instance();
    let key = own.key(&directory.connection, START).unwrap();
    own.live.insert(1, Fence(1));
    assert!(!own.is_dead(&directory.connection, key, 1).unwrap());
    assert!(own.is_dead(&directory.connection, key, 2).unwrap());
}

#[test]
fn a_turn_whose_end_was_rolled_back_lives_on() {
    let directory = Directory::new();
    let mut own = directory.instance();
    own.key(&directory.connection, START).unwrap();
    own.note_commit();
    own.live.insert(1, Fence(3));
    let id = TurnId::with_room(Uuid::now_v7());
    let lease = Lease {
        tenant: TenantId(1),
        conversation: 1,
        turn: 1,
        fence: Fence(3),
        id,
        attempt: 1,
        renewal_series: 1,
        resumed: false,
    };
    let mark = own.mark();
    own.end(lease);
    assert!(own.live.is_empty());
    own.restore(mark);
    assert_eq!(own.live.fence(1), Some(Fence(3)));
    own.end(lease);
    own.note_commit();
    own.restore(own.mark());
    assert!(own.live.is_empty());
}

#[test]
fn dead_processes_are_forgotten_and_idle_ones_are_not() {
    let directory = Directory::new();
    let (mut idle, mut gone) = (directory.instance(), directory.instance());
    let key = idle.key(&directory.connection, START).unwrap();
    gone.key(&directory.connection, START).unwrap();
    // The lock is free, but its file is still there.
    gone.registered.as_mut().unwrap()._lock.unlock().unwrap();
    let later = Timestamp(START.0 + 1_000_000);
    let mut new = directory.instance();
    new.key(&directory.connection, later).unwrap();
    let known: i64 = directory.connection.query_row("SELECT count(*) FROM instances", [], |row| row.get(0)).unwrap();
    assert_eq!((known, directory.lock_files()), (2, 2), "the new one, and the idle one");
    assert!(!new.is_dead(&directory.connection, key, 1).unwrap());
}

#[test]
fn a_renewal_that_was_rolled_back_is_done_again() {
    let mut directory = Directory::new();
    let (mut own, key) = directory.owner();
    let stored = |connection: &Connection| -> i64 {
        connection.query_row("SELECT expires_at FROM instances WHERE pk = ?1", [key], |row| row.get(0)).unwrap()
    };
    let before = stored(&directory.connection);
    directory.pass(RENEWAL);
    let mark = own.mark();
    let transaction = directory.connection.transaction().unwrap();
    own.key(&transaction, START).unwrap();
    transaction.rollback().unwrap();
    own.restore(mark);
    assert_eq!(stored(&directory.connection), before);
    own.key(&directory.connection, START).unwrap();
    assert!(stored(&directory.connection) > before, "even if the wall clock stands still");
}

#[test]
fn a_registration_that_was_rolled_back_leaves_no_lock() {
    let directory = Directory::new();
    let mut own = directory.instance();
    let mark = own.mark();
    own.key(&directory.connection, START).unwrap();
    own.restore(mark);
    assert_eq!(directory.lock_files(), 0);
}
