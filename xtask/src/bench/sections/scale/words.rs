//! Texts with the word frequencies of real ones: few words are common, many are rare.
//!
//! All texts follow from a seed, so two stores of the same size have the same texts.

use crate::random::Random;

/// The number of words. Each is rarer than the one before, as in real languages.
const WORDS: usize = 40_000;
/// The number of signs of a script without spaces.
const SIGNS: u64 = 2_500;
/// Bytes of the running text that messages are cut from.
const RUNNING: usize = 2 << 20;
/// One of this many messages is in the script without spaces.
const OTHER_SCRIPT: u64 = 32;
/// One of this many messages has a word that hardly any other message has.
pub(super) const RARE: u64 = 20_000;
/// One of this many messages names a topic, so that nearly every conversation of ten messages does.
const WITH_TOPIC: u64 = 10;
/// How many topics there are. They differ in the number at their end.
const TOPICS: u64 = 1_000;

const SHORTEST: f64 = 60.0;
/// The longest message is this many times longer than the shortest.
const RANGE: f64 = 25.0;

/// A generator of texts.
#[derive(Debug)]
pub(super) struct Language {
    running: String,
    signs: String,
    random: Random,
    told: u64,
}

impl Language {
    /// Creates the generator with this seed.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut running = String::with_capacity(RUNNING + 64);
        while running.len() < RUNNING {
            running.push_str(&word(random.rank(WORDS as f64)));
            running.push_str(if random.below(12) == 0 { ". " } else { " " });
        }
        let signs = (0..RUNNING / 16).map(|_| sign(random.rank(SIGNS as f64))).collect();
        Self { running, signs, random, told: 0 }
    }

    /// A message: 60 to 1,500 bytes, 300 on average.
    pub(super) fn message(&mut self) -> String {
        self.told += 1;
        let part = self.random.part();
        let length = (SHORTEST * RANGE.powf(part * part)) as usize;
        if self.random.below(OTHER_SCRIPT) == 0 {
            return cut(&self.signs, self.random.below(self.signs.len() as u64) as usize, length).to_owned();
        }
        let text = cut(&self.running, self.random.below(self.running.len() as u64) as usize, length);
        match self.told % RARE {
            0 => format!("{} {text}", rare(self.told / RARE)),
            _ if self.told % WITH_TOPIC == 1 => format!("{} {text}", topic(self.told / WITH_TOPIC % TOPICS)),
            _ => text.to_owned(),
        }
    }

    /// A title.
    pub(super) fn title(&mut self) -> String {
        let length = 20 + self.random.below(30) as usize;
        cut(&self.running, self.random.below(self.running.len() as u64) as usize, length).replace('.', "")
    }
}

/// A piece of about `length` bytes from about `from`. It begins and ends with a whole word.
fn cut(text: &str, from: usize, length: usize) -> &str {
    let from = from.min(text.len().saturating_sub(length + 64));
    let after_space = text.as_bytes()[from..].iter().take(48).position(|byte| *byte == b' ').map(|at| from + at + 1);
    let from = after_space.unwrap_or(from);
    let until = (from + length).min(text.len());
    let text = &text[text.ceil_char_boundary(from)..text.floor_char_boundary(until)];
    text.rsplit_once(' ').map_or(text, |(whole, _)| whole).trim_end_matches('.')
}

/// The word with this rank, made of syllables. The most common words are short.
pub(super) fn word(rank: u64) -> String {
    const FIRST: [&str; 16] = ["t", "s", "m", "k", "p", "l", "r", "n", "b", "d", "f", "g", "v", "st", "tr", "w"];
    const SECOND: [&str; 8] = ["a", "e", "i", "o", "u", "ar", "en", "is"];
    let mut text = String::new();
    let mut rest = rank + 1;
    while rest > 0 {
        text.push_str(FIRST[(rest % 16) as usize]);
        text.push_str(SECOND[(rest / 16 % 8) as usize]);
        rest /= 128;
    }
    text
}

/// A rare word of random letters.
pub(super) fn rare(number: u64) -> String {
    let mut random = Random::new(number);
    let letters = (0..9).map(|_| char::from(b'a' + (random.below(26) as u8)));
    letters.collect()
}

/// A word that has its beginning in common with many others.
pub(super) fn topic(number: u64) -> String {
    format!("topic{number}")
}

/// The sign with this rank.
pub(super) fn sign(rank: u64) -> char {
    u32::try_from(rank).ok().and_then(|rank| char::from_u32(0x4e00 + rank)).unwrap_or('\u{4e00}')
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn the_same_seed_says_the_same() {
        let mut said = [1, 1, 2].map(|seed| Language::new(seed).message());
        assert_eq!(said[0], said[1]);
        said.sort();
        assert_ne!(said[0], said[2]);
    }

    #[test]
    fn messages_are_as_long_as_messages_are_and_no_json_needs_escaping() {
        let mut language = Language::new(1);
        let said: Vec<String> = (0..20_000).map(|_| language.message()).collect();
        let mean = said.iter().map(String::len).sum::<usize>() / said.len();
        assert!((250..350).contains(&mean), "{mean}");
        assert!(said.iter().all(|text| (30..1_600).contains(&text.len())), "{:?}", said.iter().map(String::len).max());
        assert!(!said.iter().any(|text| text.contains(['"', '\\', '\n'])));
        assert_eq!(said.iter().filter(|text| text.starts_with(&rare(1))).count(), 1);
        assert!((1_900..=2_000).contains(&said.iter().filter(|text| text.starts_with("topic")).count()));
        assert!((1..=2).contains(&said.iter().filter(|text| text.starts_with("topic123 ")).count()));
    }

    #[test]
    fn some_words_are_everywhere_and_most_are_rare() {
        let mut language = Language::new(1);
        let mut counts: HashMap<String, u32> = HashMap::new();
        for _ in 0..5_000 {
            let said = language.message();
            let words: HashSet<&str> = said.split([' ', '.']).collect();
            words.into_iter().for_each(|word| *counts.entry(word.to_owned()).or_default() += 1);
        }
        assert!(counts[&word(0)] > 2_500, "{}", counts[&word(0)]);
        let rare = counts.values().filter(|count| **count < 10).count();
        assert!(rare > counts.len() / 2, "{rare} of {}", counts.len());
    }
}
