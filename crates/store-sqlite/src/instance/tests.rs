//! Who is alive, who is gone, and what a rollback takes back.

use std::sync::Mutex;

use herma_model::{TenantId, TurnId};

use super::*;

const START: Timestamp = Timestamp(1_000_000);
const LOOK: Duration = Duration::from_secs(2);

/// A file, and a monotonic clock that only the test moves.
struct Ground {
    directory: tempfile::TempDir,
    connection: Connection,
    time: Arc<Mutex<Instant>>,
}

impl Ground {
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
        owner.is_stored();
        self.connection
            .execute(
                "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution, fingerprint, created_at)
                 VALUES (1, randomblob(16), 1, 1, 'test', 'running', 1, ?1, 'created', randomblob(16), 0)",
                [key],
            )
            .unwrap();
        (owner, key)
    }

    /// Watches for a while, looking as often as the sweep does.
    fn watch(&self, watcher: &mut Instance, looks: u32) {
        for _ in 0..looks {
            self.pass(LOOK);
            watcher.watch(&self.connection, START).unwrap();
        }
    }

    fn lock_files(&self) -> usize {
        fs::read_dir(self.directory.path().join("test.db-instances")).unwrap().count()
    }
}

#[test]
fn a_process_is_dead_when_its_lock_is_free() {
    let ground = Ground::new();
    let ((one, key), two) = (ground.owner(), ground.instance());
    assert!(!two.is_dead(&ground.connection, key, 1).unwrap());
    drop(one);
    assert!(two.is_dead(&ground.connection, key, 1).unwrap());
    assert!(two.is_dead(&ground.connection, key + 1, 1).unwrap(), "nobody is known by this key");
}

#[test]
fn a_process_is_dead_when_it_was_watched_renewing_nothing_for_the_time_of_a_lease() {
    let ground = Ground::new();
    let ((_one, key), mut two) = (ground.owner(), ground.instance());
    ground.watch(&mut two, 5);
    assert!(!two.is_dead(&ground.connection, key, 1).unwrap(), "seen for the first time 8 s ago");
    ground.watch(&mut two, 1);
    assert!(two.is_dead(&ground.connection, key, 1).unwrap());
}

#[test]
fn a_process_that_renews_lives() {
    let ground = Ground::new();
    let ((mut one, key), mut two) = (ground.owner(), ground.instance());
    for _ in 0..10 {
        ground.watch(&mut two, 2);
        one.key(&ground.connection, START).unwrap();
        assert!(!two.is_dead(&ground.connection, key, 1).unwrap());
    }
    ground.watch(&mut two, 6);
    one.key(&ground.connection, START).unwrap();
    assert!(!two.is_dead(&ground.connection, key, 1).unwrap(), "renewed since the last look");
}

#[test]
fn time_in_which_nobody_could_look_is_not_watched() {
    let ground = Ground::new();
    let ((_one, key), mut two) = (ground.owner(), ground.instance());
    ground.watch(&mut two, 4);
    ground.pass(Duration::from_secs(60));
    ground.watch(&mut two, 5);
    assert!(!two.is_dead(&ground.connection, key, 1).unwrap());
    ground.watch(&mut two, 1);
    assert!(two.is_dead(&ground.connection, key, 1).unwrap());
}

#[test]
fn time_in_which_the_watcher_could_not_write_is_not_watched() {
    let ground = Ground::new();
    let ((_one, key), mut two) = (ground.owner(), ground.instance());
    ground.watch(&mut two, 2);
    ground.connection.pragma_update(None, "query_only", true).unwrap();
    let refused = (0..8)
        .filter(|_| {
            ground.pass(LOOK);
            two.watch(&ground.connection, START).is_err()
        })
        .count();
    assert!(refused > 0, "a late owner has the watcher write");
    ground.connection.pragma_update(None, "query_only", false).unwrap();
    ground.watch(&mut two, 2);
    assert!(!two.is_dead(&ground.connection, key, 1).unwrap());
}

