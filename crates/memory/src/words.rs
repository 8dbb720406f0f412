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

/// Words that say nothing about a subject, in the languages that are written most. Folded, sorted. A word of one
/// language may say much in another one, such as "son" or "den". So those of the text's own language are left out.
const COMMON: [&[&str]; 4] = [ENGLISH, GERMAN, FRENCH, SPANISH];

/// English.
const ENGLISH: &[&str] = &[
    "about", "again", "also", "am", "an", "and", "any", "are", "as", "at", "be", "but", "by", "can", "could", "did",
    "do", "does", "doing", "don", "done", "for", "from", "gave", "get", "give", "go", "got", "had", "has", "have",
    "he", "hello", "her", "here", "hey", "him", "his", "how", "if", "in", "into", "is", "it", "its", "just", "know",
    "let", "like", "make", "may", "me", "more", "much", "must", "my", "no", "not", "now", "of", "off", "on", "one",
    "only", "or", "our", "out", "per", "please", "said", "say", "she", "should", "so", "some", "such", "tell", "than",
    "thanks", "that", "the", "their", "them", "then", "there", "these", "they", "thing", "this", "those", "to", "too",
    "up", "us", "use", "very", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with",
    "would", "you", "your",
];

/// German.
const GERMAN: &[&str] = &[
    "aber", "als", "also", "am", "an", "auch", "auf", "aus", "bei", "bin", "bist", "da", "dann", "das", "dass", "dein",
    "dem", "den", "der", "des", "die", "diese", "dir", "du", "durch", "ein", "eine", "einem", "einen", "einer", "er",
    "es", "fur", "hast", "hat", "ich", "ihr", "im", "in", "ist", "ja", "kann", "kannst", "mein", "meine", "mich",
    "mir", "mit", "nach", "nicht", "noch", "ob", "oder", "sein", "sie", "sind", "so", "um", "und", "von", "vor",
    "wann", "war", "warum", "was", "welche", "wenn", "wer", "wie", "wir", "wird", "wo", "zu", "zum", "zur",
];

/// French.
const FRENCH: &[&str] = &[
    "au", "avec", "ce", "dans", "de", "des", "du", "elle", "en", "est", "et", "fait", "il", "ils", "je", "la", "le",
    "les", "ma", "mais", "me", "mes", "mon", "ne", "non", "nos", "nous", "on", "ou", "par", "pas", "pour", "que",
    "quel", "quelle", "qui", "sa", "se", "ses", "son", "sur", "ta", "te", "tu", "un", "une", "vous",
];

/// Spanish, and what Portuguese and Italian share with it.
const SPANISH: &[&str] = &[
    "al", "como", "con", "cual", "cuando", "de", "del", "donde", "el", "en", "eres", "es", "esta", "estas", "este",
    "la", "las", "lo", "los", "mi", "no", "non", "para", "per", "pero", "por", "que", "quien", "se", "si", "su", "te",
    "tu", "un", "una", "uno", "ya", "yo",
];

/// How many words of a text tell its language.
const TELLING_WORDS: usize = 64;
/// How long an abbreviation of two letters counts as.
const ABBREVIATION: usize = 4;

