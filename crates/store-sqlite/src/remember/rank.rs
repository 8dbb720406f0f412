//! Ranks what is found: rows with more or rarer words first, then newer ones.

use std::cmp::Reverse;
use std::collections::HashSet;

use herma_model::Memory;
use herma_store::{MemoryQuery, Passage, Remembered};

use super::lookups::{Lookups, NotFound};

/// How many of the newest rows of a word are considered.
pub(super) const NEWEST: usize = 48;
/// The same while rows of the asking conversation may be among them.
pub(super) const NEWEST_BESIDE_OWN: usize = 96;
/// How many rows may turn out to be hidden, or to say the same, before no more are read.
const MOST_FRUITLESS: usize = 16;
/// The weight of a word that leads to [`NEWEST`] rows or more.
const COMMON: u32 = 2;

/// Finds facts and passages.
pub(super) fn remember(lookups: &mut Lookups<'_>, query: &MemoryQuery) -> Result<Remembered, NotFound> {
    Ok(Remembered { facts: facts(lookups, query)?, passages: passages(lookups, query)? })
}

/// Facts with some of the words, best first, and then the newest ones.
fn facts(lookups: &mut Lookups<'_>, query: &MemoryQuery) -> Result<Vec<Memory>, NotFound> {
    if query.facts == 0 {
        return Ok(Vec::new());
    }
    let newest = lookups.newest_facts(query.facts)?;
    let mut scores = Scores::default();
    for word in &query.words {
        let rows = lookups.facts_with(word)?;
        scores.add(rows.iter().copied(), rows.len(), NEWEST);
    }
    let mut rated = scores.best_first();
    rated.truncate(query.facts);
    let mut found = Vec::with_capacity(query.facts);
    for row in &rated {
        found.extend(match newest.iter().find(|stored| stored.key == row.key) {
            Some(stored) => Some(stored.memory.clone()),
            None => lookups.fact(row.key)?.map(|stored| stored.memory.clone()),
        });
    }
    let others = newest.iter().filter(|stored| !rated.iter().any(|row| row.key == stored.key));
    found.extend(others.take(query.facts - found.len()).map(|stored| stored.memory.clone()));
    Ok(found)
}

/// Messages with some of the words, best first.
fn passages(lookups: &mut Lookups<'_>, query: &MemoryQuery) -> Result<Vec<Passage>, NotFound> {
    if query.passages == 0 || query.words.is_empty() {
        return Ok(Vec::new());
    }
    let own = query.shown.conversation;
    let mut scores = Scores::default();
    for word in &query.words {
        let list = lookups.said_with(word, None)?;
        if query.shown.hidden_through.is_some() {
            scores.add(list.rows.iter().map(|row| row.key), list.rows.len(), NEWEST_BESIDE_OWN);
            continue;
        }
        let others = || list.rows.iter().filter(|row| row.conversation != own).map(|row| row.key);
        let count = others().count();
        if count < NEWEST && list.is_cut {
            // The asking conversation has most of the newest rows. Older ones of others are looked for without it.
            let list = lookups.said_with(word, Some(own))?;
            scores.add(list.rows.iter().map(|row| row.key), list.rows.len(), NEWEST);
        } else {
            scores.add(others().take(NEWEST), count.min(NEWEST), NEWEST);
        }
    }
    let rated = scores.best_first();
    let least = rated.first().map_or(0, |best| best.score / 2);
    let mut passages = Vec::with_capacity(query.passages);
    // A question that was asked again and again is quoted once.
    let mut known: HashSet<[u8; 16]> = HashSet::new();
    let mut fruitless = 0;
    for row in rated.iter().take_while(|row| row.score >= least) {
        match lookups.said(row.key)?.filter(|said| !said.is_shown(&query.shown) && known.insert(said.digest)) {
            Some(said) => passages.push(said.passage.clone()),
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

/// What each word adds to the score of a row.
#[derive(Default)]
struct Scores(Vec<RatedRow>);

impl Scores {
    /// Adds the `count` rows of a word. A list has at most `longest` rows.
    fn add(&mut self, keys: impl Iterator<Item = i64>, count: usize, longest: usize) {
        let rareness = (longest / (count + 1)).checked_ilog2().unwrap_or(0);
        self.0.extend(keys.map(|key| RatedRow { key, score: COMMON + rareness }));
    }

    /// Each row once, best first, then newest.
    fn best_first(self) -> Vec<RatedRow> {
        let Self(mut rows) = self;
        rows.sort_unstable_by_key(|row| Reverse(row.key));
        rows.dedup_by(|next, kept| {
            let is_same = next.key == kept.key;
            kept.score += if is_same { next.score } else { 0 };
            is_same
        });
        // The sort is stable, so newer rows stay before older ones.
        rows.sort_by_key(|row| Reverse(row.score));
        rows
    }
}
