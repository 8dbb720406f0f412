//! Random texts, changes and deletions: every search finds what a plain scan finds, and the index has exactly the terms
//! of its rows.

use std::collections::{BTreeMap, BTreeSet};

use herma_model::{KeyScope, TenantId, Timestamp};
use herma_store::Scope;
use herma_store::search::{Grouping, Manner, Search, SearchFilter, Stage, Wanted, fold, text_of};
use proptest::prelude::*;
use rusqlite::{Connection, params};

use super::batch::{Batch, BatchLimit, next};
use super::candidates::Candidates;
use super::common::{Limits, Vocabulary};
use super::terms::RowOwner;
use super::write;

/// Words that share parts. The last ones are never common: they have digits, are as long as a cut word or longer, or
/// are of a script without spaces.
const WORDS: [&str; 20] = [
    "light",
    "lighthouse",
    "Houses",
    "light",
    "house",
    "housing",
    "a",
    "go",
    "ago",
    "Zoë",
    "ключи",
    "включить",
    "ananas",
    "banana",
    "topic1",
    "topic12",
    "pneumonoultramicroscopicsilicovolcanoconi",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "東京都",
    "京都",
];

const SEARCHES: [&str; 34] = [
    "light",
    "lighthouse",
    "house",
    "hous",
    "ous",
    "igh",
    "ghth",
    "housi",
    "ago",
    "go",
    "a",
    "a*",
    "l*",
    "li*",
    "lig*",
    "h*",
    "ho*",
    "house*",
    "z*",
    "zo*",
    "zoe",
    "клю",
    "ключи",
    "вк*",
    "nan",
    "ananas",
    "pic1",
    "topic1*",
    "silico",
    "\"light house\"",
    "\"ght hou\"",
    "\"go ago\"*",
    "京都",
    "house OR nan -light",
];

/// So few that words become common, lose their place and come back all the time.
const FEW: Limits = Limits { rows: 2, missed: 2, words: 5, with_part: 2, counted: 12 };

#[derive(Debug, Clone)]
enum Step {
    Say(Vec<usize>),
    Change(usize, Vec<usize>),
    Delete(usize),
    DeleteNewest,
    /// Everything with this word is deleted.
    DeleteWord(usize),
    Title(Option<Vec<usize>>),
    Key(bool),
    /// One of two processes makes a batch.
    Read(usize),
    /// It writes the batch, if it has one.
    Write(usize),
    /// One of them indexes everything.
    Index(usize),
    /// One of them is started again.
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let words = || prop::collection::vec(0..WORDS.len(), 0..6);
    prop_oneof![
        8 => words().prop_map(Step::Say),
        2 => (0..20_usize, words()).prop_map(|(row, words)| Step::Change(row, words)),
        2 => (0..20_usize).prop_map(Step::Delete),
        1 => Just(Step::DeleteNewest),
        1 => (0..WORDS.len()).prop_map(Step::DeleteWord),
        1 => prop::option::of(words()).prop_map(Step::Title),
        1 => any::<bool>().prop_map(Step::Key),
        3 => (0..2_usize).prop_map(Step::Read),
        3 => (0..2_usize).prop_map(Step::Write),
        4 => (0..2_usize).prop_map(Step::Index),
        1 => (0..2_usize).prop_map(Step::Restart),
    ]
}

fn text(words: &[usize]) -> String {
    words.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ")
}

