//! Herma opens the files of every earlier schema.

use std::path::PathBuf;

use herma_model::provenance::CompactionMode;
use herma_store::Store;
use herma_store::contract::summaries::{shown, undone};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use crate::database::{Database, check_file};

/// The migrations, in order, with their numbers.
fn migrations() -> Vec<(i64, PathBuf)> {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let numbered = |path: PathBuf| (path.file_name().unwrap().to_str().unwrap()[..4].parse().unwrap(), path);
    let mut migrations: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| numbered(entry.unwrap().path())).collect();
    migrations.sort();
    migrations
}

/// A file with the schema of this version.
pub(crate) fn written_by(version: i64) -> Database {
    let database = Database::new();
    let connection = Connection::open(database.path()).unwrap();
    connection
        .execute_batch(
            "PRAGMA application_id = 0x4865726d;
             CREATE TABLE migrations (number INTEGER PRIMARY KEY, checksum BLOB NOT NULL) STRICT;",
        )
        .unwrap();
    for (number, migration) in migrations().into_iter().filter(|(number, _)| *number <= version) {
        let sql = std::fs::read_to_string(migration).unwrap();
        connection.execute_batch(&sql).unwrap();
        let checksum = Sha256::digest(sql.as_bytes()).to_vec();
        connection.execute("INSERT INTO migrations VALUES (?1, ?2)", params![number, checksum]).unwrap();
    }
    connection.pragma_update(None, "user_version", version).unwrap();
    database
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_every_earlier_release_takes_a_turn() {
    for (version, _) in migrations() {
        let database = written_by(version);
        let world = database.world().await;
        world.talk(&world.one, "trip", "hello", "hi").await;
        world.holds_together().await;
        check_file(&database.path());
    }
}

/// A conversation of one turn, as the first release wrote it.
pub(crate) const CONVERSATION: &str = "
    INSERT INTO tenants (pk, name, created_at) VALUES (1, 'tenant', 1);
    INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, origin_kind, source, version, fence,
        next_seq, message_count, turn_count, input_tokens, output_tokens, created_at, updated_at)
        VALUES (1, 1, zeroblob(16), 1, 1, 'main', 'api', 2, 1, 3, 2, 1, 10, 3, 1, 2);
    INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, creator_kind, created_at)
        VALUES (1, 1, 1, 'trip', 'main', 0, 'api', 1);
    INSERT INTO aliases (tenant_pk, namespace, alias, conversation_pk, session_pk)
        VALUES (1, 'session', 'trip', 1, 1), (1, 'session', 'conv_00000000000000000000000000000000', 1, NULL);
    INSERT INTO turns (pk, tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution,
        fingerprint, first_seq, answer_seq, last_seq, model, finish_reason, input_tokens, output_tokens, cached_tokens,
        reasoning_tokens, created_at, ended_at)
        VALUES (1, 1, zeroblob(16), 1, 1, 'chat', 'completed', 1, 1, 'created', zeroblob(16), 1, 2, 2,
                'model', 'stop', 10, 3, 0, 0, 1, 2);
    INSERT INTO messages (session_pk, seq, id, turn_pk, attempt, role, status, payload, digest, tokens, created_at)
        VALUES (1, 1, zeroblob(16), 1, 1, 'user', 'complete',
                '{\"role\":\"user\",\"content\":\"hello\"}', zeroblob(16), 7, 1),
               (1, 2, x'00000000000000000000000000000001', 1, 1, 'assistant', 'complete',
                '{\"role\":\"assistant\",\"content\":\"hi\"}', zeroblob(16), 7, 2);
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_first_release_wrote_is_read_and_compacted() {
    let database = written_by(1);
    Connection::open(database.path()).unwrap().execute_batch(CONVERSATION).unwrap();
    let world = database.world().await;
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.usage_tree, row.cost, row.parent_tool_call_id), (row.usage, None, None));
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(shown(&snapshot), ["hello", "hi"]);
    assert_eq!((snapshot.whole, snapshot.counted, snapshot.auto_compaction_paused), (true, None, false));
    let done = world.compact(&world.one, "trip", CompactionMode::Split, "so far").await;
    world.talk(&world.one, "trip", "more", "yes").await;
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["[so far]", "hi", "more", "yes"]);
    undone(world.undo(&world.one, "trip", done.record.id).await);
    assert_eq!(shown(&world.read("trip").await.unwrap()), ["hello", "hi", "more", "yes"]);
    world.holds_together().await;
    check_file(&database.path());
}

/// Two rows of the ledger of [`CONVERSATION`], one of them of a failed compaction.
const LEDGER: &str = "
    INSERT INTO compactions (tenant_pk, conversation_pk, id, action, mode, trigger, outcome, session_before_pk,
        session_after_pk, first_seq, through_seq, tokens_before, tokens_after, input_tokens, output_tokens,
        cached_tokens, reasoning_tokens, duration_ms, created_at)
        VALUES (1, 1, x'0a', 'compact', 'split', 'threshold', 'failed', 1, 1, 1, 1, 9, 9, 100, 7, 0, 0, 1, 3),
               (1, 1, x'0b', 'compact', 'split', 'threshold', 'failed', 1, 1, 1, 1, 9, 9, 20, 1, 0, 0, 1, 4);
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summaries_of_earlier_releases_count_in_the_tree() {
    let database = written_by(20);
    Connection::open(database.path()).unwrap().execute_batch(&[CONVERSATION, LEDGER].concat()).unwrap();
    let world = database.world().await;
    let row = world.row("trip").await.unwrap();
    assert_eq!((row.usage.input, row.usage.output), (10, 3));
    assert_eq!((row.usage_tree.input, row.usage_tree.output), (130, 11));
    world.one.close().await;
    world.two.close().await;
}
