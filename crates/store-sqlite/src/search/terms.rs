//! The terms of the index: those of a text, and those that a search asks for.
//!
//! Terms that are not words begin with a character that no word contains.

use std::fmt::Write as _;

use herma_model::Digest;
use herma_store::search::{Manner, Term, TermWord, Wanted, words};

const TENANT: char = '\u{e000}';
const CONVERSATION: char = '\u{e001}';
const PART: &str = "\u{e002}";
const BEGINNING: &str = "\u{e003}";
const KEY: char = '\u{e004}';

/// The longest word that is indexed whole, in letters. A longer word is cut to this length.
pub(crate) const LONGEST: usize = 40;
/// The largest number of three-letter groups that are asked for. More would hardly exclude other texts.
const MOST_PARTS: usize = 24;
/// A term is left out if it has this many times as many rows as the rarest one beside it. To check a row against its
/// text takes about as long as this many steps in the index.
const FAR_MORE: i64 = 100;

/// The terms of a folded text, separated by spaces. Messages have the session key of their conversation among them.
pub(crate) fn of_text(folded: &str, tenant: i64, conversation: i64, session_key: Option<&str>) -> String {
    let mut line = String::with_capacity(folded.len() * 6 + 64);
    let _ = write!(line, "{TENANT}{tenant} {CONVERSATION}{conversation} ");
    if let Some(session_key) = session_key {
        let _ = write!(line, "{} ", of_key(tenant, session_key));
    }
    add_words(folded, &mut line);
    line
}

/// The term of a session key. Keys contain any characters, so it is made of a digest.
pub(crate) fn of_key(tenant: i64, session_key: &str) -> String {
    let Digest(digest) = Digest::of_fields([&tenant.to_le_bytes()[..], session_key.as_bytes()]);
    digest[..8].iter().fold(KEY.to_string(), |mut term, byte| {
        let _ = write!(term, "{byte:02x}");
        term
    })
}

/// The query for rows of a session key that have a word, but not for those of one conversation. A word of a script
/// without spaces is at most two letters long.
pub(crate) fn under_key(key: &str, word: &str, except: Option<i64>) -> String {
    let both = format!("{} AND ({})", quoted(key), with_word(word));
    match except {
        Some(conversation) => format!("({both}) NOT \"{CONVERSATION}{conversation}\""),
        None => both,
    }
}

/// The query for rows of all keys that have a word.
pub(crate) fn with_word(word: &str) -> String {
    let word = cut(word);
    match other_number(&word) {
        Some(other) => format!("{} OR {}", quoted(&word), quoted(&other)),
        None => quoted(&word),
    }
}

/// A word as it is indexed: a long one is cut.
pub(crate) fn cut(word: &str) -> String {
    word.chars().take(LONGEST).collect()
}

/// The terms of words in the terms of a text. Of a script without spaces: its letters, and pairs of them.
pub(crate) fn words_of_line(line: &str) -> impl Iterator<Item = &str> {
    let is_no_word = |term: &&str| term.starts_with([TENANT, CONVERSATION, KEY]);
    // Words come first, then letters and pairs, then parts and beginnings.
    let words = line.split(' ').skip_while(is_no_word);
    words.take_while(|term| !term.starts_with(PART) && !term.starts_with(BEGINNING)).filter(|term| !term.is_empty())
}

/// Calls `found` with each word whose query ([`with_word`]) yields the rows of a term: the word itself, and its other
/// number.
pub(crate) fn each_word_found_by(term: &str, mut found: impl FnMut(&str)) {
    found(term);
    if term.len() < 2 || !term.bytes().all(|letter| letter.is_ascii_lowercase()) {
        return;
    }
    let plural = format!("{term}s");
    found(&plural);
    if let Some(singular) = term.strip_suffix('s').filter(|singular| singular.len() > 2 && !singular.ends_with('s')) {
        found(singular);
    }
}

/// The plural of a word that may be English, or its singular.
pub(crate) fn other_number(word: &str) -> Option<String> {
    let is_candidate = word.len() > 2 && word.bytes().all(|letter| letter.is_ascii_lowercase());
    is_candidate.then(|| word.strip_suffix('s').map_or_else(|| format!("{word}s"), str::to_owned))
}

/// Adds the terms of the words of a folded text, each once. A word that was cut may appear twice, which does not matter
/// to the index.
fn add_words(folded: &str, line: &mut String) {
    let mut texts: Vec<(&str, bool)> = words(folded).map(|word| (word.text, word.cjk)).collect();
    texts.sort_unstable();
    texts.dedup();
    let mut letters: Vec<char> = Vec::new();
    let mut short = Vec::with_capacity(folded.len() + 2 * texts.len());
    for (text, cjk) in texts {
        letters.clear();
        letters.extend(text.chars());
        if cjk {
            short.extend(letters.iter().map(|letter| ShortTerm::of(&[*letter])));
            short.extend(letters.windows(2).map(ShortTerm::of));
            continue;
        }
        short.extend((1..=letters.len().min(2)).map(|count| ShortTerm::beginning(&letters[..count])));
        short.extend(letters.windows(3).map(ShortTerm::of));
        line.extend(letters.iter().take(LONGEST));
        line.push(' ');
    }
    short.sort_unstable();
    short.dedup();
    short.into_iter().for_each(|term| term.add_to(line));
}

