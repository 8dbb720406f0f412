//! Whether and where a text matches a query, and how well.

use std::ops::Range;

use super::fold::{Word, words};
use super::query::{Term, TermWord, Wanted};

/// How a term may occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// As whole words in a row. In scripts without spaces, anywhere.
    Words,
    /// As whole words or as parts of words.
    Parts,
}

/// How well a text matches, in millionths. The caller orders equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub i64);

impl Term {
    /// Whether the term may match a part of a word. Prefix terms may not, nor terms without a word of three letters.
    pub fn has_parts(&self) -> bool {
        !self.prefix && self.words.iter().any(|word| !word.cjk && word.text.chars().nth(2).is_some())
    }

    fn places(&self, folded: &str, text_words: &[Word<'_>], manner: Manner) -> Vec<Range<usize>> {
        if manner == Manner::Parts && self.has_parts() {
            let literal = folded.match_indices(&self.text).map(|(at, found)| at..at + found.len());
            let mut places: Vec<_> = literal.collect();
            if places.is_empty() {
                places = self.word_places(text_words);
            }
            return places;
        }
        self.word_places(text_words)
    }

    fn word_places(&self, text_words: &[Word<'_>]) -> Vec<Range<usize>> {
        let [first, rest @ ..] = self.words.as_slice() else { return Vec::new() };
        if rest.is_empty() {
            let mut places = Vec::new();
            text_words
                .iter()
                .filter(|word| word.cjk == first.cjk)
                .for_each(|word| self.match_word(first, word, &mut places));
            return places;
        }
        text_words.windows(self.words.len()).filter_map(|window| self.match_phrase(window)).collect()
    }

    /// Adds the places where a word of the text matches the only word of the term.
    fn match_word(&self, wanted: &TermWord, word: &Word<'_>, places: &mut Vec<Range<usize>>) {
        if wanted.cjk {
            let found = word.text.match_indices(&wanted.text);
            places.extend(found.map(|(at, found)| word.at + at..word.at + at + found.len()));
            return;
        }
        let found = if self.prefix { word.text.starts_with(&wanted.text) } else { word.text == wanted.text };
        if found {
            places.push(word.at..word.at + word.text.len());
        }
    }

    /// The place if these words of the text are the words of the term. In scripts without spaces the first and the last
    /// word may be longer in the text.
    fn match_phrase(&self, window: &[Word<'_>]) -> Option<Range<usize>> {
        let last = self.words.len() - 1;
        let (mut from, mut to) = (0, 0);
        for (index, (wanted, word)) in self.words.iter().zip(window).enumerate() {
            let fits = match index {
                0 if wanted.cjk => word.text.ends_with(&wanted.text),
                _ if index == last && (wanted.cjk || self.prefix) => word.text.starts_with(&wanted.text),
                _ => word.text == wanted.text,
            };
            if !fits || wanted.cjk != word.cjk {
                return None;
            }
            if index == 0 {
                from = word.at + word.text.len() - wanted.text.len();
            }
            to = word.at + if wanted.cjk { wanted.text.len() } else { word.text.len() };
        }
        Some(from..to)
    }
}

/// The text length, in bytes, at which one occurrence scores about a half.
const USUAL_LENGTH: i64 = 1000;
const ONE: i64 = 1_000_000;

impl Wanted {
    /// Whether any term may match a part of a word.
    pub fn has_parts(&self) -> bool {
        self.groups.iter().flatten().any(Term::has_parts)
    }

    /// The score of a folded text. `None` if a required term is missing or an excluded term occurs.
    pub fn rate(&self, folded: &str, manner: Manner) -> Option<Score> {
        // Quick check first: most texts that do not match lack one of the words.
        let may_have = |term: &Term| term.words.iter().all(|word| folded.contains(&word.text));
        if !self.groups.iter().all(|group| group.iter().any(may_have)) {
            return None;
        }
        let text_words: Vec<_> = words(folded).collect();
        let mut score = 0;
        for group in &self.groups {
            let found: usize = group.iter().map(|term| term.places(folded, &text_words, manner).len()).sum();
            if found == 0 {
                return None;
            }
            let found = i64::try_from(found).unwrap_or(i64::MAX / ONE).min(1000);
            let length = i64::try_from(folded.len()).unwrap_or(i64::MAX).min(1000 * USUAL_LENGTH);
            // Each further occurrence adds less. Occurrences in long texts count less.
            score += ONE * found * 1000 / (found * 1000 + 300 + 900 * length / USUAL_LENGTH);
        }
        let excluded = self.without.iter().any(|term| !term.places(folded, &text_words, Manner::Words).is_empty());
        (!excluded).then(|| Score(score / i64::try_from(self.groups.len()).unwrap_or(1)))
    }

    /// Where a folded text matches, in order, without overlaps.
    pub(super) fn places(&self, folded: &str, manner: Manner) -> Vec<Range<usize>> {
        let text_words: Vec<_> = words(folded).collect();
        let mut places: Vec<Range<usize>> =
            self.groups.iter().flatten().flat_map(|term| term.places(folded, &text_words, manner)).collect();
        places.sort_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
        let mut end = 0;
        places.retain(|place| {
            let apart = place.start >= end;
            end = end.max(place.end);
            apart
        });
        places
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::fold;
    use super::*;

    fn occurs(typed: &str, text: &str) -> Option<Manner> {
        let wanted = Wanted::parse(typed).unwrap();
        let folded = fold(text);
        [Manner::Words, Manner::Parts].into_iter().find(|manner| wanted.rate(&folded, *manner).is_some())
    }

    #[test]
    fn terms_occur_as_words_or_as_parts_or_not_at_all() {
        let (as_words, as_parts) = (Some(Manner::Words), Some(Manner::Parts));
        for (typed, text, expected) in [
            ("lighthouse", "The Lighthouse.", as_words),
            ("cafe", "Café", as_words),
            ("house", "lighthouses", as_parts),
            ("go", "ago", None),
            ("go", "Go!", as_words),
            ("light*", "lighthouse", as_words),
            ("house*", "lighthouse", None),
            ("\"new york\"", "New,\n York", as_words),
            ("\"new york\"", "york new", None),
            ("\"new yo\"*", "new york", as_words),
            ("\"ew yor\"", "new york", as_parts),
            ("foo-bar", "a foo bar", as_words),
            ("oo-ba", "a foo-bar", None),
            ("foo-b", "a foo-bar", as_parts),
            ("cat dogma", "cat and underdogma", as_parts),
            ("猫", "黒猫がいる", as_words),
            ("京都", "東京都", as_words),
            ("東都", "東京都", None),
            ("gpt模型", "新gpt模型好", as_words),
            ("한글", "한글날", as_words),
            ("cat -dog", "cat and dog", None),
            ("cat -dog", "cat and dogma", as_words),
            ("cat OR dog", "a dog", as_words),
            ("cat dog", "a dog", None),
        ] {
            assert_eq!(occurs(typed, text), expected, "{typed} in {text}");
        }
    }

    #[test]
    fn more_of_it_in_less_text_is_better() {
        let wanted = Wanted::parse("cat").unwrap();
        let rate = |text: &str| wanted.rate(text, Manner::Words).unwrap();
        assert!(rate("cat cat") > rate("cat dog"));
        assert!(rate("cat") > rate(&format!("cat {}", "dog ".repeat(500))));
    }
}
