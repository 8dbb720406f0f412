//! A process is killed many times at arbitrary moments. No acknowledged write is lost or half done.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use herma_model::Seq;
use herma_store::Extent;

use crate::child::{Process, Role};
use crate::database::{Database, check_file};

const KILLS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_killed_at_any_moment_loses_nothing_it_acknowledged() {
    let database = Database::new();
    let mut acknowledged: HashMap<String, Seq> = HashMap::new();
    let mut heads: HashMap<String, String> = HashMap::new();
    for kill in 0..KILLS {
        let mut process = Process::start(Role::Storm, &database.path());
        assert_eq!(process.next_report().as_deref(), Some("storming"));
        // On a busy machine the first compaction takes longer.
        let extra = if heads.is_empty() { kill * 100 } else { 0 };
        tokio::time::sleep(Duration::from_millis(kill * 37 % 101 + extra)).await;
        for line in process.kill() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["said", name, seq] => drop(acknowledged.insert(name.to_owned(), Seq(seq.parse().unwrap()))),
                ["moved", name, head] => drop(heads.insert(head.to_owned(), name.to_owned())),
                _ => panic!("{line}"),
            }
        }
        check_file(&database.path());
        let restarted = Instant::now();
        let world = database.world().await;
        for (name, seq) in &acknowledged {
            let snapshot = world.read_as(name, Extent::Whole).await.unwrap();
            let kept = snapshot.messages.iter().any(|message| message.seq == *seq);
            assert!(kept, "{name} has lost its message at {seq:?}");
            world.talk(&world.one, name, "still there?", "yes").await;
        }
        for (head, name) in &heads {
            let (led, expected) = (world.row(head).await.unwrap(), world.row(name).await.unwrap());
            assert_eq!(led.facts, expected.facts, "{head} leads to the head of {name}");
        }
        assert!(restarted.elapsed() < Duration::from_secs(5), "every conversation takes a turn again");
        world.holds_together().await;
        check_file(&database.path());
    }
    assert!(!acknowledged.is_empty() && !heads.is_empty(), "something was said and compacted");
}
