//! The query that yields the candidates of a search.

use herma_store::search::{Manner, Term, TermWord, Wanted};

use super::terms::{BEGINNING, CONVERSATION, LONGEST, PART, TENANT, quoted};

/// The largest number of three-letter groups that are asked for. More would hardly exclude other texts.
const MOST_PARTS: usize = 24;
/// A term is left out if it has this many times as many rows as the rarest one beside it. To check a row against its
/// text takes about as long as this many steps in the index.
const FAR_MORE: i64 = 100;
/// The largest number of common words whose rows are counted to see how rare a word of a phrase is.
const MOST_COUNTED: usize = 8;

/// What candidates must have: one term of each group.
pub(super) struct Asked {
    groups: Vec<Vec<AskedTerm>>,
}

/// A word or a phrase.
type AskedTerm = Vec<AskedWord>;

/// What a text with a word, or with a part of a word, has: all of `terms`, or one of the common words.
struct AskedWord {
    terms: Vec<String>,
    common: Vec<String>,
}

impl Asked {
    /// What every hit has. `common` finds the common words that have a part, or that begin with it.
    pub(super) fn of<E>(
        wanted: &Wanted,
        manner: Manner,
        mut common: impl FnMut(&str, bool) -> Result<Vec<String>, E>,
    ) -> Result<Self, E> {
        let mut groups = Vec::with_capacity(wanted.groups.len());
        for group in &wanted.groups {
            let terms = group.iter().map(|term| asked_term(term, manner, &mut common));
            groups.push(terms.collect::<Result<Vec<_>, E>>()?);
        }
        Ok(Self { groups })
    }

    /// The same without terms that are far more common than another term of the same word, and without words that are
    /// far more common than another word of the same phrase. It yields more rows that are no hits, and is faster:
    /// SQLite steps through the entries of every term one by one. `rows` tells how many rows have a term.
    pub(super) fn rare<E>(mut self, mut rows: impl FnMut(&str) -> Result<i64, E>) -> Result<Self, E> {
        for term in self.groups.iter_mut().flatten() {
            drop_frequent(term, &mut rows)?;
        }
        Ok(self)
    }

    /// The same for titles, which have the parts of all their words in the index.
    pub(super) fn in_titles(mut self) -> Self {
        for word in self.groups.iter_mut().flatten().flatten() {
            word.common.clear();
        }
        self
    }

    /// The query for rows of one tenant or of all.
    pub(super) fn expression(&self, tenant: Option<i64>) -> String {
        let groups = self.groups.iter().map(|group| {
            let alternatives: Vec<String> = group.iter().map(|term| all_of(term)).collect();
            format!("({})", alternatives.join(" OR "))
        });
        let tenant = tenant.map(|tenant| format!("\"{TENANT}{tenant}\""));
        tenant.into_iter().chain(groups).collect::<Vec<_>>().join(" AND ")
    }
}

/// The same query within one conversation.
pub(super) fn within(expression: &str, conversation: i64) -> String {
    format!("\"{CONVERSATION}{conversation}\" AND {expression}")
}

fn all_of(term: &[AskedWord]) -> String {
    let words: Vec<String> = term.iter().map(AskedWord::expression).collect();
    format!("({})", words.join(" AND "))
}

impl AskedWord {
    const fn exactly(terms: Vec<String>) -> Self {
        Self { terms, common: Vec::new() }
    }

    fn expression(&self) -> String {
        let terms: Vec<String> = self.terms.iter().map(|term| quoted(term)).collect();
        let mut any = vec![terms.join(" AND ")];
        if self.common.is_empty() {
            return any.remove(0);
        }
        if self.terms.len() > 1 {
            any[0] = format!("({})", any[0]);
        }
        any.extend(self.common.iter().map(|word| quoted(word)));
        format!("({})", any.join(" OR "))
    }
}

