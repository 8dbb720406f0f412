//! Several processes use one file, and some of them are killed.

use std::time::{Duration, Instant};

use herma_model::{MessageStatus, TurnState};
use herma_store::Store;
use herma_store::contract::World;
use herma_store::contract::fixture::{queued, running, text_of, texts};
use herma_store_sqlite::SqliteStore;

use crate::child::{Process, Role, SHARED, TURNS};
use crate::database::{Database, check_file};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_is_taken_over_at_once_with_what_it_had_shown() {
    let database = Database::new();
    let world = database.world().await;
    let mine = world.start(&world.one, "mine", "hello").await;
    let mut holder = Process::start(Role::Hold, &database.path());
    assert_eq!(holder.next_report().as_deref(), Some("holding"));
    let waiting = world.queue(&world.one, world.ask("trip", "second")).await;
    queued(world.admit(&world.one, waiting.clone()).await);
    let first = world.read("trip").await.unwrap().messages[0].turn;
    assert_eq!(world.turn(first).await.unwrap().state, TurnState::Running, "it lives");

    holder.kill();
    let killed = Instant::now();
    let second = running(world.admit(&world.one, waiting).await);
    assert!(killed.elapsed() < Duration::from_secs(1));
    world.answer(&world.one, &second, "two").await;
    let snapshot = world.read("trip").await.unwrap();
    assert_eq!(texts(&snapshot), ["first", "it was so", "second", "two"]);
    assert_eq!(snapshot.messages[1].said.status, MessageStatus::Partial);
    assert_eq!(snapshot.unanswered[&first].state, TurnState::Interrupted);

    assert_eq!(world.turn(mine.turn).await.unwrap().state, TurnState::Running, "the other's turn is untouched");
    world.answer(&world.one, &mine, "hi").await;
    world.holds_together().await;
    check_file(&database.path());
    assert_eq!(
        std::fs::read_dir(database.path().with_extension("db-instances")).unwrap().count(),
        0,
        "no lock is left"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_at_any_append_loses_none_that_was_acknowledged() {
    for heard in 0..6 {
        let database = Database::new();
        let mut process = Process::start(Role::Append, &database.path());
        for nth in 0..=heard {
            assert_eq!(process.next_report(), Some(format!("part {nth}")));
        }
        let acknowledged = heard + 1 + process.kill().len();
        let world = database.world().await;
        world.talk(&world.one, "trip", "second", "two").await;
        let turn = world.read("trip").await.unwrap().messages[0].turn;
        let record = world.turn(turn).await.unwrap();
        assert_eq!(record.state, TurnState::Interrupted);
        let (whole, shown): (Vec<_>, Vec<_>) =
            record.said().partition(|message| message.said.status == MessageStatus::Complete);
        let texts: Vec<_> = whole.iter().map(|message| text_of(message.said.payload.as_json())).collect();
        assert_eq!(texts, (0..whole.len()).map(|nth| format!("part {nth}")).collect::<Vec<_>>());
        assert!(whole.len() >= acknowledged, "{} of {acknowledged}", whole.len());
        assert!(shown.len() <= 1, "what was shown of the next one");
        world.holds_together().await;
        check_file(&database.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_turn_is_recorded_without_another_request() {
    let database = Database::new();
    let world = database.world().await;
    let mut holder = Process::start(Role::Hold, &database.path());
    assert_eq!(holder.next_report().as_deref(), Some("holding"));
    let first = world.read("trip").await.unwrap().messages[0].turn;
    holder.kill();
    let killed = Instant::now();
    while world.turn(first).await.unwrap().state != TurnState::Interrupted {
        assert!(killed.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_comes_and_goes_leaves_the_others_log_alone() {
    let database = Database::new();
    let world = database.world().await;
    for turns in 0..4_usize {
        assert_eq!(Process::start(Role::Visit, &database.path()).finish(), [(2 * turns).to_string()]);
        world.talk(&world.one, "trip", "hello", "hi").await;
    }
    world.holds_together().await;
    check_file(&database.path());
}

/// Without this lock, the SQLite of another program would think that it is the last user and remove the log.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_holds_sqlites_lock_as_long_as_it_is_open() {
    use std::os::unix::fs::MetadataExt;
    let database = Database::new();
    let world = database.world().await;
    let inode = std::fs::metadata(database.path()).unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let own = format!(" {} ", std::process::id());
    assert!(locks.lines().any(|lock| lock.contains(&own) && lock.contains(&format!(":{inode} "))), "{locks}");
    world.holds_together().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_to_the_file_is_the_same_store() {
    let database = Database::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    let world = database.world().await;
    std::os::unix::fs::symlink(database.path(), &link).unwrap();
    let linked = SqliteStore::open(&link).unwrap();
    let first = world.start(&world.one, "trip", "first").await;
    queued(world.admit(&linked, world.ask("trip", "second")).await);
    world.answer(&world.one, &first, "one").await;
    linked.close().await;
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing is put beside the link");
    world.holds_together().await;
    check_file(&database.path());
}

#[test]
fn processes_that_make_the_file_at_once_make_one() {
    for _ in 0..3 {
        let database = Database::new();
        for process in [(); 6].map(|()| Process::start(Role::Visit, &database.path())) {
            assert_eq!(process.finish(), ["0"]);
        }
        check_file(&database.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_write_at_once_leave_one_transcript() {
    let database = Database::new();
    let talkers = [(); 2].map(|()| Process::start(Role::Talk, &database.path()));
    for talker in talkers {
        talker.finish();
    }
    let world = World::new(&database).await;
    let mut turns = 0;
    for name in SHARED {
        let row = world.row(name).await.unwrap();
        assert_eq!(row.message_count, 2 * row.turn_count);
        turns += usize::try_from(row.turn_count).unwrap();
    }
    assert_eq!(turns, 2 * TURNS);
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_store_ends_its_running_turns() {
    let database = Database::new();
    let world = database.world().await;
    let store = SqliteStore::open(&database.path()).unwrap();
    world.start(&store, "trip", "first").await;
    queued(world.admit(&world.one, world.ask("trip", "waits")).await);
    drop(store);
    let dropped = Instant::now();
    loop {
        let row = world.row("trip").await.unwrap();
        if !row.running {
            break;
        }
        assert!(dropped.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
