//! Finds what is remembered about a session key.
//!
//! Every word is looked up by itself, under the term of the key, newest rows first. A row's score is the sum of the
//! weights of the words that led to it, and a word that leads to few rows weighs more. So no text is read before the
//! best rows are known, and the cost does not grow with the size of the memory.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use herma_model::{ConversationId, MessageId, Role, Seq, SessionKind, Timestamp};
use herma_store::search::text_of;
use herma_store::{MemoryQuery, Passage, Remembered};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::memories::{self, MEMORY, StoredMemory};
use crate::search::terms;
use crate::{rewinds, rows};

/// How many of the newest rows of a word are considered.
const NEWEST: usize = 48;
/// The same while a part of the asking conversation may be recalled: then rows that it still shows are among them.
const NEWEST_BESIDE_OWN: usize = 96;
/// How many rows may turn out to be hidden, or to say the same, before no more are read.
const MOST_FRUITLESS: usize = 16;
/// The weight of a word that leads to [`NEWEST`] rows or more.
const COMMON: u32 = 2;

/// Finds facts and passages. The caller holds a read transaction.
pub(crate) fn remember(connection: &Connection, query: &MemoryQuery) -> StoreResult<Remembered> {
    let key = terms::of_key(query.tenant.0, query.session_key.as_str());
    Ok(Remembered { facts: facts(connection, query, &key)?, passages: passages(connection, query, &key)? })
}

/// Facts with some of the words, best first, and then the newest ones.
fn facts(connection: &Connection, query: &MemoryQuery, key: &str) -> StoreResult<Vec<herma_model::Memory>> {
    if query.facts == 0 {
        return Ok(Vec::new());
    }
    let newest: Vec<StoredMemory> = connection
        .prepare_cached(&format!(
            "SELECT {MEMORY} FROM memories m WHERE m.tenant_pk = ?1 AND m.session_key = ?2 ORDER BY m.pk DESC LIMIT ?3"
        ))
        .and_then(|mut select| {
            let asked = params![query.tenant.0, query.session_key.as_str(), query.facts as i64];
            select.query_map(asked, memories::read)?.collect()
        })
        .translated()?;
    let lists = |word: &String| {
        let sql = "SELECT rowid FROM memory_index WHERE memory_index MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
        newest_rows(connection, sql, &terms::under_key(key, word, None), NEWEST)
    };
    let rated = rate(query.words.iter().map(lists), NEWEST)?;
    let mut found = Vec::new();
    for row in rated.iter().take(query.facts) {
        found.extend(match newest.iter().find(|stored| stored.key == row.key) {
            Some(stored) => Some(stored.memory.clone()),
            None => by_key(connection, query, row.key)?,
        });
    }
    let others = newest.into_iter().filter(|stored| !rated.iter().take(query.facts).any(|row| row.key == stored.key));
    found.extend(others.map(|stored| stored.memory));
    found.truncate(query.facts);
    Ok(found)
}

fn by_key(connection: &Connection, query: &MemoryQuery, key: i64) -> StoreResult<Option<herma_model::Memory>> {
    connection
        .prepare_cached(&format!(
            "SELECT {MEMORY} FROM memories m WHERE m.pk = ?1 AND m.tenant_pk = ?2 AND m.session_key = ?3"
        ))
        .and_then(|mut select| {
            let asked = params![key, query.tenant.0, query.session_key.as_str()];
            select.query_row(asked, |row| memories::read(row).map(|stored| stored.memory)).optional()
        })
        .translated()
}

