//! What a process leaves for later when it starts.

use herma_store::contract::Engine as _;
use rusqlite::Connection;

use crate::database::{Database, check_file, number, until_zero};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_process_soon_forgets_the_turns_that_others_have_left_joinable_for_too_long() {
    let database = Database::new();
    let path = database.path();
    let world = database.world().await;
    for name in ["trip", "work", "home"] {
        world.talk(&world.one, name, "hello", "hi").await;
    }
    let joinable = "SELECT count(*) FROM turns WHERE joinable = 1";
    assert_eq!(number(&path, joinable), 3);
    Connection::open(&path).unwrap().execute("UPDATE turns SET ended_at = 1", []).unwrap();
    let store = database.open().await;
    let running = world.start(&store, "garden", "hello").await;
    until_zero(&path, &format!("{joinable} AND ended_at = 1")).await;
    world.answer(&store, &running, "yes").await;
    assert_eq!(number(&path, joinable), 1, "a request can join the first turn of a conversation");
    check_file(&path);
}
