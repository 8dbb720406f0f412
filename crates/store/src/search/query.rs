//! Parses a search query that a person typed.
//!
//! All words must occur, in any order. `"…"` is a phrase, `word*` a prefix, `a OR b` means either. `-word` and `NOT
//! word` must not occur. `AND` has no effect. Everything else is text.

use herma_model::limits::{MAX_SEARCH_CHARACTERS, MAX_SEARCH_TERMS};

use super::fold::{fold, words};

/// Why a query cannot be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// Nothing was typed.
    #[error("there is nothing to search for; give some words")]
    Empty,
    /// The query has no word that must occur.
    #[error("there is no word to search for, only operators or punctuation; give at least one word that must occur")]
    OnlyOperators,
    /// The query has too many characters.
    #[error("the search is longer than {MAX_SEARCH_CHARACTERS} characters, which is the limit")]
    TooLong,
    /// The query has too many words and phrases.
    #[error("the search has more than {MAX_SEARCH_TERMS} words and phrases, which is the limit")]
    TooManyTerms,
}

/// One word or phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The whole term, folded.
    pub text: String,
    /// Its words, folded; at least one.
    pub words: Vec<TermWord>,
    /// Whether the last word is only a prefix.
    pub prefix: bool,
}

/// A word of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermWord {
    /// The letters.
    pub text: String,
    /// Whether its script has no spaces between words.
    pub cjk: bool,
}

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// At least one term of each group must occur.
    pub groups: Vec<Vec<Term>>,
    /// None of these terms may occur.
    pub without: Vec<Term>,
}

impl Wanted {
    /// Parses a query.
    pub fn parse(typed: &str) -> Result<Self, BadQuery> {
        if typed.chars().nth(MAX_SEARCH_CHARACTERS).is_some() {
            return Err(BadQuery::TooLong);
        }
        if typed.trim().is_empty() {
            return Err(BadQuery::Empty);
        }
        let mut wanted = Self { groups: Vec::new(), without: Vec::new() };
        let (mut is_alternative, mut is_excluded, mut count) = (false, false, 0);
        let mut rest = typed.trim_start();
        while !rest.is_empty() {
            let token;
            (token, rest) = Token::split_off(rest);
            match token.operator() {
                Some(Operator::And) => continue,
                Some(Operator::Or) => {
                    is_alternative = true;
                    continue;
                }
                Some(Operator::Not) => {
                    is_excluded = true;
                    continue;
                }
                None => {}
            }
            let Some(term) = token.term() else { continue };
            count += 1;
            match wanted.groups.last_mut().filter(|_| is_alternative) {
                _ if is_excluded || token.minus => wanted.without.push(term),
                Some(group) => group.push(term),
                None => wanted.groups.push(vec![term]),
            }
            (is_alternative, is_excluded) = (false, false);
        }
        match (wanted.groups.is_empty(), count > MAX_SEARCH_TERMS) {
            (true, _) => Err(BadQuery::OnlyOperators),
            (_, true) => Err(BadQuery::TooManyTerms),
            _ => Ok(wanted),
        }
    }
}

enum Operator {
    And,
    Or,
    Not,
}

/// A part of the query, up to the next white space or quotation mark.
struct Token<'a> {
    minus: bool,
    quoted: bool,
    text: &'a str,
    prefix: bool,
}

impl<'a> Token<'a> {
    /// Splits off the first token; returns it and the rest.
    fn split_off(rest: &'a str) -> (Self, &'a str) {
        let minus = rest.starts_with('-');
        let from = if minus { &rest[1..] } else { rest };
        let (quoted, text, after) = match from.strip_prefix(['"', '\u{201c}', '\u{201d}']) {
            Some(inner) => {
                let (text, after) = inner.split_once(['"', '\u{201c}', '\u{201d}']).unwrap_or((inner, ""));
                (true, text, after)
            }
            None => {
                let end = from.find(|letter: char| letter.is_whitespace() || letter == '"').unwrap_or(from.len());
                (false, &from[..end], &from[end..])
            }
        };
        let after_stars = if quoted { after.trim_start_matches('*') } else { after };
        let prefix = after_stars.len() < after.len() || (!quoted && text.ends_with('*'));
        (Self { minus, quoted, text, prefix }, after_stars.trim_start())
    }

    fn operator(&self) -> Option<Operator> {
        match self.text {
            _ if self.quoted || self.minus => None,
            "AND" => Some(Operator::And),
            "OR" => Some(Operator::Or),
            "NOT" => Some(Operator::Not),
            _ => None,
        }
    }

    fn term(&self) -> Option<Term> {
        let bare = if self.quoted { self.text } else { self.text.trim_matches(['(', ')', '*']) };
        let text = fold(bare).trim().to_owned();
        let words: Vec<_> = words(&text).map(|word| TermWord { text: word.text.to_owned(), cjk: word.cjk }).collect();
        (!words.is_empty()).then_some(Term { text, words, prefix: self.prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &str) -> String {
        let show = |term: &Term| format!("{}{}", term.text, if term.prefix { "*" } else { "" });
        match Wanted::parse(typed) {
            Err(error) => format!("{error:?}"),
            Ok(wanted) => {
                let groups = wanted.groups.iter().map(|group| group.iter().map(show).collect::<Vec<_>>().join("|"));
                let without = wanted.without.iter().map(|term| format!("-{}", show(term)));
                groups.chain(without).collect::<Vec<_>>().join(" & ")
            }
        }
    }

    #[test]
    fn what_was_typed_is_read_as_words_phrases_and_operators() {
        for (typed, expected) in [
            ("Café  au lait", "cafe & au & lait"),
            ("\"new york\" trip*", "new york & trip*"),
            ("\"new yo\"* x", "new yo* & x"),
            ("(cat OR dog) AND food", "cat|dog & food"),
            ("cat -dog NOT mouse", "cat & -dog & -mouse"),
            ("and or not", "and & or & not"),
            ("\"never closed", "never closed"),
            ("foo-bar", "foo-bar"),
            ("OR cat", "cat"),
            ("猫", "猫"),
            ("   ", "Empty"),
            ("AND OR NOT", "OnlyOperators"),
            ("\"\" * - ()", "OnlyOperators"),
            ("-cat", "OnlyOperators"),
            ("cat OR", "cat"),
        ] {
            assert_eq!(read(typed), expected, "{typed}");
        }
        assert_eq!(read(&"x".repeat(MAX_SEARCH_CHARACTERS + 1)), "TooLong");
        assert_eq!(read(&"x ".repeat(MAX_SEARCH_TERMS + 1)), "TooManyTerms");
    }
}