/// Messages with some of the words, best first.
fn passages(connection: &Connection, query: &MemoryQuery, key: &str) -> StoreResult<Vec<Passage>> {
    if query.passages == 0 || query.words.is_empty() {
        return Ok(Vec::new());
    }
    let own: Option<i64> = connection
        .prepare_cached("SELECT pk FROM conversations WHERE id = ?1")
        .and_then(|mut select| {
            select.query_row([query.shown.conversation.uuid().as_bytes()], |row| row.get(0)).optional()
        })
        .translated()?;
    let (except, newest) = match query.shown.hidden_through {
        Some(_) => (None, NEWEST_BESIDE_OWN),
        None => (own, NEWEST),
    };
    let lists = |word: &String| {
        let sql = "SELECT rowid FROM search_index WHERE search_index MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
        newest_rows(connection, sql, &terms::under_key(key, word, except), newest)
    };
    let rated = rate(query.words.iter().map(lists), newest)?;
    let least = rated.first().map_or(0, |best| best.score / 2);
    let mut passages = Vec::new();
    // A question that was asked again and again is quoted once.
    let mut known: HashSet<[u8; 16]> = HashSet::new();
    let mut fruitless = 0;
    for row in rated.iter().take_while(|row| row.score >= least) {
        match passage(connection, query, own, row.key, &mut known)? {
            Some(passage) => passages.push(passage),
            None => fruitless += 1,
        }
        if passages.len() == query.passages || fruitless == MOST_FRUITLESS {
            break;
        }
    }
    Ok(passages)
}

/// A row of an index, and how well it matches.
struct RatedRow {
    key: i64,
    score: u32,
}

/// Adds up in how many of the lists each row is. Best first, then newest.
fn rate(lists: impl Iterator<Item = StoreResult<Vec<i64>>>, longest: usize) -> StoreResult<Vec<RatedRow>> {
    let mut scores: HashMap<i64, u32> = HashMap::new();
    for list in lists {
        let list = list?;
        let rareness = (longest / (list.len() + 1)).checked_ilog2().unwrap_or(0);
        for key in list {
            *scores.entry(key).or_default() += COMMON + rareness;
        }
    }
    let mut rated: Vec<RatedRow> = scores.into_iter().map(|(key, score)| RatedRow { key, score }).collect();
    rated.sort_unstable_by_key(|row| Reverse((row.score, row.key)));
    Ok(rated)
}

fn newest_rows(connection: &Connection, sql: &str, expression: &str, limit: usize) -> StoreResult<Vec<i64>> {
    connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_map(params![expression, limit as i64], |row| row.get(0))?.collect())
        .translated()
}

/// The message with this key, if it may be recalled.
fn passage(
    connection: &Connection,
    query: &MemoryQuery,
    own: Option<i64>,
    key: i64,
    known: &mut HashSet<[u8; 16]>,
) -> StoreResult<Option<Passage>> {
    let found = connection
        .prepare_cached(
            "SELECT m.id, m.role, m.payload, m.created_at, m.seq, c.pk, c.id, c.rewinds, c.origin_kind, r.recorded,
             m.digest
             FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
             CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN recalls r ON r.turn_pk = m.turn_pk
             WHERE m.pk = ?1 AND m.compaction_pk IS NULL AND m.status = 'complete' AND m.role <> 'tool'
             AND c.tenant_pk = ?2 AND c.session_key = ?3 AND c.deleted = 0",
        )
        .and_then(|mut select| {
            let asked = params![key, query.tenant.0, query.session_key.as_str()];
            select.query_row(asked, |row| read(row, query, own, known)).optional()
        })
        .translated()?;
    Ok(found.flatten())
}

/// `None` if the message was rewound, is still shown, says what is known, or belongs to a turn that is not recorded.
fn read(
    row: &Row<'_>,
    query: &MemoryQuery,
    own: Option<i64>,
    known: &mut HashSet<[u8; 16]>,
) -> rusqlite::Result<Option<Passage>> {
    let seq = Seq(row.get(4)?);
    let is_shown = own == Some(row.get(5)?) && query.shown.hidden_through.is_none_or(|hidden| seq > hidden);
    let recorded: Option<bool> = row.get(9)?;
    let is_recorded = match recorded {
        Some(recorded) => recorded,
        None => rows::word(row, 8, SessionKind::parse)?.is_user_facing(),
    };
    if is_shown || !is_recorded || rewinds::read(row, 7)?.hide(seq) || !known.insert(row.get(10)?) {
        return Ok(None);
    }
    let text = text_of(row.get_ref(2)?.as_str()?);
    let passage = Passage {
        conversation: ConversationId::from_uuid(rows::uuid(row, 6)?),
        message: MessageId::from_uuid(rows::uuid(row, 0)?),
        role: rows::word(row, 1, Role::parse)?,
        created_at: Timestamp(row.get(3)?),
        text,
    };
    Ok((!passage.text.trim().is_empty()).then_some(passage))
}