fn drop_frequent<E>(term: &mut AskedTerm, rows: &mut impl FnMut(&str) -> Result<i64, E>) -> Result<(), E> {
    if let [word] = term.as_slice()
        && word.terms.len() == 1
    {
        // A single term is asked for in any case.
        return Ok(());
    }
    let is_phrase = term.len() > 1;
    let mut totals = Vec::with_capacity(term.len());
    for word in term.iter_mut() {
        let terms = std::mem::take(&mut word.terms);
        let counted = terms.into_iter().map(|term| Ok((rows(&term)?, term))).collect::<Result<Vec<_>, E>>()?;
        let mut total = counted.iter().map(|(rows, _)| *rows).min().unwrap_or_default();
        let most = far_more_than(total);
        word.terms = counted.into_iter().filter(|(rows, _)| *rows <= most).map(|(_, term)| term).collect();
        match word.common.as_slice() {
            _ if !is_phrase => {}
            common if common.len() > MOST_COUNTED => total = i64::MAX,
            common => {
                for word in common {
                    total = total.saturating_add(rows(word)?);
                }
            }
        }
        totals.push(total);
    }
    let most = totals.iter().copied().min().map_or(i64::MAX, far_more_than);
    let mut totals = totals.into_iter();
    term.retain(|_| totals.next().is_some_and(|total| total <= most));
    Ok(())
}

fn far_more_than(rows: i64) -> i64 {
    rows.max(1).saturating_mul(FAR_MORE)
}

fn asked_term<E>(
    term: &Term,
    manner: Manner,
    common: &mut impl FnMut(&str, bool) -> Result<Vec<String>, E>,
) -> Result<AskedTerm, E> {
    let parts = manner == Manner::Parts && term.has_parts();
    let last = term.words.len() - 1;
    let words = term.words.iter().enumerate();
    words
        .filter_map(|(index, word)| asked_word(word, parts, term.prefix && index == last, common).transpose())
        .collect()
}

/// `None` for a part that is too short to be looked for.
fn asked_word<E>(
    word: &TermWord,
    parts: bool,
    prefix: bool,
    common: &mut impl FnMut(&str, bool) -> Result<Vec<String>, E>,
) -> Result<Option<AskedWord>, E> {
    let letters: Vec<char> = word.text.chars().collect();
    let asked = match letters.as_slice() {
        [one] if word.cjk => AskedWord::exactly(vec![one.to_string()]),
        _ if word.cjk => AskedWord::exactly(letters.windows(2).take(MOST_PARTS).map(String::from_iter).collect()),
        [] | [_] | [_, _] if parts => return Ok(None),
        // Common words have their first letter in the index.
        [] | [_] if prefix => AskedWord::exactly(vec![marked(BEGINNING, &letters)]),
        [_, _] if prefix => AskedWord { terms: vec![marked(BEGINNING, &letters)], common: common(&word.text, true)? },
        _ if parts || prefix => AskedWord {
            terms: letters.windows(3).take(MOST_PARTS).map(|part| marked(PART, part)).collect(),
            common: common(&word.text, !parts)?,
        },
        _ => AskedWord::exactly(vec![letters.iter().take(LONGEST).collect()]),
    };
    Ok(Some(asked))
}

