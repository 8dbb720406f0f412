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
    let rated = scores.best(query.facts);
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
    // No more than these are looked at.
    let rated = scores.best(query.passages + MOST_FRUITLESS);
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

/// What the words add to the score of each row. Newest first.
#[derive(Default)]
struct Scores(Vec<RatedRow>);

impl Scores {
    /// Adds the `count` rows of a word, which come newest first. A list has at most `longest` rows.
    fn add(&mut self, keys: impl Iterator<Item = i64>, count: usize, longest: usize) {
        let rareness = (longest / (count + 1)).checked_ilog2().unwrap_or(0);
        let score = COMMON + rareness;
        let mut merged = Vec::with_capacity(self.0.len() + count);
        let mut before = std::mem::take(&mut self.0).into_iter().peekable();
        for key in keys {
            while let Some(newer) = before.next_if(|row| row.key > key) {
                merged.push(newer);
            }
            let known = before.next_if(|row| row.key == key).map_or(0, |row| row.score);
            merged.push(RatedRow { key, score: known + score });
        }
        merged.extend(before);
        self.0 = merged;
    }

    /// The best `count` rows, best first, then newest.
    fn best(self, count: usize) -> Vec<RatedRow> {
        let Self(mut rows) = self;
        if (1..rows.len()).contains(&count) {
            let mut scores: Vec<u32> = rows.iter().map(|row| row.score).collect();
            let (better, &mut least, _) = scores.select_nth_unstable_by_key(count - 1, |score| Reverse(*score));
            let mut equal = count - better.iter().filter(|score| **score > least).count();
            rows.retain(|row| {
                let is_kept = row.score > least || (row.score == least && equal > 0);
                equal -= usize::from(is_kept && row.score == least);
                is_kept
            });
        }
        // The sort is stable, so newer rows stay before older ones.
        rows.sort_by_key(|row| Reverse(row.score));
        rows.truncate(count);
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn rows_are_ranked_by_the_sum_of_their_scores_and_then_by_age() {
        let mut random = 7_u64;
        for length in [0, 1, 3, 20, 48] {
            let mut scores = Scores::default();
            let mut sums: BTreeMap<i64, u32> = BTreeMap::new();
            for _ in 0..5 {
                let mut keys: Vec<i64> = (0..length)
                    .map(|_| {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        i64::try_from(random >> 58).unwrap()
                    })
                    .collect();
                keys.sort_unstable_by_key(|key| Reverse(*key));
                keys.dedup();
                let rareness = (NEWEST / (keys.len() + 1)).checked_ilog2().unwrap_or(0);
                keys.iter().for_each(|key| *sums.entry(*key).or_default() += COMMON + rareness);
                scores.add(keys.iter().copied(), keys.len(), NEWEST);
            }
            let mut all: Vec<(i64, u32)> = sums.into_iter().collect();
            all.sort_by_key(|(key, score)| (Reverse(*score), Reverse(*key)));
            for count in [0, 1, 2, 12, 22, 64, 500] {
                let again = Scores(scores.0.iter().map(|row| RatedRow { key: row.key, score: row.score }).collect());
                let best: Vec<(i64, u32)> = again.best(count).iter().map(|row| (row.key, row.score)).collect();
                assert_eq!(best, all[..count.min(all.len())], "{length} {count}");
            }
        }
    }
}