/// A term of at most three letters, 21 bits each. The highest bit says whether they begin a word. Three letters are a
/// part of a word, others are signs of a script without spaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ShortTerm(u64);

impl ShortTerm {
    const BEGINS: u64 = 1 << 63;

    fn of(letters: &[char]) -> Self {
        Self(letters.iter().fold(0, |packed, letter| (packed << 21) | u64::from(*letter)))
    }

    fn beginning(letters: &[char]) -> Self {
        Self(Self::of(letters).0 | Self::BEGINS)
    }

    fn add_to(self, line: &mut String) {
        let packed = self.0 & !Self::BEGINS;
        line.push_str(match packed >> 42 {
            _ if self.0 != packed => BEGINNING,
            0 => "",
            _ => PART,
        });
        let letters = [42, 21, 0].map(|shift| u32::try_from((packed >> shift) & 0x1f_ffff).ok());
        line.extend(letters.into_iter().flatten().filter(|letter| *letter > 0).filter_map(char::from_u32));
        line.push(' ');
    }
}

fn part(three: &[char]) -> String {
    marked(PART, three)
}

fn beginning(letters: &[char]) -> String {
    marked(BEGINNING, letters)
}

fn marked(mark: &str, letters: &[char]) -> String {
    mark.chars().chain(letters.iter().copied()).collect()
}

/// The query for the index. It yields every possible hit, of one tenant or of all.
pub(super) fn expression(wanted: &Wanted, manner: Manner, tenant: Option<i64>) -> String {
    let groups = wanted.groups.iter().map(|group| group.iter().map(|term| required_terms(term, manner)).collect());
    joined(&groups.collect::<Vec<_>>(), tenant)
}

/// The same query without terms that are far more common than another term of the same word or phrase. It yields more
/// rows that are no hits, and is faster: SQLite steps through the entries of every term one by one.
pub(super) fn rare_expression<E>(
    wanted: &Wanted,
    manner: Manner,
    tenant: Option<i64>,
    mut rows: impl FnMut(&str) -> Result<i64, E>,
) -> Result<String, E> {
    let mut groups = Vec::new();
    for group in &wanted.groups {
        let mut alternatives = Vec::new();
        for term in group {
            let terms = required_terms(term, manner);
            // A single term is asked for in any case.
            alternatives.push(if terms.len() > 1 { without_common(terms, &mut rows)? } else { terms });
        }
        groups.push(alternatives);
    }
    Ok(joined(&groups, tenant))
}

fn without_common<E>(terms: Vec<String>, rows: &mut impl FnMut(&str) -> Result<i64, E>) -> Result<Vec<String>, E> {
    let counted = terms.into_iter().map(|term| Ok((rows(&term)?, term))).collect::<Result<Vec<_>, E>>()?;
    let rarest = counted.iter().map(|(rows, _)| *rows).min().unwrap_or_default();
    let most = rarest.max(1).saturating_mul(FAR_MORE);
    Ok(counted.into_iter().filter(|(rows, _)| *rows <= most).map(|(_, term)| term).collect())
}

/// A query for rows that match one alternative of each group.
fn joined(groups: &[Vec<Vec<String>>], tenant: Option<i64>) -> String {
    let groups = groups.iter().map(|group| {
        let alternatives: Vec<String> = group.iter().map(|terms| all_of(terms)).collect();
        format!("({})", alternatives.join(" OR "))
    });
    let tenant = tenant.map(|tenant| format!("\"{TENANT}{tenant}\""));
    tenant.into_iter().chain(groups).collect::<Vec<_>>().join(" AND ")
}

/// The query for rows that have this term.
pub(super) fn quoted(term: &str) -> String {
    format!("\"{term}\"")
}

/// The same query within one conversation.
pub(super) fn within(expression: &str, conversation: i64) -> String {
    format!("\"{CONVERSATION}{conversation}\" AND {expression}")
}

fn all_of(terms: &[String]) -> String {
    let quoted: Vec<String> = terms.iter().map(|term| quoted(term)).collect();
    format!("({})", quoted.join(" AND "))
}

/// The terms that every text with this search term has.
fn required_terms(term: &Term, manner: Manner) -> Vec<String> {
    let parts = manner == Manner::Parts && term.has_parts();
    let last = term.words.len() - 1;
    let mut asked: Vec<String> = Vec::new();
    for (index, word) in term.words.iter().enumerate() {
        asked.extend(required_by_word(word, parts, term.prefix && index == last));
    }
    asked
}