fn marked(mark: &str, letters: &[char]) -> String {
    mark.chars().chain(letters.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;

    use herma_store::search::{fold, words};

    use super::super::terms::{RowOwner, may_be_cut, of_text};
    use super::*;

    const ROW: RowOwner<'_> = RowOwner { key: 1, tenant: 1, conversation: 2, session_key: None };

    fn asked(typed: &str, manner: Manner, common: &[&str]) -> Asked {
        let wanted = Wanted::parse(typed).unwrap();
        let with_part = |part: &str, begin| {
            let found = common.iter().filter(|word| if begin { word.starts_with(part) } else { word.contains(part) });
            Ok::<_, Infallible>(found.map(|word| (*word).to_owned()).collect())
        };
        let Ok(asked) = Asked::of(&wanted, manner, with_part);
        asked
    }

    /// Whether a text has what is asked for, as the index would see it.
    fn yields(typed: &str, text: &str, manner: Manner, common: &[&str]) -> bool {
        let line = of_text(&fold(text), ROW, |word| common.contains(&word));
        let terms: HashSet<&str> = line.split(' ').collect();
        let has = |term: &String| terms.contains(term.as_str());
        let has_word = |word: &AskedWord| word.terms.iter().all(has) || word.common.iter().any(has);
        asked(typed, manner, common).groups.iter().all(|group| group.iter().any(|term| term.iter().all(has_word)))
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
            let folded = fold(text);
            let all: Vec<&str> =
                words(&folded).filter(|word| !word.cjk && !may_be_cut(word.text)).map(|word| word.text).collect();
            for common in [&[], all.as_slice()] {
                for manner in [Manner::Words, Manner::Parts] {
                    if wanted.rate(&folded, manner).is_some() {
                        assert!(yields(typed, text, manner, common), "{typed} in {text}, {manner:?}, {common:?}");
                    }
                }
                assert!(yields(typed, text, Manner::Parts, common), "{typed} in {text}, {common:?}");
            }
        }
        assert!(!yields("ago", "go", Manner::Parts, &[]));
        assert!(!yields("東都", "東京都", Manner::Words, &[]));
        assert!(!yields("ght*", "light", Manner::Words, &["light"]));
    }

    #[test]
    fn terms_that_are_far_more_common_than_another_are_not_asked_for() {
        let rows = |term: &str| {
            let rows = match term.trim_start_matches(PART) {
                "c12" => 7,
                "ic1" => 700,
                _ => 701,
            };
            Ok::<i64, Infallible>(rows)
        };
        let Ok(rare) = asked("topic12 OR if", Manner::Parts, &[]).rare(rows);
        assert_eq!(rare.expression(None), "((\"\u{e002}ic1\" AND \"\u{e002}c12\") OR (\"if\"))");
        let Ok(even) = asked("topic12 OR if", Manner::Parts, &[]).rare(|_| Ok::<i64, Infallible>(0));
        assert_eq!(even.expression(None), asked("topic12 OR if", Manner::Parts, &[]).expression(None));
    }

    #[test]
    fn words_of_a_phrase_that_are_far_more_common_than_another_are_not_asked_for() {
        let typed = "\"ouse ebr\"";
        let all = "((((\"\u{e002}ous\" AND \"\u{e002}use\") OR \"house\") AND \"\u{e002}ebr\"))";
        assert_eq!(asked(typed, Manner::Parts, &["house"]).expression(None), all);
        let rows = |house, ebr| {
            move |term: &str| {
                Ok::<i64, Infallible>(match term.trim_start_matches(PART) {
                    "house" => house,
                    "ebr" => ebr,
                    _ => 3,
                })
            }
        };
        for (house, ebr, expected) in [
            (700, 8, all),
            (900, 8, "((\"\u{e002}ebr\"))"),
            (1, 900, "((((\"\u{e002}ous\" AND \"\u{e002}use\") OR \"house\")))"),
        ] {
            let Ok(rare) = asked(typed, Manner::Parts, &["house"]).rare(rows(house, ebr));
            assert_eq!(rare.expression(None), expected, "{house} {ebr}");
        }
    }

    #[test]
    fn tenant_and_conversation_are_asked_for_by_terms_of_their_own() {
        let asked = |tenant| within(&asked("1 OR 2", Manner::Words, &[]).expression(tenant), 2);
        assert_eq!(asked(Some(1)), "\"\u{e001}2\" AND \"\u{e000}1\" AND ((\"1\") OR (\"2\"))");
        assert_eq!(asked(None), "\"\u{e001}2\" AND ((\"1\") OR (\"2\"))");
    }
}
