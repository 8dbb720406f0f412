//! Common words: those that many messages have.
//!
//! The index has a common word, but not its parts, which would be the same for every message that has the word. A
//! search for a part looks through the list of common words, and asks the index for those that have this part. At most
//! [`Limits::with_part`] of them have the same part, so a search asks for few words.
//!
//! A word is common for messages with keys above its `since`: no message of the index had such a key when the word was
//! added. So the terms of a row depend only on its key and its text. They are made again to remove them from the index.
//! A word leaves the list together with the last row that has it, because it may have been erased.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::{Connection, Row, params};

use super::terms::{self, RowOwner, ShortTerm};
use crate::failure::{StoreResult, Translate};

/// When a word is common.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// A word is common if this many messages had it while this process wrote the index.
    pub(super) rows: u32,
    /// Words are added when those that are common, but not in the list, were written this often with their parts. Every
    /// process reads the list again after that.
    pub(super) missed: u32,
    /// Most words in the list. A search for a part of a word reads all of them.
    pub(super) words: usize,
    /// Most common words that have the same part.
    pub(super) with_part: u8,
    /// Most words that are counted. If there are more, counting starts again.
    pub(super) counted: usize,
}

impl Limits {
    const USUAL: Self = Self { rows: 16, missed: 256, words: 4096, with_part: 24, counted: 16 * 1024 };
}

/// The count of a word that has a part of too many common words.
const NOT_TO_BE_ADDED: u32 = u32::MAX;

struct CommonWord {
    sort_key: u64,
    word: Box<str>,
    since: i64,
}

/// Makes the terms of rows. It knows the common words, and counts the others.
pub(crate) struct Vocabulary {
    limits: Limits,
    /// The value of `common_changes` when the list was read. `None` before that.
    changes: Option<i64>,
    /// The list, in the order of its sort keys: a look-up is cheaper than in a hash table.
    list: Vec<CommonWord>,
    /// How many common words have this part.
    with_part: HashMap<ShortTerm, u8>,
    counts: HashMap<Box<str>, u32>,
    /// How often words that could be in the list were written with their parts.
    missed: u32,
}

impl CommonWord {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let word: Box<str> = row.get(0)?;
        Ok(Self { sort_key: terms::sort_key(&word), word, since: row.get(1)? })
    }

    fn place(&self) -> (u64, &str) {
        (self.sort_key, &self.word)
    }
}

impl Vocabulary {
    pub(crate) fn new() -> Self {
        Self::with(Limits::USUAL)
    }

    pub(super) fn with(limits: Limits) -> Self {
        Self { limits, changes: None, list: Vec::new(), with_part: HashMap::new(), counts: HashMap::new(), missed: 0 }
    }

    /// Reads the list again if it has changed. Returns the number of its changes.
    pub(super) fn refresh(&mut self, connection: &Connection) -> StoreResult<i64> {
        let changes = connection
            .prepare_cached("SELECT common_changes FROM search_state")
            .and_then(|mut select| select.query_row([], |row| row.get(0)))
            .translated()?;
        if self.changes != Some(changes) {
            self.list = connection
                .prepare_cached("SELECT word, since FROM search_common")
                .and_then(|mut select| select.query_map([], CommonWord::read)?.collect())
                .translated()?;
            self.list.sort_unstable_by(|one, other| one.place().cmp(&other.place()));
            self.with_part.clear();
            for CommonWord { word, .. } in &self.list {
                add_parts(&mut self.with_part, terms::parts(word));
            }
            self.changes = Some(changes);
        }
        Ok(changes)
    }

    /// The terms of a row that is not in the index.
    pub(super) fn new_terms(&mut self, folded: &str, row: RowOwner<'_>) -> String {
        terms::of_text(folded, row, |word| {
            let is_common = self.is_common(word, row.key);
            if !is_common && row.key > 0 {
                self.count(word);
            }
            is_common
        })
    }

    /// The terms that the index has of a row.
    pub(super) fn written_terms(&self, folded: &str, row: RowOwner<'_>) -> String {
        terms::of_text(folded, row, |word| self.is_common(word, row.key))
    }

    /// Of the words of a text, those that are in the list.
    pub(super) fn listed<'a>(&'a self, folded: &'a str) -> impl Iterator<Item = &'a str> {
        herma_store::search::words(folded).map(|word| word.text).filter(|word| self.since(word).is_some())
    }