fn payload(words: &[usize]) -> String {
    format!(r#"{{"role":"user","content":"{}"}}"#, text(words))
}

struct World {
    connection: Connection,
    processes: [(Vocabulary, Option<Batch>); 2],
}

impl World {
    fn new() -> Self {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::migrations::run(&mut connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO tenants (pk, name, created_at) VALUES (1, 'tenant', 1);
                 INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, origin_kind, source, version, fence,
                 next_seq, created_at, updated_at)
                     VALUES (1, 1, zeroblob(16), 1, 1, 'main', 'api', 1, 1, 4, 1, 1);
                 INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, creator_kind, created_at)
                     VALUES (1, 1, 1, 'trip', 'main', 0, 'api', 1);
                 CREATE VIRTUAL TABLE temp.index_terms USING fts5vocab(main, search_index, row);",
            )
            .unwrap();
        Self { connection, processes: [(Vocabulary::with(FEW), None), (Vocabulary::with(FEW), None)] }
    }

    fn run(&mut self, sql: &str, with: impl rusqlite::Params) {
        self.connection.execute(sql, with).unwrap();
    }

    fn take(&mut self, step: &Step) {
        let nth = "(SELECT pk FROM messages ORDER BY pk LIMIT 1 OFFSET ?1 % max(1, (SELECT count(*) FROM messages)))";
        match step {
            Step::Say(words) => self.run(
                "INSERT INTO messages (session_pk, seq, id, turn_pk, attempt, role, status, payload, digest, tokens,
                 created_at) VALUES (1, (SELECT coalesce(max(seq), 0) + 1 FROM messages), randomblob(16), 1, 1, 'user',
                 'complete', ?1, randomblob(16), 1, 1)",
                [payload(words)],
            ),
            Step::Change(row, words) => self.run(
                &format!("UPDATE messages SET payload = ?2, digest = randomblob(16) WHERE pk = {nth}"),
                params![*row as i64, payload(words)],
            ),
            Step::Delete(row) => self.run(&format!("DELETE FROM messages WHERE pk = {nth}"), [*row as i64]),
            Step::DeleteNewest => self.run("DELETE FROM messages WHERE pk = (SELECT max(pk) FROM messages)", []),
            Step::DeleteWord(word) => self.run("DELETE FROM messages WHERE instr(payload, ?1) > 0", [WORDS[*word]]),
            Step::Title(words) => {
                self.run("UPDATE conversations SET title = ?1", [words.as_ref().map(|words| text(words))]);
            }
            Step::Key(key) => self.run("UPDATE conversations SET session_key = ?1", [key.then_some("mine")]),
            Step::Read(process) => {
                let (vocabulary, batch) = &mut self.processes[*process];
                *batch = next(&self.connection, vocabulary, BatchLimit::SMALL).unwrap();
            }
            Step::Write(process) => {
                if let Some(batch) = self.processes[*process].1.take() {
                    write(&self.connection, &batch, 1, Timestamp(1)).unwrap();
                }
            }
            Step::Index(process) => {
                let vocabulary = &mut self.processes[*process].0;
                while let Some(batch) = next(&self.connection, vocabulary, BatchLimit::SMALL).unwrap() {
                    assert!(write(&self.connection, &batch, 1, Timestamp(1)).unwrap().is_some());
                }
                self.has_exactly_its_terms();
            }
            Step::Restart(process) => self.processes[*process] = (Vocabulary::with(FEW), None),
        }
    }

    fn rows(&self) -> Vec<(i64, String)> {
        let mut select = self
            .connection
            .prepare(
                "SELECT pk, payload FROM messages UNION ALL SELECT -pk, title FROM conversations WHERE title NOTNULL",
            )
            .unwrap();
        let rows: Vec<(i64, String)> =
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        rows.into_iter().map(|(key, text)| (key, fold(&if key > 0 { text_of(&text) } else { text }))).collect()
    }

    /// If everything is indexed, the index has the terms of all rows and no others, and every word of the list is of a
    /// row.
    fn has_exactly_its_terms(&self) {
        let mut vocabulary = Vocabulary::with(FEW);
        vocabulary.refresh(&self.connection).unwrap();
        let session_key: Option<String> =
            self.connection.query_row("SELECT session_key FROM conversations", [], |row| row.get(0)).unwrap();
        let mut expected: BTreeMap<String, i64> = BTreeMap::new();
        let mut words = BTreeSet::new();
        for (key, folded) in self.rows() {
            let session_key = session_key.as_deref().filter(|_| key > 0);
            let row = RowOwner { key, tenant: 1, conversation: 1, session_key };
            let line = vocabulary.written_terms(&folded, row);
            let terms: BTreeSet<&str> = line.split_whitespace().collect();
            terms.into_iter().for_each(|term| *expected.entry(term.to_owned()).or_default() += 1);
            words.extend(herma_store::search::words(&folded).map(|word| word.text.to_owned()));
        }
        let mut select = self.connection.prepare("SELECT term, doc FROM index_terms").unwrap();
        let found: BTreeMap<String, i64> =
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, expected);
        let mut listed = self.connection.prepare("SELECT word FROM search_common").unwrap();
        for word in listed.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap) {
            assert!(words.contains(&word), "no row has {word}");
        }
        self.connection.execute("INSERT INTO search_index (search_index) VALUES ('integrity-check')", []).unwrap();
    }

    /// The keys of all hits, those of titles below zero.
    fn found(&self, typed: &str) -> BTreeSet<i64> {
        let mut search = Search {
            wanted: Wanted::parse(typed).unwrap(),
            filter: SearchFilter::default(),
            grouping: Grouping::None,
            after: None,
            limit: 1000,
            now: Timestamp(1),
        };
        let scope = Scope { tenant: TenantId(1), keys: KeyScope::All, expected: None };
        let mut found = BTreeSet::new();
        loop {
            let page = super::page(&self.connection, &scope, &search).unwrap();
            for hit in page.hits {
                let key = hit.message.map_or(-1, |message| {
                    let id = message.id.uuid();
                    let sql = "SELECT pk FROM messages WHERE id = ?1";
                    self.connection.query_row(sql, [id.as_bytes()], |row| row.get(0)).unwrap()
                });
                assert!(found.insert(key), "a hit comes twice");
            }
            search.after = page.next;
            if search.after.is_none() {
                return found;
            }
        }
    }

    fn finds_what_a_scan_finds(&self, typed: &str) {
        let wanted = Wanted::parse(typed).unwrap();
        let of_manner = |manner| {
            let rows = self.rows().into_iter();
            rows.filter(|(_, text)| wanted.rate(text, manner).is_some()).map(|(key, _)| key).collect::<BTreeSet<_>>()
        };
        let (words, parts) = (of_manner(Manner::Words), of_manner(Manner::Parts));
        let hits: BTreeSet<i64> = if wanted.has_parts() { &words | &parts } else { words.clone() };
        let titles: BTreeSet<i64> = (&words | &parts).into_iter().filter(|key| *key < 0).collect();
        let messages = hits.into_iter().filter(|key| *key > 0);
        assert_eq!(self.found(typed), titles.into_iter().chain(messages).collect(), "{typed}");
        // Within one conversation, which a search asks for only after its first window.
        let candidates = Candidates::new(&self.connection, TenantId(1), &wanted).unwrap();
        for (manner, expected) in [(Manner::Words, words), (Manner::Parts, parts)] {
            let yielded = candidates.of_conversation(1, manner, i64::MAX, 0).unwrap();
            let missing = expected.into_iter().find(|key| *key > 0 && !yielded.contains(key));
            assert_eq!(missing, None, "{typed}, {manner:?}");
        }
        assert!(candidates.window(Stage::Words, 0, 0).unwrap().keys.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_search_finds_what_a_plain_scan_finds(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for (number, step) in steps.iter().enumerate() {
            world.take(step);
            // Some of them each time, all of them sooner or later.
            for search in SEARCHES.iter().skip(number % 5).step_by(5) {
                world.finds_what_a_scan_finds(search);
            }
        }
        world.take(&Step::Index(0));
        world.run("DELETE FROM messages", []);
        world.take(&Step::Title(None));
        world.take(&Step::Index(1));
        let left = "SELECT (SELECT count(*) FROM search_common) + (SELECT count(*) FROM index_terms)";
        prop_assert_eq!(world.connection.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}

#[test]
fn words_become_common_and_leave_the_list_with_their_last_row() {
    let mut world = World::new();
    let listed = |world: &World| {
        let mut select = world.connection.prepare("SELECT word, since FROM search_common ORDER BY word").unwrap();
        let list = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        list.map(Result::unwrap).collect::<Vec<(String, i64)>>()
    };
    let say = |world: &mut World, word: &str| {
        let word = WORDS.iter().position(|known| *known == word).unwrap();
        world.take(&Step::Say(vec![word]));
        world.take(&Step::Index(0));
    };
    for _ in 0..3 {
        say(&mut world, "banana");
        say(&mut world, "topic12");
        say(&mut world, "pneumonoultramicroscopicsilicovolcanoconi");
    }
    assert_eq!(listed(&world), [("banana".to_owned(), 7)]);
    say(&mut world, "banana");
    for search in ["banana", "anan", "ban*", "b*", "ba*"] {
        assert_eq!(world.found(search), BTreeSet::from([1, 4, 7, 10]), "{search}");
    }
    let with_part = |world: &World| -> i64 {
        let sql = "SELECT count(*) FROM search_index WHERE search_index MATCH '\u{e002}nan'";
        world.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(with_part(&world), 3, "the last one has no parts in the index");
    // All that is older than the word's entry, then the one that is newer.
    world.run("DELETE FROM messages WHERE pk < 10", []);
    world.take(&Step::Index(1));
    assert_eq!((listed(&world), with_part(&world)), (vec![("banana".to_owned(), 7)], 0));
    world.run("DELETE FROM messages", []);
    world.take(&Step::Index(1));
    assert_eq!(listed(&world), []);
    // It comes back, at a lower key than before.
    for _ in 0..4 {
        say(&mut world, "banana");
    }
    assert_eq!(listed(&world).len(), 1);
    assert_eq!(world.found("nana"), BTreeSet::from([1, 2, 3, 4]));
}

#[test]
fn a_message_is_indexed_if_its_key_was_that_of_an_indexed_one_and_later_ones_were_deleted_before_they_were_indexed() {
    let mut world = World::new();
    world.take(&Step::Say(vec![0]));
    world.take(&Step::Index(0));
    world.take(&Step::Say(vec![0]));
    world.take(&Step::Delete(0));
    world.take(&Step::DeleteNewest);
    world.take(&Step::Say(vec![13]));
    assert_eq!(world.found("banana"), BTreeSet::from([1]));
    world.take(&Step::Index(0));
    assert_eq!(world.found("banana"), BTreeSet::from([1]));
}

#[test]
fn no_part_is_in_more_common_words_than_a_search_asks_for() {
    let mut world = World::new();
    world.processes[0].0 = Vocabulary::with(Limits { words: 4096, counted: 4096, ..FEW });
    for _ in 0..6 {
        world.take(&Step::Say((0..WORDS.len()).collect()));
        world.take(&Step::Index(0));
    }
    let of = |part: &str| -> i64 {
        let sql = "SELECT count(*) FROM search_common WHERE instr(word, ?1) > 0";
        world.connection.query_row(sql, [part], |row| row.get(0)).unwrap()
    };
    assert_eq!((of(""), of("hou"), of("igh"), of("лю")), (10, 2, 1, 2));
    for search in SEARCHES {
        world.finds_what_a_scan_finds(search);
    }
}
