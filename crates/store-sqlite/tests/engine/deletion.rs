//! What is left in the file of what was deleted.

use std::path::Path;

use herma_model::{Alias, TurnState};
use herma_store::contract::deleting_sources::family;
use herma_store::contract::fixture::running;
use herma_store::contract::idempotency::with_key;
use herma_store::{Admission, Children, DeleteOutcome, Extent, Store};
use rusqlite::Connection;

use crate::database::{Database, holds_together};

/// The tables that hold anything of a conversation, and how many rows they have. That it is gone is told and counts for nothing. Of the search index, that is which rows it knows of; its pages are
/// written over in time.
fn rows(path: &Path) -> Vec<(String, i64)> {
    let connection = Connection::open(path).unwrap();
    let tables: Vec<String> = connection
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
             AND name NOT IN ('tenants', 'api_keys', 'instances', 'migrations', 'search_state', 'expiry',
             'search_index', 'search_index_data', 'search_index_idx', 'search_index_config')",
        )
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let count = |table: String| {
        let counted = if table == "events" { "kind <> 'session.deleted'" } else { "true" };
        let sql = format!("SELECT count(*) FROM {table} WHERE {counted}");
        let rows = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
        (table, rows)
    };
    tables.into_iter().map(count).filter(|(_, rows)| *rows > 0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_in_any_table_when_everything_was_deleted() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let database = Database::new();
        let world = database.world().await;
        let names = family(&world, "trip").await;
        let paid = running(world.admit(&world.one, with_key(world.ask(&names[1], "pay"), 1)).await);
        world.one.journal(paid.lease, herma_store::contract::fixture::noted("pa"));
        world.one.record_failed(world.failed(&paid));
        world.answer(&world.one, &paid, "paid").await;
        let silent = Admission { messages: Vec::new(), ..world.ask("trip", "") };
        let silent = running(world.admit(&world.one, silent).await);
        world.leave(&world.one, &silent, TurnState::Cancelled, None).await;
        let emptied = world.talk(&world.one, "trip", "not", "this").await;
        for _ in 0..2 {
            let whole = world.read_as("trip", Extent::Whole).await.unwrap().messages.len();
            world.remove("trip", whole - 1).await;
        }
        assert!(world.turn(emptied.turn).await.unwrap().input.is_empty());
        for next in order {
            let outcome = world.delete(&names[next]).await;
            assert!(matches!(outcome, DeleteOutcome::Deleted(_)), "{outcome:?}");
            world.settle(&world.one).await;
            holds_together(&database.path());
        }
        world.holds_together().await;
        assert_eq!(rows(&database.path()), [], "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_noted_late_of_what_was_deleted_is_not_kept() {
    let database = Database::new();
    let world = database.world().await;
    let first = world.talk(&world.one, "trip", "first", "one").await;
    world.branch(&world.one, first.turn, "instead", "fine").await;
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(first.facts.id));
    let before = rows(&database.path());
    world.one.record_failed(world.failed(&first));
    world.one.journal(first.lease, herma_store::contract::fixture::noted("late"));
    world.one.mark_delivered(world.scope.tenant, first.turn);
    world.settle(&world.one).await;
    assert_eq!(rows(&database.path()), before);
    world.holds_together().await;
    holds_together(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_came_to_nothing_takes_along_what_was_kept_for_it() {
    let database = Database::new();
    let world = database.world().await;
    let first = world.talk(&world.one, "trip", "first", "one").await;
    let branch = running(world.admit(&world.one, world.ask_branch(first.turn, "instead")).await);
    let further = world.branch(&world.one, first.turn, "or", "so").await;
    for alias in ["trip", &further.facts.id.to_string()] {
        let alias = Alias::parse(alias).unwrap();
        let outcome = world.two.delete(&world.scope, &alias, Children::Keep, world.now()).await.unwrap();
        assert!(matches!(outcome, DeleteOutcome::Deleted(_)), "{outcome:?}");
    }
    assert_ne!(rows(&database.path()), []);
    world.one.retract(branch.lease).await.unwrap();
    assert_eq!(rows(&database.path()), []);
    world.holds_together().await;
}