fn required_by_word(word: &TermWord, parts: bool, prefix: bool) -> Vec<String> {
    let letters: Vec<char> = word.text.chars().collect();
    match letters.as_slice() {
        [one] if word.cjk => vec![one.to_string()],
        _ if word.cjk => letters.windows(2).take(MOST_PARTS).map(|pair| pair.iter().collect()).collect(),
        [] | [_] | [_, _] if parts => Vec::new(),
        [] | [_] | [_, _] if prefix => vec![beginning(&letters)],
        _ if parts || prefix => letters.windows(3).take(MOST_PARTS).map(part).collect(),
        _ => vec![letters[..letters.len().min(LONGEST)].iter().collect()],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use herma_store::search::fold;

    use super::*;

    /// Whether a text has every term that is asked for, as the index would see it.
    fn yields(typed: &str, text: &str, manner: Manner) -> bool {
        let wanted = Wanted::parse(typed).unwrap();
        let line = of_text(&fold(text), 1, 2, None);
        let terms: HashSet<&str> = line.split(' ').collect();
        wanted.groups.iter().all(|group| {
            group.iter().any(|term| required_terms(term, manner).iter().all(|asked| terms.contains(asked.as_str())))
        })
    }

    #[test]
    fn a_term_finds_the_words_whose_query_has_it() {
        let words =
            ["dog", "dogs", "dogss", "glass", "glas", "gla", "as", "a", "s", "ss", "gpt4", "gpt4s", "höfe", "犬の"];
        for term in words {
            let mut found = Vec::new();
            each_word_found_by(term, |word| found.push(word.to_owned()));
            for word in words {
                let is_asked = with_word(word).split(" OR ").any(|asked| asked == quoted(term));
                assert_eq!(found.iter().any(|one| one == word), is_asked, "{term} {word}");
            }
        }
    }

    #[test]
    fn the_words_of_a_line_are_its_words_and_pairs_of_letters() {
        let line = of_text(&herma_store::search::fold("Dogs 犬の house"), 1, 2, Some("ann"));
        let mut found: Vec<&str> = words_of_line(&line).collect();
        found.sort_unstable();
        assert_eq!(found, ["dogs", "house", "の", "犬", "犬の"]);
    }

    #[test]
    fn every_hit_is_a_candidate() {
        let long = "x".repeat(100);
        for (typed, text) in [
            ("lighthouse", "A Lighthouse"),
            ("house", "lighthouses"),
            ("l*", "light"),
            ("li*", "light"),
            ("lig*", "light"),
            ("\"new yo\"*", "New York"),
            ("\"ew yor\"", "new york"),
            ("foo-b", "foo-bar"),
            ("cat dogma", "cat underdogma"),
            ("猫", "黒猫がいる"),
            ("京都", "東京都"),
            ("東京都", "東京都"),
            ("gpt模型", "新gpt模型好"),
            ("a OR 猫", "猫"),
            (&long, &long),
            (&long[..60], &long),
        ] {
            let wanted = Wanted::parse(typed).unwrap();
            for manner in [Manner::Words, Manner::Parts] {
                if wanted.rate(&fold(text), manner).is_some() {
                    assert!(yields(typed, text, manner), "{typed} in {text}, {manner:?}");
                }
            }
            assert!(yields(typed, text, Manner::Parts), "{typed} in {text}");
        }
        assert!(!yields("ago", "go", Manner::Parts));
        assert!(!yields("東都", "東京都", Manner::Words));
    }

    #[test]
    fn terms_that_are_far_more_common_than_another_are_not_asked_for() {
        let wanted = Wanted::parse("topic12 OR if").unwrap();
        let rows = |term: &str| {
            let rows = match term.trim_start_matches(PART) {
                "c12" => 7,
                "ic1" => 700,
                _ => 701,
            };
            Ok::<i64, ()>(rows)
        };
        let asked = rare_expression(&wanted, Manner::Parts, None, rows).unwrap();
        assert_eq!(asked, "((\"\u{e002}ic1\" AND \"\u{e002}c12\") OR (\"if\"))");
        let even = rare_expression(&wanted, Manner::Parts, None, |_| Ok::<i64, ()>(0)).unwrap();
        assert_eq!(even, expression(&wanted, Manner::Parts, None));
    }

    #[test]
    fn a_key_has_a_term_of_its_own_in_each_tenant() {
        let keys = [of_key(1, "a:b"), of_key(1, "a-b"), of_key(2, "a:b"), of_key(1, "A:b"), of_key(1, "a b")];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert!(of_text("dog", 1, 2, Some("a b")).contains(&format!(" {} ", keys[4])));
        assert_eq!(under_key("k", "dog", Some(7)), "(\"k\" AND (\"dog\" OR \"dogs\")) NOT \"\u{e001}7\"");
        assert_eq!(under_key("k", "dogs", None), "\"k\" AND (\"dogs\" OR \"dog\")");
        assert_eq!(under_key("k", "猫", None), "\"k\" AND (\"猫\")");
    }

    #[test]
    fn tenant_and_conversation_are_asked_for_by_terms_of_their_own() {
        let asked = |tenant| within(&expression(&Wanted::parse("1 OR 2").unwrap(), Manner::Words, tenant), 2);
        assert_eq!(asked(Some(1)), "\"\u{e001}2\" AND \"\u{e000}1\" AND ((\"1\") OR (\"2\"))");
        assert_eq!(asked(None), "\"\u{e001}2\" AND ((\"1\") OR (\"2\"))");
    }
}
