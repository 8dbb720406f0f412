//! Herma opens the files of every earlier schema.

use std::path::{Path, PathBuf};

use herma_model::provenance::CompactionMode;
use herma_model::{ConversationId, SessionKey};
use herma_store::contract::Engine as _;
use herma_store::contract::searching::search;
use herma_store::contract::summaries::{shown, undone};
use herma_store::{MemoryQuery, Shown, Store, StoreError};
use herma_store_sqlite::SqliteStore;
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::database::{Database, check_file};

/// The migrations, in order, with their numbers.
fn migrations() -> Vec<(i64, PathBuf)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_of_earlier_releases_are_found_by_their_words_and_leave_none_when_they_are_deleted() {
    let database = written_by(36);
    let connection = Connection::open(database.path()).unwrap();
    let facts = "INSERT INTO tenants (pk, name, created_at) VALUES (1, 'tenant', 1);
        INSERT INTO memories (id, tenant_pk, session_key, text, source, created_at, updated_at)
        VALUES (x'00000000000000000000000000000001', 1, 'ann', 'Ann has two Dogs', 'api', 1, 1),
               (x'00000000000000000000000000000002', 1, 'bob', 'Bob has a dog', 'api', 1, 1);";
    connection.execute_batch(facts).unwrap();
    let world = database.world().await;
    let found = |key: &str| {
        let query = MemoryQuery {
            tenant: world.scope.tenant,
            session_key: SessionKey::parse(key).unwrap(),
            words: vec!["dog".to_owned()],
            passages: 0,
            facts: 4,
            shown: Shown { conversation: ConversationId::from_uuid(Uuid::now_v7()), hidden_through: None },
            as_of: None,
        };
        async { world.one.remember(query).await.unwrap().facts.iter().map(|fact| fact.text.to_string()).collect() }
    };
    let [ann, bob]: [Vec<String>; 2] = [found("ann").await, found("bob").await];
    assert_eq!((ann, bob), (vec!["Ann has two Dogs".to_owned()], vec!["Bob has a dog".to_owned()]));
    let words = |key| {
        let sql = "SELECT count(DISTINCT w.word) FROM memory_words w JOIN memories m ON m.pk = w.memory_pk
                   WHERE m.session_key = ?1";
        connection.query_row(sql, [key], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((words("ann"), words("bob")), (4, 4));
    world.one.forget_memories(&world.scope, &SessionKey::parse("ann").unwrap()).await.unwrap();
    let left: i64 = connection.query_row("SELECT count(*) FROM memory_words", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 4, "those of the other key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_deleted_turns_and_events_of_earlier_releases_are_not_given_again() {
    let database = written_by(31);
    let connection = Connection::open(database.path()).unwrap();
    connection.execute_batch(CONVERSATION).unwrap();
    connection
        .execute_batch(
            "UPDATE sqlite_sequence SET seq = 40 WHERE name = 'turns';
             UPDATE tenants SET event_count = 7, events_forgotten = 3;",
        )
        .unwrap();
    let world = database.world().await;
    let turn = world.talk(&world.one, "trip", "more", "yes").await;
    assert_eq!(turn.lease.turn, 41);
    world.talk(&world.one, "tour", "hello", "hi").await;
    let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT max(pk) FROM turns"), 42);
    assert_eq!(count("SELECT count(*) FROM events WHERE tenant_pk = 1 AND number <= 7"), 0);
    connection.execute("DELETE FROM turns WHERE pk = 42", []).unwrap();
    assert_eq!(count("SELECT last FROM turn_numbers"), 42);
    connection.execute("DELETE FROM turns WHERE pk = 41", []).unwrap();
    assert_eq!(count("SELECT last FROM turn_numbers"), 42);
}

/// The schema as SQLite stores it.
fn schema(path: &Path) -> Vec<(String, Option<String>)> {
    let connection = Connection::open(path).unwrap();
    let mut select = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY type, name").unwrap();
    select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_earlier_schema_becomes_the_same_schema() {
    let fresh = Database::new();
    fresh.open().await.close().await;
    let wanted = schema(&fresh.path());
    for (version, _) in migrations() {
        let database = written_by(version);
        database.open().await.close().await;
        assert_eq!(schema(&database.path()), wanted, "from {version}");
        check_file(&database.path());
    }
}

/// A schema that has lists in its checks.
const WITH_LISTS: i64 = 24;

#[tokio::test]
async fn words_that_were_refused_before_are_still_refused() {
    let database = written_by(WITH_LISTS);
    Connection::open(database.path()).unwrap().execute_batch(CONVERSATION).unwrap();
    database.open().await.close().await;
    let connection = Connection::open(database.path()).unwrap();
    for (table, column, words) in [
        ("conversations", "origin_kind", &["main", "auxiliary", "background", "branch"][..]),
        ("sessions", "kind", &["main", "auxiliary", "background", "branch", "continuation"]),
        ("sessions", "parent_relation", &["continuation", "branch", "delegate", "background", "import"]),
        (
            "sessions",
            "creator_kind",
            &["user", "api", "acp", "cli", "compression", "delegate_task", "branch", "schedule", "import"],
        ),
        ("turns", "state", &["queued", "running", "completed", "failed", "cancelled", "interrupted"]),
        ("turns", "resolution", &["created", "head", "moved", "branched"]),
        ("messages", "role", &["user", "assistant", "tool"]),
    ] {
        let parent = if column == "parent_relation" { ", parent_id = 'other'" } else { "" };
        let set = |word: &str| connection.execute(&format!("UPDATE {table} SET {column} = ?1{parent}"), [word]);
        for word in words {
            assert!(set(word).unwrap() > 0, "{table}.{column} = {word}");
        }
        for word in ["", "other", "MAIN", "Queued", "user "] {
            let refused = set(word).unwrap_err().to_string();
            assert!(refused.contains("CHECK constraint failed"), "{table}.{column} = {word}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_schema_that_was_changed_by_hand_is_refused_and_not_changed() {
    let database = written_by(WITH_LISTS);
    let connection = Connection::open(database.path()).unwrap();
    connection
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, '''moved''', '''went''') WHERE name = 'turns';
             PRAGMA writable_schema = RESET; CREATE TABLE notes (text TEXT)",
        )
        .unwrap();
    drop(connection);
    let before = schema(&database.path());
    let Err(StoreError::Unusable(why)) = SqliteStore::open(&database.path()) else { panic!("it was migrated") };
    assert!(why.contains("the schema of turns is not the one that Herma made"), "{why}");
    assert_eq!(schema(&database.path()), before);
    let version: i64 = Connection::open(database.path())
        .and_then(|connection| connection.pragma_query_value(None, "user_version", |row| row.get(0)))
        .unwrap();
    assert_eq!(version, WITH_LISTS);
}

/// Statements of a turn, as an older process prepared them.
const OLDER_TURN: &str = "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner,
    resolution, fingerprint, created_at) VALUES (1, randomblob(16), 1, 1, 'chat', ?1, 1, 1, 'head', zeroblob(16), 3)";
const OLDER_UNANSWERED: &str = "SELECT count(*) FROM turns WHERE conversation_pk = 1
    AND state IN ('failed', 'cancelled', 'interrupted')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_process_that_has_the_file_open_goes_on() {
    let database = written_by(WITH_LISTS);
    let older = Connection::open(database.path()).unwrap();
    older.pragma_update(None, "journal_mode", "WAL").unwrap();
    older.execute_batch(CONVERSATION).unwrap();
    let mut write = older.prepare(OLDER_TURN).unwrap();
    let mut read = older.prepare(OLDER_UNANSWERED).unwrap();
    let mut unanswered = || read.query_row([], |row| row.get::<_, i64>(0)).unwrap();
    write.execute(["failed"]).unwrap();
    assert_eq!(unanswered(), 1);

    // The migration waits for a transaction that is open, and finds what it wrote.
    older.execute_batch("BEGIN IMMEDIATE").unwrap();
    let path = database.path();
    let opening = std::thread::spawn(move || SqliteStore::open(&path).unwrap());
    write.execute(["interrupted"]).unwrap();
    older.execute_batch("COMMIT").unwrap();
    let newer = opening.join().unwrap();

    write.execute(["cancelled"]).unwrap();
    assert!(write.execute(["lost"]).unwrap_err().to_string().contains("CHECK constraint failed"));
    assert_eq!(unanswered(), 3);
    let of_index = "SELECT count(*) FROM turns INDEXED BY turns_unanswered WHERE conversation_pk = 1
                    AND (state = 'failed' OR state = 'cancelled' OR state = 'interrupted')";
    assert_eq!(older.query_row(of_index, [], |row| row.get::<_, i64>(0)).unwrap(), 3);
    newer.close().await;
    let whole: String = older.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

/// How an older process wrote the index.
const OLDER_INDEXING: &str = "UPDATE search_state SET through = 2, owner = 7, until = 9";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_process_that_has_the_file_open_cannot_write_the_search_index() {
    let database = written_by(38);
    let older = Connection::open(database.path()).unwrap();
    older.pragma_update(None, "journal_mode", "WAL").unwrap();
    older.execute_batch(CONVERSATION).unwrap();
    let mut write = older.prepare(OLDER_INDEXING).unwrap();
    older.execute_batch("BEGIN").unwrap();
    write.execute([]).unwrap();
    older.execute_batch("ROLLBACK").unwrap();
    let newer = database.open().await;
    assert!(write.execute([]).unwrap_err().to_string().contains("no such column: until"));
    newer.index_all().await.unwrap();
    newer.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_earlier_releases_did_not_index_are_found() {
    let database = written_by(38);
    let connection = Connection::open(database.path()).unwrap();
    connection.execute_batch(CONVERSATION).unwrap();
    connection.execute_batch(OLDER_INDEXING).unwrap();
    let world = database.world().await;
    for _ in 0..2 {
        assert_eq!(world.found(&world.scope, search("hello")).await, ["[hello]"]);
        world.one.index_all().await.unwrap();
    }
    world.one.close().await;
    world.two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_began_before_the_migration_ends_after_it() {
    let database = written_by(WITH_LISTS);
    let older = Connection::open(database.path()).unwrap();
    older.pragma_update(None, "journal_mode", "WAL").unwrap();
    older.execute_batch(CONVERSATION).unwrap();
    let version = |connection: &Connection| -> i64 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    older.execute_batch("BEGIN").unwrap();
    assert_eq!(version(&older), WITH_LISTS);
    let newer = database.open().await;
    let messages: i64 = older.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!((messages, version(&older)), (2, WITH_LISTS), "it still sees its own moment");
    older.execute_batch("COMMIT").unwrap();
    assert!(version(&older) > WITH_LISTS);
    newer.close().await;
}
