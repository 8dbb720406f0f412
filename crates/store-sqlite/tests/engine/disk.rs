//! A full disk, and the size of the write-ahead log.

use std::time::{Duration, Instant};

use herma_model::{Role as Speaker, TurnState};
use herma_store::contract::fixture::{message, running, texts};
use herma_store::{Admission, Durability};

use crate::child::{GO, Process, Role};
use crate::database::{Database, check_file};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_makes_the_store_unavailable_and_damages_nothing() {
    let database = Database::new();
    let lines = Process::start_limited(Role::Fill, &database.path(), 4_000).finish();
    assert!(matches!(&lines[..], [line] if line.starts_with("unavailable ")), "{lines:?}");
    check_file(&database.path());
    let world = database.world().await;
    world.talk(&world.one, "trip", "is there room?", "plenty").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot)[..2], ["hello", "hi"]);
    assert!(snapshot.unanswered.values().all(|turn| turn.state == TurnState::Interrupted));
    assert!(snapshot.unanswered.len() <= 1);
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_written_when_the_disk_has_space_again() {
    let database = Database::new();
    let mut process = Process::start_limited(Role::Answer, &database.path(), 4_000);
    assert_eq!(process.next_report().as_deref(), Some("started"));
    process.limit("1");
    std::fs::write(database.path().with_extension(GO), "").unwrap();
    assert_eq!(process.next_report().as_deref(), Some("waiting"));
    process.limit("unlimited");
    assert_eq!(process.finish(), ["written"]);
    let world = database.world().await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["is there room?", "plenty"]);
    assert!(snapshot.unanswered.is_empty());
    world.holds_together().await;
    check_file(&database.path());
}

const MEGABYTE: u64 = 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_emptied_and_used_again() {
    let database = Database::new();
    let world = database.world().await;
    let size = |suffix: &str| {
        let path = database.path().with_extension(format!("db{suffix}"));
        std::fs::metadata(path).map_or(0, |file| file.len())
    };
    let big = "x".repeat(1_000_000);
    for round in 1..=3 {
        for _ in 0..40 {
            let ask = Admission {
                messages: vec![message(Speaker::User, &big)],
                durability: Durability::WithCommit,
                ..world.ask_anew("")
            };
            let turn = running(world.admit(&world.one, ask).await);
            world.answer(&world.one, &turn, "yes").await;
        }
        let written = Instant::now();
        while size("") < round * 32 * MEGABYTE {
            assert!(written.elapsed() < Duration::from_secs(20), "the log was not copied into the database in time");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert!(size("-wal") < 90 * MEGABYTE, "the log grew to {}", size("-wal"));
    world.holds_together().await;
    assert_eq!(size("-wal"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_shrinks_soon_after_a_long_reader_has_ended() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let log = database.path().with_extension("db-wal");
    let size = || std::fs::metadata(&log).map_or(0, |file| file.len());
    let reader = rusqlite::Connection::open(database.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM messages").unwrap();
    let big = "x".repeat(1_000_000);
    while size() < 100 * MEGABYTE {
        let turn = world.start(&world.one, "trip", "more").await;
        world.answer(&world.one, &turn, &big).await;
    }
    drop(reader);
    let gone = Instant::now();
    while size() >= 64 * MEGABYTE {
        assert!(gone.elapsed() < Duration::from_secs(10), "the log stays at {}", size());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.holds_together().await;
}
