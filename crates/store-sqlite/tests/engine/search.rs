//! The search index: when it is written, how large it is, and how it is read.

use std::path::Path;

use herma_model::CompactionId;
use herma_store::contract::World;
use herma_store::contract::searching::{search, snippet};
use herma_store::{Change, Grouping, Search, Store};
use herma_store_sqlite::SqliteStore;
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::database::{Database, check_file, number, until_zero};

/// How many messages wait to be indexed.
const NOT_INDEXED: &str = "SELECT (SELECT coalesce(max(pk), 0) FROM messages) - through FROM search_state";

async fn found(world: &World<SqliteStore>, typed: &str) -> Vec<String> {
    let mut found = world.found(&world.scope, search(typed)).await;
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_is_written_in_the_background_when_the_store_is_idle() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "the harbour", "fog").await;
    assert_eq!(number(&database.path(), NOT_INDEXED), 2, "the turn does not write the index");
    until_zero(&database.path(), NOT_INDEXED).await;
    assert_eq!(found(&world, "harbour").await, ["the [harbour]"]);
    world.talk(&world.one, "trip", "another harbour", "fog").await;
    assert_eq!(found(&world, "harbour").await, ["another [harbour]", "the [harbour]"]);
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_is_written_while_turns_run() {
    let database = Database::new();
    let world = database.world().await;
    let running = world.start(&world.one, "story", "tell me a long story").await;
    world.talk(&world.one, "trip", "the harbour", "fog").await;
    until_zero(&database.path(), NOT_INDEXED).await;
    assert_eq!(found(&world, "harbour").await, ["the [harbour]"]);
    world.answer(&world.one, &running, "the end").await;
    assert_eq!(found(&world, "end").await, ["the [end]"]);
    check_file(&database.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_from_before_the_clock_was_set_back_does_not_stop_the_index() {
    let database = Database::new();
    let world = database.world().await;
    let claim = "UPDATE search_state SET owner = 1, claimed_until = (unixepoch() + 86400) * 1000";
    assert_eq!(Connection::open(database.path()).unwrap().execute(claim, []).unwrap(), 1);
    world.talk(&world.one, "trip", "the harbour", "fog").await;
    until_zero(&database.path(), NOT_INDEXED).await;
    assert_eq!(found(&world, "harbour").await, ["the [harbour]"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_are_found_as_they_are_now() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "the harbour", "fog").await;
    world.talk(&world.one, "other", "the lighthouse", "dark").await;
    let titled = async |title: Option<&str>| {
        world.describe("trip", Change { title: Some(title.map(str::to_owned)), ..Change::default() }).await
    };
    for indexed in [false, true] {
        for (title, finds) in [
            (Some("Hafenrundfahrt in Kiel"), ["[Hafenrundfahrt] in Kiel"].as_slice()),
            (Some("Die große Hafenrundfahrt"), &["Die große [Hafenrundfahrt]"]),
            (None, &[]),
        ] {
            titled(title).await;
            if indexed {
                world.one.index_all().await.unwrap();
            }
            assert_eq!(found(&world, "hafenrundfahrt").await, finds, "indexed: {indexed}");
            assert_eq!(found(&world, "rundfahr").await.len(), finds.len(), "indexed: {indexed}");
            check_file(&database.path());
        }
    }
    titled(Some("harbour")).await;
    let once = Search { grouping: Grouping::Conversation, now: world.now(), ..search("harbour") };
    let page = world.two.search(&world.scope, once.clone()).await.unwrap();
    let shown: Vec<_> = page.hits.iter().map(|hit| (snippet(hit), hit.message.is_none())).collect();
    assert_eq!(shown, [("[harbour]".to_owned(), true)], "a title is a hit of its conversation");
    assert!(world.two.search(&world.stranger, once).await.unwrap().hits.is_empty());
    world.delete("trip").await;
    assert!(found(&world, "harbour").await.is_empty());
    check_file(&database.path());
}

/// Writes many messages straight into the file. Each contains `the`, three contain `zanzibar`. Returns the bytes of
/// all texts.
fn fill(path: &Path, conversations: i64, messages: i64) -> i64 {
    let mut connection = Connection::open(path).unwrap();
    let transaction = connection.transaction().unwrap();
    let mut text_bytes = 0;
    let first: i64 = transaction.query_row("SELECT max(pk) + 1 FROM conversations", [], |row| row.get(0)).unwrap();
    let mut random = 1_u64;
    for conversation in first..first + conversations {
        let id = CompactionId::from_uuid(Uuid::now_v7()).to_string();
        transaction
            .execute(
                "INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, origin_kind, source, version,
                 fence, next_seq, message_count, created_at, updated_at)
                 VALUES (?1, 1, randomblob(16), ?1, ?1, 'main', 'api', 1, 1, ?2 + 1, ?2, 1, 1)",
                params![conversation, messages],
            )
            .unwrap();
        transaction
            .execute(
                "INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, creator_kind, created_at)
                 VALUES (?1, 1, ?1, ?2, 'main', 0, 'api', 1)",
                params![conversation, id],
            )
            .unwrap();
        for seq in 1..=messages {
            let mut text = String::from("the");
            for _ in 0..80 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Some words are much more frequent than others, as in a language.
                let word = ((random >> 33) as f64 / f64::from(u32::MAX / 2)).powi(4) * 20_000.0;
                text.push(' ');
                text.push_str(&word_of(word as u64));
            }
            if conversation == first && seq <= 3 {
                text.push_str(" zanzibar");
            }
            text_bytes += text.len() as i64;
            transaction
                .execute(
                    "INSERT INTO messages (session_pk, seq, id, turn_pk, attempt, role, status, payload,
                     digest, tokens, created_at)
                     VALUES (?1, ?2, randomblob(16), 1, 1, 'user', 'complete',
                     json_object('role', 'user', 'content', ?3), randomblob(16), 7, ?2)",
                    params![conversation, seq, text],
                )
                .unwrap();
        }
    }
    transaction.commit().unwrap();
    text_bytes
}

