//! Every schema that a release has written can still be opened.

use std::path::PathBuf;

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use crate::database::{Database, holds_together};

/// The steps of the schema, in order.
fn steps() -> Vec<PathBuf> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut steps: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    steps.sort();
    steps
}

/// A file as the release with this many steps left it.
fn written_by(version: i64) -> Database {
    let database = Database::new();
    let connection = Connection::open(database.path()).unwrap();
    connection
        .execute_batch(
            "PRAGMA application_id = 0x4865726d;
             CREATE TABLE migrations (number INTEGER PRIMARY KEY, checksum BLOB NOT NULL) STRICT;",
        )
        .unwrap();
    for (number, step) in (1..=version).zip(steps()) {
        let sql = std::fs::read_to_string(step).unwrap();
        connection.execute_batch(&sql).unwrap();
        let checksum = Sha256::digest(sql.as_bytes()).to_vec();
        connection.execute("INSERT INTO migrations VALUES (?1, ?2)", params![number, checksum]).unwrap();
    }
    connection.pragma_update(None, "user_version", version).unwrap();
    database
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_every_earlier_release_takes_a_turn() {
    for version in (1..).take(steps().len()) {
        let database = written_by(version);
        let world = database.world().await;
        world.talk(&world.one, "trip", "hello", "hi").await;
        world.holds_together().await;
        holds_together(&database.path());
    }
}
