//! Whatever a store holds, another one can have it: all of it, or any conversation alone.

use herma_model::Alias;
use herma_store::contract::World;
use herma_store::contract::restoring::Copy;
use herma_store::{Archived, ListFilter, ListOrder, RestoreIntent, RestoreOutcome, Store};
use herma_store_sqlite::SqliteStore;

use crate::database::{Database, holds_together};

/// Copies every conversation into an empty store, together and one by one, and finds each as it was.
pub(crate) async fn come_along(world: &World<SqliteStore>) {
    let (all, handles) = (Database::new(), handles(world).await);
    let there = all.world().await;
    there.has_gaps_of(world);
    for handle in &handles {
        let copy = world.copy(handle).await;
        come(&there, copy.clone()).await;
        assert_eq!(there.copy(handle).await, copy);
        alone(world, handle, &copy).await;
    }
    // What came later has changed nothing of what was there.
    for handle in &handles {
        assert_eq!(there.views(handle).await, world.views(handle).await);
        assert_eq!(there.copy(handle).await, world.copy(handle).await);
    }
    there.holds_together().await;
    holds_together(&all.path());
}

async fn alone(world: &World<SqliteStore>, handle: &str, copy: &Copy) {
    if copy.0.is_empty() {
        return;
    }
    let database = Database::new();
    let there = database.world().await;
    there.has_gaps_of(world);
    come(&there, copy.clone()).await;
    assert_eq!(there.views(handle).await, world.views(handle).await);
    assert_eq!(&there.copy(handle).await, copy);
    there.holds_together().await;
    holds_together(&database.path());
}

async fn come(there: &World<SqliteStore>, copy: Copy) {
    let outcome = there.restore_as(&there.scope, copy, RestoreIntent::Restore).await;
    assert_eq!(outcome, RestoreOutcome::Made);
}

/// Every conversation that somebody has made, oldest first.
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
