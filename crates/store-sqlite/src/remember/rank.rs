//! Ranks what is found: rows with more or rarer words first, then newer ones.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use herma_model::Memory;
use herma_store::{MemoryQuery, Passage, Remembered, Shown};

use super::known::bytes_of_found;
use super::lookups::{Lookups, NotFound};
use super::said::{Said, SaidRow};

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

/// Facts with some of the words, best first, and then the newest ones. They stay the same at one version of the key.
fn facts(lookups: &mut Lookups<'_>, query: &MemoryQuery) -> Result<Vec<Memory>, NotFound> {
    if query.facts == 0 {
        return Ok(Vec::new());
    }
    if let Some((asked, found)) = lookups.known.found_facts.get(&query.words)
        && *asked == query.facts
    {
        return Ok(found.to_vec());
    }
    let newest = lookups.newest_facts(query.facts)?;
    let mut lists = Vec::with_capacity(query.words.len());
    for word in &query.words {
        lists.push(lookups.facts_with(word)?);
    }
    let words = lists.iter().map(|rows| WordRows {
        score: score(rows.len(), NEWEST),
        rows: rows.iter().map(|key| (*key, *key)).peekable(),
    });
    let rated = best(words.collect(), query.facts);
    let mut found = Vec::with_capacity(query.facts);
    for row in &rated {
        found.extend(match newest.iter().find(|stored| stored.key == row.row) {
            Some(stored) => Some(stored.memory.clone()),
            None => lookups.fact(row.row)?.map(|fact| (*fact).clone()),
        });
    }
    let others = newest.iter().filter(|stored| !rated.iter().any(|row| row.row == stored.key));
    found.extend(others.take(query.facts - found.len()).map(|stored| stored.memory.clone()));
    lookups.known.grown += bytes_of_found(&query.words, &found);
    lookups.known.found_facts.insert(query.words.clone(), (query.facts, Arc::from(&*found)));
    Ok(found)
}

/// Messages with some of the words, best first.
fn passages(lookups: &mut Lookups<'_>, query: &MemoryQuery) -> Result<Vec<Passage>, NotFound> {
    if query.passages == 0 || query.words.is_empty() {
        return Ok(Vec::new());
    }
    lookups.find_said()?;
    let rated = best_said(lookups, query);
    let least = rated.first().map_or(0, |best| best.score / 2);
    let mut passages = Vec::with_capacity(query.passages);
    // A question that was asked again and again is quoted once.
    let mut known: Vec<[u8; 16]> = Vec::with_capacity(query.passages);
    let mut fruitless = 0;
    for said in rated.iter().take_while(|row| row.score >= least).map(|row| &row.row) {
        let is_new = !said.is_shown(&query.shown) && !known.contains(&said.digest);
        match if is_new { lookups.text(said)? } else { None } {
            Some(text) => {
                known.push(said.digest);
                passages.push(Passage {
                    conversation: said.conversation,
                    message: said.message,
                    role: said.role,
                    text,
                    created_at: said.created_at,
                });
            }
            None => fruitless += 1,
        }
        if passages.len() == query.passages || fruitless == MOST_FRUITLESS {
            break;
        }
    }
    Ok(passages)
}

/// The messages with the best scores. No more than these are looked at.
fn best_said(lookups: &Lookups<'_>, query: &MemoryQuery) -> Vec<RatedRow<Arc<Said>>> {
    let shown = &query.shown;
    let is_hidden = shown.hidden_through.is_some();
    let mut words = Vec::with_capacity(query.words.len());
    for known in query.words.iter().filter_map(|word| lookups.known.word(word)) {
        let Some(list) = &known.said else { continue };
        let others = known.said_by_others(shown.conversation).filter(|_| known.needs_others(shown));
        let (rows, count, longest) = match others {
            Some(others) => (&others.rows, others.rows.len(), NEWEST),
            None if is_hidden => (&list.rows, list.rows.len(), NEWEST_BESIDE_OWN),
            None => (&list.rows, list.count_not_shown(shown).min(NEWEST), NEWEST),
        };
        let score = score(count, longest);
        words.push(WordRows { score, rows: not_shown(rows, shown, OfOwn::Too).take(longest).peekable() });
        if others.is_some() && is_hidden {
            // What a compaction took out of the view of the asking conversation is not in the list of the others.
            words.push(WordRows { score, rows: not_shown(&list.rows, shown, OfOwn::Only).take(longest).peekable() });
        }
    }
    let rated = best(words, query.passages + MOST_FRUITLESS);
    rated.into_iter().map(|row| RatedRow { row: Arc::clone(&row.row.said), score: row.score }).collect()
}

/// Which messages of the asking conversation are taken, of those that it does not show.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OfOwn {
    /// They, and those of all others.
    Too,
    /// They alone.
    Only,
}

/// The rows that the asking conversation does not show, with their keys.
fn not_shown<'a>(
    rows: &'a VecDeque<SaidRow>,
    shown: &'a Shown,
    of_own: OfOwn,
) -> impl Iterator<Item = (i64, &'a SaidRow)> {
    let is_taken = move |row: &&SaidRow| match of_own {
        OfOwn::Too => !row.is_shown(shown),
        OfOwn::Only => row.is_of(shown.conversation) && !row.is_shown(shown),
    };
    rows.iter().filter(is_taken).map(|row| (row.key, row))
}

/// What each of the `count` rows of a word adds to its score. A list has at most `longest` rows.
fn score(count: usize, longest: usize) -> u32 {
    COMMON + (longest / (count + 1)).checked_ilog2().unwrap_or(0)
}

/// The rows of a word with their keys, newest first.
struct WordRows<I: Iterator> {
    score: u32,
    rows: std::iter::Peekable<I>,
}

/// A row of an index, and how well it matches.
struct RatedRow<T> {
    row: T,
    score: u32,
}

/// The best `count` rows, best first, then newest. A row's score is the sum of those of the words that lead to it.
fn best<T, I: Iterator<Item = (i64, T)>>(mut words: Vec<WordRows<I>>, count: usize) -> Vec<RatedRow<T>> {
    let mut rows: Vec<RatedRow<T>> = Vec::with_capacity(NEWEST_BESIDE_OWN);
    while let Some(newest) = words.iter_mut().filter_map(|word| word.rows.peek().map(|(key, _)| *key)).max() {
        let (mut score, mut found) = (0, None);
        for word in &mut words {
            if let Some((_, row)) = word.rows.next_if(|(key, _)| *key == newest) {
                score += word.score;
                found = Some(row);
            }
        }
        rows.extend(found.map(|row| RatedRow { row, score }));
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn rows_are_ranked_by_the_sum_of_their_scores_and_then_by_age() {
        let mut random = 7_u64;
        for length in [0, 1, 3, 20, 48] {
            let mut words: Vec<Vec<i64>> = Vec::new();
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
                words.push(keys);
            }
            let mut all: Vec<(i64, u32)> = sums.into_iter().collect();
            all.sort_by_key(|(key, score)| (Reverse(*score), Reverse(*key)));
            for count in [0, 1, 2, 12, 22, 64, 500] {
                let rows = |keys: &Vec<i64>| WordRows {
                    score: score(keys.len(), NEWEST),
                    rows: keys.clone().into_iter().map(|key| (key, key)).peekable(),
                };
                let best = best(words.iter().map(rows).collect(), count);
                let best: Vec<(i64, u32)> = best.iter().map(|row| (row.row, row.score)).collect();
                assert_eq!(best, all[..count.min(all.len())], "{length} {count}");
            }
        }
    }
}