    /// Words to add to the list, if it is time for that.
    pub(super) fn take_found(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        if self.missed < self.limits.missed {
            return found;
        }
        self.missed = 0;
        let mut common: Vec<_> =
            self.counts.iter_mut().filter(|(_, count)| is_frequent(**count, self.limits)).collect();
        common.sort_unstable_by_key(|(word, count)| (Reverse(**count), *word));
        for (word, count) in common {
            let parts = terms::parts(word);
            let has_place = |part| self.with_part.get(part).is_none_or(|words| *words < self.limits.with_part);
            if self.list.len() + found.len() >= self.limits.words || !parts.iter().all(has_place) {
                *count = NOT_TO_BE_ADDED;
                continue;
            }
            add_parts(&mut self.with_part, parts);
            found.push(word.to_string());
        }
        self.counts.retain(|_, count| !is_frequent(*count, self.limits));
        // It is not known whether the words will be added, so the list is read again.
        self.changes = None;
        found
    }

    fn is_common(&self, word: &str, key: i64) -> bool {
        self.since(word).is_some_and(|since| since < key)
    }

    fn since(&self, word: &str) -> Option<i64> {
        let wanted = (terms::sort_key(word), word);
        let found = self.list.binary_search_by(|listed| listed.place().cmp(&wanted)).ok()?;
        self.list.get(found).map(|listed| listed.since)
    }

    fn count(&mut self, word: &str) {
        if let Some(count) = self.counts.get_mut(word) {
            if *count != NOT_TO_BE_ADDED {
                *count += 1;
                self.missed += u32::from(is_frequent(*count, self.limits));
            }
            return;
        }
        if self.list.len() >= self.limits.words {
            return;
        }
        // Numbers and identifiers are many, and few of them become common. A search for a part of a number would go
        // through all numbers. The term of a cut word must not be taken for a common word.
        let is_countable = !word.bytes().any(|byte| byte.is_ascii_digit()) && !terms::may_be_cut(word);
        if !is_countable || self.since(word).is_some() {
            return;
        }
        if self.counts.len() >= self.limits.counted {
            self.counts.clear();
        }
        self.counts.insert(word.into(), 1);
    }
}

const fn is_frequent(count: u32, limits: Limits) -> bool {
    count >= limits.rows && count != NOT_TO_BE_ADDED
}

fn add_parts(with_part: &mut HashMap<ShortTerm, u8>, parts: Vec<ShortTerm>) {
    for part in parts {
        let words = with_part.entry(part).or_default();
        *words = words.saturating_add(1);
    }
}

/// The common words that have this part, or that begin with it.
pub(super) fn with_part(connection: &Connection, part: &str, begin: bool) -> StoreResult<Vec<String>> {
    let sql = if begin {
        "SELECT word FROM search_common WHERE instr(word, ?1) = 1"
    } else {
        "SELECT word FROM search_common WHERE instr(word, ?1) > 0"
    };
    connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_map([part], |row| row.get(0))?.collect())
        .translated()
}

/// Adds those of these words to the list that a message of the index has. No row may wait to be removed from the index:
/// its terms were made with the old list, and its key may be above `search_state.through`.
pub(super) fn add(connection: &Connection, words: &[String]) -> StoreResult<()> {
    let mut is_changed = false;
    for word in words {
        is_changed |= connection
            .prepare_cached(
                "INSERT INTO search_common (word, since) SELECT ?1, through FROM search_state
                 WHERE EXISTS (SELECT 1 FROM search_index WHERE search_index MATCH ?2)
                 ON CONFLICT DO NOTHING",
            )
            .and_then(|mut insert| insert.execute(params![word, terms::quoted(word)]))
            .translated()?
            > 0;
    }
    note_change(connection, is_changed)
}

/// Whether the index has a row with a word, beside those with these keys.
pub(super) fn has_other_row(connection: &Connection, word: &str, keys: &HashSet<i64>) -> StoreResult<bool> {
    let mut select =
        connection.prepare_cached("SELECT rowid FROM search_index WHERE search_index MATCH ?1").translated()?;
    let mut found = select.query([terms::quoted(word)]).translated()?;
    while let Some(row) = found.next().translated()? {
        if !keys.contains(&row.get(0).translated()?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes those of these words from the list that no row of the index has any more.
pub(super) fn remove_unused(connection: &Connection, words: &BTreeSet<String>) -> StoreResult<()> {
    let mut is_changed = false;
    for word in words {
        is_changed |= connection
            .prepare_cached(
                "DELETE FROM search_common
                 WHERE word = ?1 AND NOT EXISTS (SELECT 1 FROM search_index WHERE search_index MATCH ?2)",
            )
            .and_then(|mut delete| delete.execute(params![word, terms::quoted(word)]))
            .translated()?
            > 0;
    }
    note_change(connection, is_changed)
}

fn note_change(connection: &Connection, is_changed: bool) -> StoreResult<()> {
    if is_changed {
        connection
            .prepare_cached("UPDATE search_state SET common_changes = common_changes + 1")
            .and_then(|mut update| update.execute([]))
            .translated()?;
    }
    Ok(())
}
