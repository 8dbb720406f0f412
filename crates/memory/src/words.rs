//! Which words of a text are looked for, and which part of a found text is quoted.

use std::borrow::Cow;

use herma_store::search::{fold, words};

/// How many words are looked for. Each costs a look-up.
const MOST_WORDS: usize = 5;
/// How much of a text is read for its words, in bytes.
const MOST_TEXT: usize = 8 * 1024;
/// How many characters of a found text are quoted.
const MOST_QUOTED: usize = 400;
/// How many of them may stand before the first word that was found.
const BEFORE_WORD: usize = 120;

/// Words that say nothing about a subject, in the languages that are written most. Folded, sorted.
const COMMON: &[&str] = &[
    "aber", "about", "again", "als", "also", "and", "any", "are", "auch", "auf", "aus", "avec", "bei", "bin", "bist",
    "but", "can", "como", "con", "could", "cual", "cuando", "dann", "dans", "das", "dass", "dein", "dem", "den", "der",
    "des", "did", "die", "diese", "dir", "does", "doing", "don", "donde", "done", "durch", "ein", "eine", "einem",
    "einen", "einer", "elle", "eres", "est", "esta", "estas", "este", "fait", "for", "from", "fur", "gave", "get",
    "give", "got", "had", "has", "hast", "hat", "have", "hello", "her", "here", "hey", "him", "his", "how", "ich",
    "ihr", "ils", "into", "ist", "its", "just", "kann", "kannst", "know", "les", "let", "like", "los", "mais", "make",
    "may", "mein", "meine", "mes", "mich", "mir", "mit", "mon", "more", "much", "must", "nach", "nicht", "noch", "non",
    "nos", "not", "nous", "now", "oder", "off", "one", "only", "our", "out", "para", "pas", "per", "please", "por",
    "pour", "que", "quel", "quelle", "qui", "quien", "said", "say", "sein", "ses", "she", "should", "sie", "sind",
    "some", "son", "sont", "such", "sur", "tell", "than", "thanks", "that", "the", "their", "them", "then", "there",
    "these", "they", "thing", "this", "those", "too", "una", "und", "une", "uno", "use", "very", "von", "vor", "vous",
    "wann", "want", "war", "warum", "was", "welche", "wenn", "wer", "were", "what", "when", "where", "which", "who",
    "why", "wie", "will", "wir", "wird", "with", "would", "you", "your", "zum", "zur",
];

/// The words of a text by which memory is asked: the longest ones, without those that every text has. Of a script
/// without spaces, pairs of letters.
pub(crate) fn asked_words(text: &str) -> Vec<String> {
    let folded = fold(beginning(text, MOST_TEXT));
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut pairs: Vec<&str> = Vec::new();
    for word in words(&folded) {
        if word.cjk {
            pairs.extend(pairs_of(word.text).filter(|pair| !pair.chars().all(is_hiragana)));
            continue;
        }
        let length = word.text.chars().count();
        if length > 2 {
            found.push((length, word.text));
        }
    }
    // The sort is stable, so earlier words stay before later ones of the same length.
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    let mut asked: Vec<String> = Vec::with_capacity(MOST_WORDS);
    for word in found.into_iter().map(|(_, word)| word).chain(pairs) {
        if asked.len() == MOST_WORDS {
            break;
        }
        // Only words that are long enough to be asked are looked up here. A pair of letters is never common.
        if !asked.iter().any(|known| known == word) && COMMON.binary_search(&word).is_err() {
            asked.push(word.to_owned());
        }
    }
    asked
}

/// Each letter of a word with the next one.
fn pairs_of(word: &str) -> impl Iterator<Item = &str> {
    let ends = word.char_indices().map(|(at, letter)| at + letter.len_utf8()).skip(1);
    word.char_indices().zip(ends).map(|((from, _), to)| &word[from..to])
}

const fn is_hiragana(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{309f}')
}

/// The part of a text that has the first of the words: all of it, unless it is long. `None` if it has none of them.
pub(crate) fn excerpt<'a>(text: &'a str, folded: &str, asked: &[String]) -> Option<Cow<'a, str>> {
    if text.len() <= MOST_QUOTED || text.chars().count() <= MOST_QUOTED {
        return asked.iter().any(|word| folded.contains(stem(word))).then_some(Cow::Borrowed(text));
    }
    let at = asked.iter().filter_map(|word| folded.find(stem(word))).min()?;
    // Folding keeps the order of the letters, so the place in the folded text is about the place in the text.
    let skipped = folded[..at].chars().count().saturating_sub(BEFORE_WORD);
    let cut: String = text.chars().skip(skipped).take(MOST_QUOTED).collect();
    let (from, to) = (if skipped > 0 { "…" } else { "" }, "…");
    Some(Cow::Owned(format!("{from}{}{to}", cut.trim())))
}

/// The part of a word that its singular and its plural share.
fn stem(word: &str) -> &str {
    word.strip_suffix('s').filter(|stem| stem.len() > 2).unwrap_or(word)
}

fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_words_that_say_something_are_asked_for() {
        assert!(COMMON.is_sorted());
        assert_eq!(asked_words("What is my dog called?"), ["called", "dog"]);
        assert_eq!(asked_words("and the was"), Vec::<String>::new());
        assert_eq!(asked_words("Wie heißt mein Hund?"), ["heißt", "hund"]);
        assert_eq!(asked_words("私の犬の名前は"), ["私の", "の犬", "犬の", "の名", "名前"]);
        assert_eq!(asked_words("犬犬犬 犬 そのため"), ["犬犬"]);
        assert_eq!(asked_words("Bello and Bello, or bello"), ["bello"]);
        assert_eq!(asked_words(&"lighthouse keeper ".repeat(9_000)), ["lighthouse", "keeper"]);
        assert_eq!(asked_words("one two three four five sixth seventh eighth ninth tenth").len(), MOST_WORDS);
    }

    #[test]
    fn a_long_text_is_quoted_where_it_has_the_word() {
        let long = format!("{} The keeper is Ann. {}", "sea ".repeat(500), "wind ".repeat(500));
        let excerpt =
            |text: &str, word: &str| excerpt(text, &fold(text), &[word.to_owned()]).map(std::borrow::Cow::into_owned);
        let quoted = excerpt(&long, "keepers").unwrap();
        assert!(quoted.contains("The keeper is Ann.") && quoted.chars().count() <= MOST_QUOTED + 2, "{quoted}");
        assert_eq!(excerpt("short keeper", "keeper").as_deref(), Some("short keeper"));
        assert_eq!(excerpt("nothing of it", "keeper"), None);
    }
}
