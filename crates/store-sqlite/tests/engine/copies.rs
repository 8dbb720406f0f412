//! Every conversation of a store can be copied into another store, with all others or alone.

use herma_model::Alias;
use herma_store::contract::World;
use herma_store::contract::restoring::Copy;
use herma_store::{Archived, ListFilter, ListOrder, RestoreIntent, RestoreOutcome, Store};
use herma_store_sqlite::SqliteStore;

use crate::database::{Database, check_file};

/// Copies all conversations into one empty store, and each into a store of its own. Checks that each copy is equal.
pub(crate) async fn check_that_all_can_be_copied(world: &World<SqliteStore>) {
    let (all, handles) = (Database::new(), handles(world).await);
    let there = all.world().await;
    there.has_gaps_of(world);
    for handle in &handles {
        let copy = world.copy(handle).await;
        restore(&there, copy.clone()).await;
        assert_eq!(there.copy(handle).await, copy);
        check_that_one_can_be_copied(world, handle, &copy).await;
    }
    // Conversations that were restored later have not changed the earlier ones.
    for handle in &handles {
        assert_eq!(there.views(handle).await, world.views(handle).await);
        assert_eq!(there.copy(handle).await, world.copy(handle).await);
    }
    there.holds_together().await;
    check_file(&all.path());
}

async fn check_that_one_can_be_copied(world: &World<SqliteStore>, handle: &str, copy: &Copy) {
    if copy.0.is_empty() {
        return;
    }
    let database = Database::new();
    let there = database.world().await;
    there.has_gaps_of(world);
    restore(&there, copy.clone()).await;
    assert_eq!(there.views(handle).await, world.views(handle).await);
    assert_eq!(&there.copy(handle).await, copy);
    there.holds_together().await;
    check_file(&database.path());
}

async fn restore(there: &World<SqliteStore>, copy: Copy) {
    let outcome = there.restore_as(&there.scope, copy, RestoreIntent::Restore).await;
    assert_eq!(outcome, RestoreOutcome::Made);
}

/// The ids of all conversations that can be copied, oldest first.
async fn handles(world: &World<SqliteStore>) -> Vec<String> {
    let order = ListOrder::CreatedAscending;
    let filter = ListFilter { order, archived: Archived::Any, limit: 1_000, ..ListFilter::default() };
    let page = world.one.conversations(&world.scope, filter).await.unwrap();
    let mut handles = Vec::new();
    for row in page.rows {
        let handle = row.facts.id.to_string();
        let copying = world.one.copy_out(&world.scope, &Alias::parse(&handle).unwrap()).await.unwrap();
        handles.extend(copying.map(|_| handle));
    }
    handles
}