#[test]
fn a_series_of_renewals_goes_on_until_one_comes_too_late() {
    let ground = Ground::new();
    let (mut own, _) = ground.owner();
    let (renewals, first) = (own.renewals(), own.renewal_series());
    for _ in 0..5 {
        assert_eq!(renewals.fresh_series(), Some(first));
        ground.pass(RENEWAL);
        assert!(renewals.is_due());
        own.key(&ground.connection, START).unwrap();
        own.is_stored();
    }
    ground.pass(LEASE);
    assert_eq!(renewals.fresh_series(), None);
    own.key(&ground.connection, START).unwrap();
    assert_eq!(renewals.fresh_series(), None, "not committed yet");
    own.is_stored();
    assert_eq!(renewals.fresh_series(), Some(first + 1));
}

#[test]
fn a_turn_of_our_own_is_dead_when_it_was_given_up() {
    let ground = Ground::new();
    let mut own = ground.instance();
    let key = own.key(&ground.connection, START).unwrap();
    own.live.insert(1, Fence(1));
    assert!(!own.is_dead(&ground.connection, key, 1).unwrap());
    assert!(own.is_dead(&ground.connection, key, 2).unwrap());
}

#[test]
fn a_turn_whose_end_was_rolled_back_lives_on() {
    let ground = Ground::new();
    let mut own = ground.instance();
    own.key(&ground.connection, START).unwrap();
    own.is_stored();
    own.live.insert(1, Fence(3));
    let id = TurnId::with_room(Uuid::now_v7());
    let lease =
        Lease { tenant: TenantId(1), conversation: 1, turn: 1, fence: Fence(3), id, attempt: 1, renewal_series: 1 };
    let mark = own.mark();
    own.end(lease);
    assert!(own.live.is_empty());
    own.restore(mark);
    assert_eq!(own.live.get(&1), Some(&Fence(3)));
    own.end(lease);
    own.is_stored();
    own.restore(own.mark());
    assert!(own.live.is_empty());
}

#[test]
fn those_who_are_gone_are_forgotten_and_the_idle_are_not() {
    let ground = Ground::new();
    let (mut idle, mut gone) = (ground.instance(), ground.instance());
    let key = idle.key(&ground.connection, START).unwrap();
    gone.key(&ground.connection, START).unwrap();
    // The lock is free, but its file is still there.
    gone.registered.as_mut().unwrap()._lock.unlock().unwrap();
    let later = Timestamp(START.0 + 1_000_000);
    let mut new = ground.instance();
    new.key(&ground.connection, later).unwrap();
    let known: i64 = ground.connection.query_row("SELECT count(*) FROM instances", [], |row| row.get(0)).unwrap();
    assert_eq!((known, ground.lock_files()), (2, 2), "the new one, and the idle one");
    assert!(!new.is_dead(&ground.connection, key, 1).unwrap());
}

#[test]
fn a_renewal_that_was_rolled_back_is_done_again() {
    let mut ground = Ground::new();
    let (mut own, key) = ground.owner();
    let stored = |connection: &Connection| -> i64 {
        connection.query_row("SELECT expires_at FROM instances WHERE pk = ?1", [key], |row| row.get(0)).unwrap()
    };
    let before = stored(&ground.connection);
    ground.pass(RENEWAL);
    let mark = own.mark();
    let transaction = ground.connection.transaction().unwrap();
    own.key(&transaction, START).unwrap();
    transaction.rollback().unwrap();
    own.restore(mark);
    assert_eq!(stored(&ground.connection), before);
    own.key(&ground.connection, START).unwrap();
    assert!(stored(&ground.connection) > before, "even if the wall clock stands still");
}

#[test]
fn a_registration_that_was_rolled_back_leaves_no_lock() {
    let ground = Ground::new();
    let mut own = ground.instance();
    let mark = own.mark();
    own.key(&ground.connection, START).unwrap();
    own.restore(mark);
    assert_eq!(ground.lock_files(), 0);
}
