//! The terms of a row of the index.
//!
//! Terms that are not words begin with a character that no word contains.

use std::fmt::Write as _;

use herma_model::Digest;
use herma_store::search::words;

pub(super) const TENANT: char = '\u{e000}';
pub(super) const CONVERSATION: char = '\u{e001}';
pub(super) const PART: &str = "\u{e002}";
pub(super) const BEGINNING: &str = "\u{e003}";
const KEY: char = '\u{e004}';

/// The longest word that is indexed whole, in letters. A longer word is cut to this length.
pub(crate) const LONGEST: usize = 40;

/// What makes a row of the index, beside its text.
#[derive(Clone, Copy)]
pub(crate) struct RowOwner<'a> {
    /// The key of the row. Titles have keys below zero.
    pub(crate) key: i64,
    pub(crate) tenant: i64,
    pub(crate) conversation: i64,
    /// Messages have the session key of their conversation.
    pub(crate) session_key: Option<&'a str>,
}

/// The terms of a folded text, separated by spaces. Common words have no parts among them.
pub(crate) fn of_text(folded: &str, row: RowOwner<'_>, is_common: impl FnMut(&str) -> bool) -> String {
    let mut line = String::with_capacity(folded.len() * 4 + 64);
    let _ = write!(line, "{TENANT}{} {CONVERSATION}{} ", row.tenant, row.conversation);
    if let Some(session_key) = row.session_key {
        let _ = write!(line, "{} ", of_key(row.tenant, session_key));
    }
    add_words(folded, &mut line, is_common);
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
    within_length(word).to_owned()
}

fn within_length(word: &str) -> &str {
    let end = if word.len() > LONGEST { word.char_indices().nth(LONGEST) } else { None };
    end.map_or(word, |(end, _)| &word[..end])
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

/// Whether a word may be too long to be indexed whole, or as long as a word that was cut.
pub(super) fn may_be_cut(word: &str) -> bool {
    word.len() >= LONGEST && word.chars().nth(LONGEST - 1).is_some()
}

/// The parts of a word that the index does not have if the word is common. A part that occurs twice comes twice.
pub(super) fn parts(word: &str) -> Vec<ShortTerm> {
    let mut parts = Vec::with_capacity(word.len());
    if word.is_ascii() {
        parts.extend(parts_of(word.as_bytes()));
    } else {
        parts.extend(parts_of(&word.chars().collect::<Vec<_>>()));
    }
    parts
}

/// The first two letters, and all groups of three. Letters are bytes if all of them are ASCII.
fn parts_of<L: Copy>(letters: &[L]) -> impl Iterator<Item = ShortTerm>
where
    u64: From<L>,
{
    let beginning = letters.get(..2).map(ShortTerm::beginning);
    beginning.into_iter().chain(letters.windows(3).map(ShortTerm::of))
}

/// The first eight bytes of a word. Most words differ there, and numbers are compared faster than texts.
pub(super) fn sort_key(word: &str) -> u64 {
    word.bytes().take(8).fold(0, |bytes, byte| bytes << 8 | u64::from(byte))
}

/// Adds the terms of the words of a folded text, each once. A word that was cut may appear twice, which does not matter
/// to the index. All words have their first letter, because a search would have to ask for too many common words.
fn add_words(folded: &str, line: &mut String, mut is_common: impl FnMut(&str) -> bool) {
    let mut texts: Vec<_> = words(folded).map(|word| (sort_key(word.text), word.text, word.cjk)).collect();
    texts.sort_unstable();
    texts.dedup();
    let mut letters: Vec<char> = Vec::new();
    let mut short = Vec::with_capacity(folded.len());
    for (_, text, cjk) in texts {
        let is_common = !cjk && is_common(text);
        if let (true, &[first, ..]) = (text.is_ascii(), text.as_bytes()) {
            short.push(ShortTerm::beginning(&[first]));
            if !is_common {
                short.extend(parts_of(text.as_bytes()));
            }
        } else {
            letters.clear();
            letters.extend(text.chars());
            if cjk {
                short.extend(letters.iter().map(|letter| ShortTerm::of(&[*letter])));
                short.extend(letters.windows(2).map(ShortTerm::of));
                continue;
            }
            short.push(ShortTerm::beginning(&letters[..1]));
            if !is_common {
                short.extend(parts_of(&letters));
            }
        }
        line.push_str(within_length(text));
        line.push(' ');
    }
    short.sort_unstable();
    short.dedup();
    short.into_iter().for_each(|term| term.add_to(line));
}

/// A term of at most three letters, 21 bits each. The highest bit says whether they begin a word. Three letters are a
/// part of a word, others are signs of a script without spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShortTerm(u64);

impl ShortTerm {
    const BEGINS: u64 = 1 << 63;

    fn of<L: Copy>(letters: &[L]) -> Self
    where
        u64: From<L>,
    {
        Self(letters.iter().fold(0, |packed, letter| (packed << 21) | u64::from(*letter)))
    }

    fn beginning<L: Copy>(letters: &[L]) -> Self
    where
        u64: From<L>,
    {
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

/// The query for rows that have this term.
pub(super) fn quoted(term: &str) -> String {
    format!("\"{term}\"")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
        let line = of_text(
            &herma_store::search::fold("Dogs 犬の house and so on"),
            RowOwner { key: 1, tenant: 1, conversation: 2, session_key: Some("ann") },
            |word| word == "house",
        );
        let mut found: Vec<&str> = words_of_line(&line).collect();
        found.sort_unstable();
        assert_eq!(found, ["and", "dogs", "house", "on", "so", "の", "犬", "犬の"]);
    }

    #[test]
    fn a_key_has_a_term_of_its_own_in_each_tenant() {
        let keys = [of_key(1, "a:b"), of_key(1, "a-b"), of_key(2, "a:b"), of_key(1, "A:b"), of_key(1, "a b")];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        let row = RowOwner { key: 1, tenant: 1, conversation: 2, session_key: Some("a b") };
        assert!(of_text("dog", row, |_| false).contains(&format!(" {} ", keys[4])));
        assert_eq!(under_key("k", "dog", Some(7)), "(\"k\" AND (\"dog\" OR \"dogs\")) NOT \"\u{e001}7\"");
        assert_eq!(under_key("k", "dogs", None), "\"k\" AND (\"dogs\" OR \"dog\")");
        assert_eq!(under_key("k", "猫", None), "\"k\" AND (\"猫\")");
    }
}
