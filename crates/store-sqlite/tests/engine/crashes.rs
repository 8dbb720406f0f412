//! Killed at any moment, again and again: nothing acknowledged is lost, and nothing is left half done.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::child::{Process, Role};
use crate::database::{Database, holds_together};

const KILLS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_at_any_moment_loses_nothing_it_acknowledged() {
    let database = Database::new();
    let mut acknowledged: HashMap<String, i64> = HashMap::new();
    for kill in 0..KILLS {
        let mut process = Process::start(Role::Storm, &database.path());
        assert_eq!(process.hear().as_deref(), Some("storming"));
        tokio::time::sleep(Duration::from_millis(kill * 37 % 101)).await;
        for line in process.kill() {
            let ["said", name, seq] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            acknowledged.insert(name.to_owned(), seq.parse().unwrap());
        }
        holds_together(&database.path());
        let restarted = Instant::now();
        let world = database.world().await;
        for (name, seq) in &acknowledged {
            let snapshot = world.read(name).await.unwrap();
            assert!(snapshot.messages.len() as i64 >= *seq, "{name} has lost what was said at {seq}");
            world.talk(&world.one, name, "still there?", "yes").await;
        }
        assert!(restarted.elapsed() < Duration::from_secs(5), "every conversation takes a turn again");
        world.holds_together().await;
        holds_together(&database.path());
    }
    assert!(!acknowledged.is_empty(), "something was said");
}
