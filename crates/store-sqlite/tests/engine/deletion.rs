//! What the file still contains after a deletion.

use std::path::Path;
use std::time::{Duration, Instant};

use herma_model::{Alias, ApprovalChoice, MemoryId, MemorySource, OwnCall, SessionKey, SessionKind, TurnState};
use herma_store::contract::deleting_sources::family;
use herma_store::contract::fixture::running;
use herma_store::contract::idempotency::with_key;
use herma_store::contract::parking::{asked, own_call};
use herma_store::contract::searching::search;
use herma_store::{
    Admission, AskedBy, AskedCall, Change, Children, DeleteOutcome, EraseOutcome, Erasure, Extent, Facts, NewMemory,
    Park, Question, Store,
};
use rusqlite::Connection;

use crate::database::{Database, check_file, number};

/// The tables that still have rows of conversations, with the number of rows. Events about deletions do not count.
/// For the search index, the indexed rows count.
fn rows(path: &Path) -> Vec<(String, i64)> {
    let connection = Connection::open(path).unwrap();
    let tables: Vec<String> = connection
        .prepare(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
             AND name NOT IN ('tenants', 'api_keys', 'instances', 'migrations', 'search_state', 'memory_state',
             'reading_state', 'expiry', 'erasures', 'turn_numbers', 'outbox_state',
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
            check_file(&database.path());
        }
        world.holds_together().await;
        assert_eq!(rows(&database.path()), [], "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_that_made_a_deleted_conversation_is_in_no_file() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let calls = [rare_word(), rare_word()];
    for (to, call) in ["alone", "inherited"].iter().zip(&calls) {
        let mut new = world.declared(Some(to), SessionKind::Auxiliary, Some("trip"));
        new.creation.parent_tool_call = Some(call.as_str().into());
        world.one.create(new).await.unwrap();
        world.talk(&world.one, to, "look", "found").await;
    }
    world.branch_named("inherited", "twig").await;
    for to in ["alone", "inherited"] {
        assert!(matches!(world.delete(to).await, DeleteOutcome::Deleted(_)));
    }
    wait_until_gone(&database.path(), &calls).await;
    world.holds_together().await;
}

/// The words that some file of the directory still contains. The index does not store the prefix that a term shares
/// with the term before it, so this searches only for the end of a word.
fn found_in_files(path: &Path, words: &[String]) -> Vec<String> {
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let contents: Vec<Vec<u8>> = files.filter(|file| file.is_file()).map(|file| std::fs::read(file).unwrap()).collect();
    let texts: Vec<_> = contents.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
    let is_found = |word: &&String| texts.iter().any(|text| text.contains(&word[8..]));
    words.iter().filter(is_found).cloned().collect()
}

/// Waits until no file has any of the words.
async fn wait_until_gone(path: &Path, words: &[String]) {
    let began = Instant::now();
    loop {
        let found = found_in_files(path, words);
        if found.is_empty() {
            return;
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(10), "{} of {} words are left: {found:?}", found.len(), words.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A random word that occurs nowhere else.
fn rare_word() -> String {
    let word = uuid::Uuid::new_v4().simple().to_string();
    word.chars().map(|digit| char::from(b'a' + u8::try_from(digit.to_digit(16).unwrap()).unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_text_is_in_no_file_a_few_seconds_later() {
    let database = Database::new();
    let world = database.world().await;
    let (question, answer, shown, title) = (rare_word(), rare_word(), rare_word(), rare_word());
    let turn = world.start(&world.one, "trip", &question).await;
    world.one.journal(turn.lease, herma_store::contract::fixture::noted(&shown)).wait().await.unwrap();
    world.answer(&world.one, &turn, &answer).await;
    world.describe("trip", Change { title: Some(Some(title.clone())), ..Change::default() }).await;
    world.talk(&world.one, "other", "hello", "hi").await;
    world.one.index_all().await.unwrap();
    let words = [question, answer, shown, title];
    assert_ne!(found_in_files(&database.path(), &words), <[String; 0]>::default());
    world.delete("trip").await;
    wait_until_gone(&database.path(), &words).await;
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_a_parked_turn_and_its_grants() {
    let database = Database::new();
    let world = database.world().await;
    let (request, arguments, tool) = (rare_word(), rare_word(), rare_word());
    let turn = world.start(&world.one, "trip", "write it down").await;
    let call = OwnCall { tool: tool.as_str().into(), ..own_call("a") };
    let question = AskedCall { arguments: arguments.as_str().into(), ..asked(&call) };
    let asks = vec![question, asked(&own_call("b"))];
    let park = Park { lease: turn.lease, request: request.clone(), asks, now: world.now() };
    world.one.park(park).await.unwrap();
    world.reply(&world.one, turn.turn, Question::Oldest, ApprovalChoice::Session).await;
    let words = [request, arguments, tool];
    assert_ne!(found_in_files(&database.path(), &words), <[String; 0]>::default());
    assert_eq!(world.delete("trip").await, DeleteOutcome::Deleted(turn.facts.id));
    assert_eq!(rows(&database.path()), []);
    wait_until_gone(&database.path(), &words).await;
    world.holds_together().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_parked_leaves_no_question_however_it_ends() {
    for end in 0..4 {
        let database = Database::new();
        let world = database.world().await;
        let turn = world.parked(&world.one, "trip", &["a", "b"]).await.turn;
        match end {
            0 => {
                let resumed = world.allowed(&world.two, turn).await;
                world.complete(&world.two, &resumed.running, 1, "written").await;
            }
            1 => {
                let resumed = world.allowed(&world.two, turn).await;
                world.two.retract(resumed.running.lease).await.unwrap();
            }
            2 => {
                let resumed = world.allowed(&world.two, turn).await;
                world.two.abandon(resumed.running.lease);
                world.settle(&world.two).await;
            }
            _ => {
                world.two.stop(&world.scope, turn, Duration::ZERO, world.now()).await.unwrap();
            }
        }
        let left = rows(&database.path());
        let of_parking = ["parked_turns", "approvals", "grants"];
        assert!(left.iter().all(|(table, _)| !of_parking.contains(&table.as_str())), "{end}: {left:?}");
        world.holds_together().await;
        check_file(&database.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_message_is_in_no_file_a_few_seconds_later() {
    let database = Database::new();
    let world = database.world().await;
    let word = rare_word();
    world.talk(&world.one, "trip", &word, "yes").await;
    world.one.index_all().await.unwrap();
    world.remove("trip", 0).await;
    wait_until_gone(&database.path(), &[word]).await;
    world.holds_together().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_text_of_any_length_among_others_is_in_no_file() {
    let database = Database::new();
    let world = database.world().await;
    let mut words = Vec::new();
    for round in 0..40 {
        for name in ["kept", "gone", "kept-too", "gone-too"] {
            let word = rare_word();
            let text = format!("{word} {}", "filler ".repeat((round * 37) % 700));
            world.talk(&world.one, name, &text, "yes").await;
            if name.starts_with("gone") {
                words.push(word);
            }
        }
    }
    world.one.index_all().await.unwrap();
    world.delete("gone").await;
    world.delete("gone-too").await;
    wait_until_gone(&database.path(), &words).await;
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_words_that_many_messages_had_are_in_no_file() {
    let database = Database::new();
    let world = database.world().await;
    let words: Vec<String> = (0..16).map(|_| rare_word()).collect();
    // Half of the messages are indexed before these words are known to be common, half of them after.
    for _ in 0..2 {
        for _ in 0..20 {
            world.talk(&world.one, "trip", &words.join(" "), &words.join(", ")).await;
            world.talk(&world.one, "other", "hello", "hi").await;
        }
        world.one.index_all().await.unwrap();
    }
    let listed = |word: &String| {
        let sql = format!("SELECT count(*) FROM search_common WHERE word = '{word}'");
        number(&database.path(), &sql) == 1
    };
    assert!(words.iter().all(listed), "they are in the list of common words");
    assert!(world.found(&world.scope, search(&words[0][4..20])).await.len() > 1);
    world.delete("trip").await;
    wait_until_gone(&database.path(), &words).await;
    assert!(!words.iter().any(listed));
    world.holds_together().await;
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_writes_for_a_deleted_conversation_are_not_kept() {
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
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retracted_branch_removes_the_deleted_source_that_was_kept_for_it() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_that_are_kept_no_longer_say_where_they_come_from() {
    let database = Database::new();
    let world = database.world().await;
    for (to, has_branch) in [("alone", false), ("inherited", true)] {
        let turn = world.talk(&world.one, to, "hello", "hi").await;
        if has_branch {
            world.branch_named(to, "twig").await;
        }
        let fact = NewMemory {
            id: MemoryId::from_uuid(uuid::Uuid::now_v7()),
            tenant: world.scope.tenant,
            session_key: SessionKey::parse("ann").unwrap(),
            text: to.into(),
            source: MemorySource::Summary,
            conversation: Some(turn.facts.id),
            now: world.now(),
        };
        let stored = world.one.add_memory(fact).await.unwrap();
        assert_eq!(stored.conversation, Some(turn.facts.id));
        let erasure = Erasure::Conversation(Alias::parse(to).unwrap(), Children::Keep, Facts::Keep);
        let outcome = world.one.erase(&world.scope, erasure, AskedBy(None), world.now()).await.unwrap();
        let EraseOutcome::Erased(receipt) = outcome else { panic!("{outcome:?}") };
        assert_eq!((receipt.removed.memories, receipt.left, receipt.kept), (0, 0, if has_branch { 2 } else { 0 }));
        let kept = world.one.memory(&world.scope, stored.id).await.unwrap().unwrap();
        assert_eq!((&*kept.text, kept.conversation), (to, None));
    }
}
