//! Whether and where a text matches a query, and how well.

use std::cell::OnceCell;
use std::ops::Range;

use super::fold::{Word, is_cjk, is_letter, words};
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

/// A folded text. It is split into words only if a term needs that.
struct SearchedText<'a> {
    folded: &'a str,
    words: OnceCell<Vec<Word<'a>>>,
}

impl<'a> SearchedText<'a> {
    const fn new(folded: &'a str) -> Self {
        Self { folded, words: OnceCell::new() }
    }

    fn words(&self) -> &[Word<'a>] {
        self.words.get_or_init(|| words(self.folded).collect())
    }
}

impl Term {
    /// Whether the term may match a part of a word. Prefix terms may not, nor terms without a word of three letters.
    pub fn has_parts(&self) -> bool {
        !self.prefix && self.words.iter().any(|word| !word.cjk && word.text.chars().nth(2).is_some())
    }

    fn places(&self, text: &SearchedText<'_>, manner: Manner) -> Vec<Range<usize>> {
        if manner == Manner::Parts && self.has_parts() {
            let literal = text.folded.match_indices(&self.text).map(|(at, found)| at..at + found.len());
            let mut places: Vec<_> = literal.collect();
            if places.is_empty() {
                places = self.word_places(text);
            }
            return places;
        }
        self.word_places(text)
    }

    fn word_places(&self, text: &SearchedText<'_>) -> Vec<Range<usize>> {
        match self.words.as_slice() {
            [] => Vec::new(),
            [only] => {
                let found = text.folded.match_indices(&only.text);
                found.filter_map(|(at, found)| self.only_word_place(only, text.folded, at..at + found.len())).collect()
            }
            several => text.words().windows(several.len()).filter_map(|window| self.match_phrase(window)).collect(),
        }
    }

    /// The place of the only word of the term, if its letters at `found` are a word of the text or begin one. All of
    /// them are in one word of the text, because a word is a run of letters of one kind.
    fn only_word_place(&self, wanted: &TermWord, folded: &str, found: Range<usize>) -> Option<Range<usize>> {
        if wanted.cjk {
            return Some(found);
        }
        let goes_on = |letter: &char| is_letter(*letter) && !is_cjk(*letter);
        if folded[..found.start].chars().next_back().as_ref().is_some_and(goes_on) {
            return None;
        }
        let rest: usize = folded[found.end..].chars().take_while(goes_on).map(char::len_utf8).sum();
        (rest == 0 || self.prefix).then_some(found.start..found.end + rest)
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
        let text = SearchedText::new(folded);
        let mut score = 0;
        for group in &self.groups {
            let found: usize = group.iter().map(|term| term.places(&text, manner).len()).sum();
            if found == 0 {
                return None;
            }
            let found = i64::try_from(found).unwrap_or(i64::MAX / ONE).min(1000);
            let length = i64::try_from(folded.len()).unwrap_or(i64::MAX).min(1000 * USUAL_LENGTH);
            // Each further occurrence adds less. Occurrences in long texts count less.
            score += ONE * found * 1000 / (found * 1000 + 300 + 900 * length / USUAL_LENGTH);
        }
        let excluded = self.without.iter().any(|term| !term.places(&text, Manner::Words).is_empty());
        (!excluded).then(|| Score(score / i64::try_from(self.groups.len()).unwrap_or(1)))
    }

    /// Where a folded text matches, in order, without overlaps.
    pub(super) fn places(&self, folded: &str, manner: Manner) -> Vec<Range<usize>> {
        let text = SearchedText::new(folded);
        let mut places: Vec<Range<usize>> =
            self.groups.iter().flatten().flat_map(|term| term.places(&text, manner)).collect();
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
    fn a_single_word_is_found_where_the_words_of_the_text_have_it() {
        let text = "aaa aa, xaa aax gpt模型aa aa模型 ガアガア アガ aa_aa नमस्ते नम aa";
        for (typed, expected) in [
            ("aa", vec!["aa", "aa", "aa", "aa", "aa", "aa"]),
            ("aa*", vec!["aaa", "aa", "aax", "aa", "aa", "aa", "aa", "aa"]),
            ("gpt", vec!["gpt"]),
            ("pt", vec![]),
            ("नम", vec!["नम"]),
            ("नम*", vec!["नमस्ते", "नम"]),
            ("ガア", vec!["ガア", "ガア"]),
            ("型", vec!["型", "型"]),
        ] {
            let places = Wanted::parse(typed).unwrap().places(text, Manner::Words);
            assert_eq!(places.into_iter().map(|place| &text[place]).collect::<Vec<_>>(), expected, "{typed}");
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
