//! The admission of an ordinary turn is one row, until the turn ends or something else looks at it.

use herma_model::{StopKind, TurnState};
use herma_store::contract::World;
use herma_store::contract::fixture::{joined, running, texts};
use herma_store::{AdmitOutcome, Store, StoreError};
use herma_store_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::child::{Process, Role};
use crate::database::{Database, check_file};

/// How many admissions are one row, and how many running turns are written out.
fn stored(database: &Database) -> (i64, i64) {
    let connection = Connection::open(database.path()).unwrap();
    let count = |sql| connection.query_row(sql, [], |row| row.get(0)).unwrap();
    (count("SELECT count(*) FROM live_admissions"), count("SELECT count(*) FROM turns WHERE state = 'running'"))
}

/// A conversation with one answered turn, and a second turn that runs and is one row.
async fn admitted(database: &Database) -> (World<SqliteStore>, herma_store::Running) {
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let turn = world.start(&world.one, "trip", "and then?").await;
    assert_eq!(stored(database), (1, 0));
    (world, turn)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commit_writes_the_turn_and_both_messages_at_once() {
    let database = Database::new();
    let (world, turn) = admitted(&database).await;
    check_file(&database.path());
    let committed = world.answer(&world.one, &turn, "home").await;
    assert_eq!(stored(&database), (0, 0));
    assert_eq!((turn.version.0 + 1, committed.version.0), (committed.version.0, 4));
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["hello", "hi", "and then?", "home"]);
    assert_eq!(snapshot.version, committed.version);
    let record = world.turn(turn.turn).await.unwrap();
    assert_eq!((record.state, record.attempt), (TurnState::Completed, 1));
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.message_count, row.turn_count), (4, 2));
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_look_at_a_running_turn_shows_it() {
    for look in 0..4 {
        let database = Database::new();
        let (world, turn) = admitted(&database).await;
        match look {
            0 => assert_eq!(world.turn(turn.turn).await.unwrap().state, TurnState::Running),
            1 => assert_eq!(world.row("trip").await.unwrap().message_count, 3),
            2 => assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi", "and then?"]),
            _ => assert_eq!(world.all(&world.scope).await[0].turn_count, 2),
        }
        assert_eq!(stored(&database), (0, 1), "look {look}");
        check_file(&database.path());
        world.answer(&world.one, &turn, "home").await;
        assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi", "and then?", "home"]);
        world.holds_together().await;
        check_file(&database.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_is_visible_to_another_process_that_asks_with_what_it_read_before() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let mut late = world.ask("trip", "me too");
    late.seen = world.seen(&world.two, &late).await;
    let turn = world.start(&world.one, "trip", "and then?").await;
    assert_eq!(stored(&database), (1, 0));
    assert!(matches!(world.two.admit(late).await.unwrap(), AdmitOutcome::Queued { .. }));
    assert_eq!(stored(&database), (0, 1));
    world.answer(&world.one, &turn, "home").await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_asked_to_stop_before_it_is_written_out_does_not_complete() {
    let database = Database::new();
    let (world, turn) = admitted(&database).await;
    let grace = std::time::Duration::from_secs(60);
    world.two.stop(&world.scope, turn.turn, grace, world.now()).await.unwrap();
    let refused = world.try_answer(&world.one, &turn, "home").await;
    assert!(matches!(refused, Err(StoreError::StopRequested(StopKind::Cancel))), "{refused:?}");
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retracted_turn_leaves_nothing_and_its_number_is_not_given_again() {
    let database = Database::new();
    let (world, turn) = admitted(&database).await;
    world.one.retract(turn.lease).await.unwrap();
    assert_eq!(stored(&database), (0, 0));
    assert_eq!(texts(&world.read("trip").await.unwrap()), ["hello", "hi"]);
    let next = world.start(&world.two, "trip", "again").await;
    assert!(next.lease.turn > turn.lease.turn && next.lease.fence > turn.lease.fence);
    assert!(matches!(world.try_answer(&world.one, &turn, "late").await, Err(StoreError::Fenced)));
    world.answer(&world.two, &next, "home").await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_after_the_admission_leaves_the_turn_recorded_and_the_conversation_free() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let mut process = Process::start(Role::Answer, &database.path());
    process.next_report().unwrap();
    assert_eq!(stored(&database), (1, 0));
    process.kill();
    check_file(&database.path());
    let before = world.read("trip").await.unwrap();
    assert_eq!(before.messages.len(), 3, "the message of the killed turn is there");
    world.talk(&world.one, "trip", "go on", "yes").await;
    let snapshot = world.read("trip").await.unwrap();
    let killed = before.messages[2].turn;
    assert_eq!(snapshot.unanswered[&killed].state, TurnState::Interrupted);
    assert_eq!(world.turn(killed).await.unwrap().state, TurnState::Interrupted);
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_message_is_written_once() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    world.start(&world.one, "trip", &"long ".repeat(1000)).await;
    assert_eq!(stored(&database), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_an_earlier_release_gets_no_lease() {
    let database = Database::new();
    database.world().await;
    let connection = Connection::open(database.path()).unwrap();
    let insert = "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution,
                  fingerprint, brought_key, created_at) VALUES (1, x'00', 1, 1, 'chat', 'running', 1, 1, 'head', x'00',
                  0, 1)";
    assert!(connection.execute(insert, []).unwrap_err().to_string().contains("brought_key"));
}

/// All rows of the table, live or left behind.
fn rows(database: &Database) -> i64 {
    let connection = Connection::open(database.path()).unwrap();
    connection.query_row("SELECT count(*) FROM admissions", [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_leaves_its_row_behind_and_any_other_write_deletes_it() {
    let database = Database::new();
    let (world, turn) = admitted(&database).await;
    world.answer(&world.one, &turn, "home").await;
    assert_eq!((rows(&database), stored(&database)), (1, (0, 0)));
    assert_eq!(texts(&world.read("trip").await.unwrap()).len(), 4, "a read has nothing to write out");
    assert_eq!(rows(&database), 1);
    world.remove("trip", 3).await;
    assert_eq!(rows(&database), 0, "no text of the turn is left there when some is deleted");
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_left_behind_by_many_conversations() {
    let database = Database::new();
    let world = database.world().await;
    for number in 0..100 {
        world.talk(&world.one, &format!("trip {number}"), "hello", "hi").await;
        assert!(rows(&database) <= 33);
    }
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_owner_cannot_commit_into_a_conversation_that_took_the_place_of_its_own() {
    let database = Database::new();
    let world = database.world().await;
    let late = world.start(&world.one, "trip", "hello").await;
    world.two.stop(&world.scope, late.turn, std::time::Duration::ZERO, world.now()).await.unwrap();
    world.two.retract(late.lease).await.ok();
    world.delete("trip").await;
    let next = world.start(&world.two, "tour", "hello").await;
    assert!(next.lease.turn > late.lease.turn, "no number is given twice");
    let refused = world.try_answer(&world.one, &late, "late").await;
    assert!(refused.is_err(), "{refused:?}");
    world.answer(&world.two, &next, "hi").await;
    assert_eq!(texts(&world.read("tour").await.unwrap()), ["hello", "hi"]);
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_an_earlier_release_finds_no_number_for_a_turn() {
    let database = Database::new();
    database.world().await;
    let connection = Connection::open(database.path()).unwrap();
    let last =
        connection.query_row("SELECT seq FROM sqlite_sequence WHERE name = 'turns'", [], |row| row.get::<_, i64>(0));
    assert_eq!(last, Err(rusqlite::Error::QueryReturnedNoRows));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_has_ended_has_said_what_it_delivered() {
    let database = Database::new();
    let next = {
        let world = database.world().await;
        let first = world.talk(&world.one, "trip", "hello", "hi").await;
        world.one.mark_delivered(world.scope.tenant, first.turn);
        let next = world.talk(&world.one, "trip", "and then?", "home").await;
        world.one.close().await;
        next
    };
    let connection = Connection::open(database.path()).unwrap();
    let said = "SELECT delivered_through, undelivered FROM instances WHERE delivered_through > 0";
    let (through, undelivered): (i64, Vec<u8>) =
        connection.query_row(said, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!((through, undelivered), (next.lease.turn, next.lease.turn.to_le_bytes().to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_finds_its_turn_behind_many_newer_ones_with_the_same_words() {
    let database = Database::new();
    let world = database.world().await;
    let ask = |sdk_attempt| {
        let mut ask = world.ask_anew("hello");
        (ask.retry.fingerprint, ask.retry.sdk_attempt) = ([9; 16], sdk_attempt);
        ask
    };
    let first = running(world.admit(&world.one, ask(0)).await);
    world.answer(&world.one, &first, "hi").await;
    for _ in 0..20 {
        let newer = running(world.admit(&world.one, ask(0)).await);
        world.answer(&world.one, &newer, "hi").await;
        world.one.mark_delivered(world.scope.tenant, newer.turn);
    }
    assert_eq!(joined(world.admit(&world.one, ask(1)).await), first.turn);
}
