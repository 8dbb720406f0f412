//! What is checked, and when: only what is subscribed, and only after a commit.

use std::pin::pin;
use std::task::{Context, Waker};

use uuid::Uuid;

use super::*;

static LIVE: AtomicUsize = AtomicUsize::new(1);
const OWN: Option<Owner<'static>> = Some(Owner { key: 1, live: &LIVE });

fn turn() -> TurnId {
    TurnId::from_uuid(Uuid::from_u128(7))
}

/// A database in which one turn waits, and nothing else.
fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "CREATE TABLE turns (pk INTEGER PRIMARY KEY, id, state, owner, stop_requested);
             CREATE TABLE live_admissions (turn_pk, owner)",
        )
        .unwrap();
    connection.execute("INSERT INTO turns VALUES (1, ?1, 'queued', 1, NULL)", [turn().uuid().as_bytes()]).unwrap();
    connection
}

fn is_notified(notice: &mut Subscription) -> bool {
    pin!(notice.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn without_subscriptions_nothing_is_checked() {
    let notices = Notices::default();
    assert!(!notices.are_wanted(OWN));
    let stop = notices.subscribe(Notice::StopRequested);
    assert!(notices.are_wanted(OWN));
    assert!(!notices.are_wanted(None), "a process without turns cannot be asked to stop one");
    let wait = notices.subscribe(Notice::WaitEnded(turn()));
    assert!(notices.are_wanted(None));
    drop((stop, wait));
    assert!(!notices.are_wanted(OWN));
}

#[test]
fn without_a_commit_only_new_subscriptions_are_checked() {
    let (notices, connection) = (Notices::default(), database());
    let mut first = notices.subscribe(Notice::WaitEnded(turn()));
    notices.check(&connection, OWN, false);
    assert!(!is_notified(&mut first), "the turn still waits");
    connection.execute("DELETE FROM turns", []).unwrap();
    notices.check(&connection, OWN, false);
    assert!(!is_notified(&mut first), "no commit was reported");
    let mut second = notices.subscribe(Notice::WaitEnded(turn()));
    notices.check(&connection, OWN, false);
    assert!(is_notified(&mut second), "the wait had ended before the subscription");
    is_notified(&mut first);
    notices.check(&connection, OWN, true);
    assert!(!is_notified(&mut first), "it is notified only once");
}

#[test]
fn a_check_that_fails_is_repeated() {
    let (notices, connection) = (Notices::default(), database());
    let mut wait = notices.subscribe(Notice::WaitEnded(turn()));
    connection.execute_batch("ALTER TABLE turns RENAME TO away").unwrap();
    notices.check(&connection, OWN, true);
    connection.execute_batch("DELETE FROM away; ALTER TABLE away RENAME TO turns").unwrap();
    notices.check(&connection, OWN, false);
    assert!(is_notified(&mut wait));
}

#[test]
fn a_turn_that_is_missing_may_have_been_ended_by_another_process() {
    let (notices, connection) = (Notices::default(), database());
    let mut stop = notices.subscribe(Notice::StopRequested);
    notices.check(&connection, OWN, true);
    assert!(!is_notified(&mut stop));
    connection.execute("UPDATE turns SET owner = 2", []).unwrap();
    notices.check(&connection, OWN, true);
    assert!(is_notified(&mut stop), "another process has it");
    notices.check(&connection, OWN, true);
    assert!(!is_notified(&mut stop), "this change was reported before");
    connection.execute("UPDATE turns SET stop_requested = 1", []).unwrap();
    notices.check(&connection, Some(Owner { key: 2, live: &LIVE }), true);
    assert!(is_notified(&mut stop));
}