/// The words of a text by which memory is asked: the longest ones, without those that every text of its language has.
/// Of a script without spaces, pairs of letters. A word of two letters counts if it is written in capitals. If nothing
/// is left, other words of two letters count, and names that are also common words ("Who is May?").
pub(crate) fn asked_words(text: &str) -> Vec<String> {
    let text = beginning(text, MOST_TEXT);
    let folded = fold(text);
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut short: Vec<&str> = Vec::new();
    let mut pairs: Vec<&str> = Vec::new();
    for word in words(&folded) {
        if word.cjk {
            pairs.extend(pairs_of(word.text).filter(|pair| !pair.chars().all(is_hiragana)));
            continue;
        }
        match word.text.chars().count() {
            1 => {}
            2 => short.push(word.text),
            length => found.push((length, word.text)),
        }
    }
    let language = Language::of(words(&folded).take(TELLING_WORDS).map(|word| word.text));
    let capitals = if short.is_empty() { Vec::new() } else { abbreviations(text) };
    found.extend(capitals.iter().map(|word| (ABBREVIATION, word.as_str())));
    // The sort is stable, so earlier words stay before later ones of the same length.
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    let mut asked = AskedWords(Vec::with_capacity(MOST_WORDS));
    for (_, word) in found {
        if asked.is_full() {
            break;
        }
        // Only words that are long enough to be asked are looked up here. A pair of letters is never common.
        if capitals.iter().any(|known| known == word) || !language.has_often(word) {
            asked.add(word);
        }
    }
    pairs.into_iter().for_each(|pair| asked.add(pair));
    if asked.0.is_empty() {
        names(text).iter().for_each(|name| asked.add(name));
        short.into_iter().filter(|word| !is_common_anywhere(word)).for_each(|word| asked.add(word));
    }
    asked.0
}

/// Words without repetition, at most [`MOST_WORDS`].
struct AskedWords(Vec<String>);

impl AskedWords {
    fn is_full(&self) -> bool {
        self.0.len() == MOST_WORDS
    }

    fn add(&mut self, word: &str) {
        if !self.is_full() && !self.0.iter().any(|known| known == word) {
            self.0.push(word.to_owned());
        }
    }
}

/// The languages that have most of a text's common words. More than one if they have equally many.
struct Language([bool; COMMON.len()]);

impl Language {
    fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut hits = [0; COMMON.len()];
        for word in words {
            for (hits, common) in hits.iter_mut().zip(COMMON) {
                *hits += usize::from(common.binary_search(&word).is_ok());
            }
        }
        let most = hits.into_iter().max().unwrap_or(0).max(1);
        Self(hits.map(|hits| hits == most))
    }

    fn has_often(&self, word: &str) -> bool {
        self.0.iter().zip(COMMON).any(|(is_own, common)| *is_own && common.binary_search(&word).is_ok())
    }
}

fn is_common_anywhere(word: &str) -> bool {
    COMMON.iter().any(|common| common.binary_search(&word).is_ok())
}

/// The words of two letters that are written in capitals, folded. None if all of the text is.
fn abbreviations(text: &str) -> Vec<String> {
    if !text.chars().any(char::is_lowercase) {
        return Vec::new();
    }
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words.filter(|word| word.chars().count() == 2 && word.chars().all(char::is_uppercase)).map(fold).collect()
}

/// The words of three or more letters that begin with a capital but no sentence, folded.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut begins_sentence = true;
    for word in text.split_whitespace() {
        let bare = word.split(|letter: char| !letter.is_alphanumeric()).find(|part| !part.is_empty()).unwrap_or("");
        if !begins_sentence && bare.chars().count() > 2 && bare.chars().next().is_some_and(char::is_uppercase) {
            names.push(fold(bare));
        }
        begins_sentence = word.ends_with(['.', '!', '?', ':']);
    }
    names
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
        assert!(COMMON.iter().all(|words| words.is_sorted()));
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
    fn short_words_and_words_that_are_common_elsewhere_are_asked_for() {
        assert_eq!(asked_words("Who is my son?"), ["son"]);
        assert_eq!(asked_words("How large is my den?"), ["large", "den"]);
        assert_eq!(asked_words("Où est son chien?"), ["chien"]);
        assert_eq!(asked_words("Who is May?"), ["may"]);
        assert_eq!(asked_words("May I? You may."), Vec::<String>::new());
        assert_eq!(asked_words("Who is in QA?"), ["qa"]);
        assert_eq!(asked_words("What is my pw?"), ["pw"]);
        assert_eq!(asked_words("Which TV did I buy for the kitchen?"), ["kitchen", "tv", "buy"]);
        assert_eq!(asked_words("How are you?"), Vec::<String>::new());
        assert_eq!(asked_words("IS IT SO"), Vec::<String>::new());
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
