//! A disk without room.

use herma_model::TurnState;
use herma_store::contract::fixture::texts;

use crate::child::{Process, Role};
use crate::database::{Database, holds_together};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_said_to_be_unavailable_and_damages_nothing() {
    let database = Database::new();
    let said = Process::start_limited(Role::Fill, &database.path(), 4_000).finish();
    assert!(matches!(&said[..], [line] if line.starts_with("unavailable ")), "{said:?}");
    holds_together(&database.path());
    let world = database.world().await;
    world.talk(&world.one, "trip", "is there room?", "plenty").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot)[..2], ["hello", "hi"]);
    assert!(snapshot.unanswered.values().all(|turn| turn.state == TurnState::Interrupted));
    assert!(snapshot.unanswered.len() <= 1);
    world.holds_together().await;
    holds_together(&database.path());
}