/// A word for a number. Different numbers give different words.
fn word_of(mut number: u64) -> String {
    let mut word = String::new();
    loop {
        word.push(char::from(b"bdfgklmnprst"[(number % 12) as usize]));
        word.push(char::from(b"aeiou"[(number / 12 % 5) as usize]));
        number /= 60;
        if number == 0 {
            return word;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_is_at_most_four_times_the_text_and_a_common_word_finds_every_conversation_once() {
    let database = Database::new();
    let world = database.world().await;
    world.talk(&world.one, "trip", "hello", "hi").await;
    let text = fill(&database.path(), 60, 100);
    world.one.index_all().await.unwrap();
    assert_eq!(number(&database.path(), NOT_INDEXED), 0);
    let pages = "SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)
         - (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size)";
    let size = number(&database.path(), pages);
    assert!(size < 4 * text, "{size} bytes for {text} bytes of text");
    assert_eq!(found(&world, "zanzibar").await.len(), 3);
    assert_eq!(found(&world, "anziba").await.len(), 3);
    let once = Search { limit: 20, grouping: Grouping::Conversation, now: world.now(), ..search("the") };
    let mut seen = std::collections::HashSet::new();
    let mut after = None;
    loop {
        let page = world.two.search(&world.scope, Search { after, ..once.clone() }).await.unwrap();
        for hit in &page.hits {
            assert!(seen.insert(hit.conversation), "a conversation comes once");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 60, "through all windows");
}

#[test]
fn no_search_goes_through_all_messages() {
    let database = Database::new();
    drop(SqliteStore::open(&database.path()).unwrap());
    let connection = Connection::open(database.path()).unwrap();
    for sql in [
        "SELECT rowid FROM search_index WHERE search_index MATCH 'x' AND rowid > 1 AND rowid <= 9
         ORDER BY rowid DESC LIMIT 5",
        "SELECT -rowid FROM search_index WHERE search_index MATCH 'x' AND rowid >= -9 AND rowid < 0
         ORDER BY rowid LIMIT 5",
    ] {
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> = explain.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        let [step] = plan.as_slice() else { panic!("more than one step: {plan:?}") };
        assert!(step.starts_with("SCAN search_index VIRTUAL TABLE INDEX") && step.contains('M'), "{step}");
    }
}
