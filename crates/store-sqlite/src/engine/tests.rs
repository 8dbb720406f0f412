//! What a turn makes SQLite do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use herma_model::{Alias, Timestamp};
use herma_store::contract::{Engine, World};
use herma_store::{Change, Store as _};
use rusqlite::trace::TraceEvent;

use super::*;

struct Directory(tempfile::TempDir);

impl Directory {
    fn path(&self) -> PathBuf {
        self.0.path().join("herma.db")
    }
}

impl Engine for Directory {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.path()).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_of_a_turn_fills_a_temporary_table() {
    let directory = Directory(tempfile::tempdir().unwrap());
    let world = World::new(&directory).await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let statements = Arc::new(Mutex::new(BTreeSet::new()));
    let report = Arc::clone(&statements);
    world.one.writer.trace(move |event| {
        if let TraceEvent::Stmt(statement, _) = event {
            report.lock().unwrap().insert(statement.sql().into_owned());
        }
    });
    let turn = world.talk(&world.one, "trip", "more", "yes").await;
    world.one.mark_delivered(world.scope.tenant, turn.turn);
    world.holds_together().await;

    let statements = statements.lock().unwrap();
    assert!(statements.iter().any(|sql| sql.starts_with("INSERT INTO messages")), "{statements:?}");
    let connection = Connection::open(directory.path()).unwrap();
    for sql in statements.iter() {
        let mut explain = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
        let nothing = vec![rusqlite::types::Null; explain.parameter_count()];
        let program: Vec<String> = explain
            .query_map(rusqlite::params_from_iter(nothing), |row| row.get(1))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(!program.iter().any(|name| name == "OpenEphemeral"), "{sql}: {program:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_looked_up_again_only_if_something_else_may_have_changed_it() {
    let directory = Directory(tempfile::tempdir().unwrap());
    let world = World::new(&directory).await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let looked_up = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looked_up);
    world.one.writer.trace(move |event| {
        if let TraceEvent::Stmt(_, sql) = event
            && sql.contains("FROM aliases")
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let looked_up = || looked_up.swap(0, Ordering::Relaxed);
    // Maintenance may write in between, after which it is looked up once more.
    let mut without = false;
    for turn in 0..20 {
        world.talk(&world.one, "trip", &format!("question {turn}"), "yes").await;
        without |= looked_up() == 0;
    }
    assert!(without);

    world.talk(&world.two, "trip", "by another process", "yes").await;
    world.talk(&world.one, "trip", "after that", "yes").await;
    assert_eq!(looked_up(), 1);

    let alias = Alias::parse("trip").unwrap();
    let change = Change { title: Some(Some("Oslo".to_owned())), ..Change::default() };
    world.one.update(&world.scope, &alias, change, Timestamp(9_000)).await.unwrap();
    looked_up();
    world.talk(&world.one, "trip", "after the change", "yes").await;
    assert_eq!(looked_up(), 1);
    world.holds_together().await;
}
