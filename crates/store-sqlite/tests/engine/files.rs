//! Files that are refused without a change, and files that are opened again.

use std::path::Path;

use herma_model::TurnState;
use herma_store::StoreError;
use herma_store::contract::fixture::running;
use herma_store_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::database::Database;

/// Why a file is refused. Checks that nothing in its directory has changed.
fn refusal(database: &Database) -> String {
    let (bytes, files) = (std::fs::read(database.path()).unwrap(), database.files());
    let Err(StoreError::Unusable(why)) = SqliteStore::open(&database.path()) else { panic!("it was not refused") };
    assert_eq!(std::fs::read(database.path()).unwrap(), bytes);
    assert_eq!(database.files(), files);
    why
}

/// The file of a store that was used and closed.
async fn used_database() -> Database {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    world.holds_together().await;
    database
}

fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused() {
    let database = Database::new();
    std::fs::write(database.path(), b"dear diary, ".repeat(1000)).unwrap();
    assert!(refusal(&database).contains("damaged or not a Herma database"));
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let database = used_database().await;
    let mut bytes = std::fs::read(database.path()).unwrap();
    bytes[..8].fill(0xff);
    std::fs::write(database.path(), bytes).unwrap();
    assert!(refusal(&database).contains("Restore it from a backup"));
}

#[tokio::test]
async fn a_file_with_a_damaged_schema_is_refused() {
    let database = used_database().await;
    let mut bytes = std::fs::read(database.path()).unwrap();
    bytes[100..4096].fill(0xff);
    std::fs::write(database.path(), bytes).unwrap();
    assert!(refusal(&database).contains("damaged"));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = used_database().await;
    execute(&database.path(), "PRAGMA user_version = 9999");
    assert!(refusal(&database).contains("newer Herma"));
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    for mode in ["DELETE", "WAL"] {
        let database = Database::new();
        execute(
            &database.path(),
            &format!("PRAGMA journal_mode = {mode}; CREATE TABLE recipes (name TEXT); PRAGMA user_version = 1"),
        );
        assert!(refusal(&database).contains("another program"), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_when_a_file_is_opened_again() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let failed = world.start(&world.one, "trip", "more").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("we")).await;
    let other = running(world.admit(&world.one, world.ask_anew("alone")).await);
    world.answer(&world.one, &other, "indeed").await;
    let (snapshot, rows) = (world.read("trip").await.unwrap(), world.all(&world.scope).await);
    let turn = world.turn(failed.turn).await.unwrap();
    world.holds_together().await;
    assert_eq!(database.files(), ["herma.db", "herma.db-instances"], "the log is empty and gone");

    let world = database.world().await;
    let again = world.read("trip").await.unwrap();
    assert_eq!((again.version, &again.facts), (snapshot.version, &snapshot.facts));
    assert_eq!((&again.messages, &again.unanswered), (&snapshot.messages, &snapshot.unanswered));
    assert_eq!(format!("{:?}", world.all(&world.scope).await), format!("{rows:?}"));
    assert_eq!(format!("{:?}", world.turn(failed.turn).await.unwrap()), format!("{turn:?}"));
    world.talk(&world.two, "trip", "and now?", "yes").await;
    world.holds_together().await;
}
