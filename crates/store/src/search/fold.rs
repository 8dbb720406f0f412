//! Folding text for comparison: it removes case, accents and character widths, makes white space one space, and splits
//! words.
//!
//! Every engine indexes and compares folded text. So results do not depend on a database's own rules about letters.

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCompositionBorrowed;

/// A folded text with the origin of each of its characters.
pub(super) struct FoldedText {
    pub(super) text: String,
    /// For every byte of the folded text, where its character begins in the original.
    origins: Vec<usize>,
    length: usize,
}

impl FoldedText {
    pub(super) fn of(text: &str) -> Self {
        let mut folded = Self { text: String::with_capacity(text.len()), origins: Vec::new(), length: text.len() };
        fold_each(text, |origin, letter| {
            folded.text.push(letter);
            folded.origins.resize(folded.text.len(), origin);
        });
        folded
    }

    /// Where in the original the character at a folded position begins.
    pub(super) fn origin(&self, at: usize) -> usize {
        self.origins.get(at).copied().unwrap_or(self.length)
    }
}

/// Folds a text.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return fold_ascii(text);
    }
    let mut folded = String::with_capacity(text.len());
    fold_each(text, |_, letter| folded.push(letter));
    folded
}

fn fold_ascii(text: &str) -> String {
    let mut folded = text.to_ascii_lowercase().into_bytes();
    let mut before = b' ';
    folded.retain_mut(|byte| {
        if is_blank(*byte) {
            *byte = b' ';
        }
        let is_kept = *byte != b' ' || before != b' ';
        before = *byte;
        is_kept
    });
    String::from_utf8(folded).unwrap_or_default()
}

/// White space and control characters of ASCII.
const fn is_blank(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// Folds a text letter by letter. `push` gets each letter with its position in the original.
fn fold_each(text: &str, mut push: impl FnMut(usize, char)) {
    let compose = CanonicalCompositionBorrowed::new();
    let decompose = DecomposingNormalizerBorrowed::new_nfkd();
    let mut held: Option<(usize, char)> = None;
    let mut take = |origin: usize, letter: char| match held {
        // Runs of white space become one space. A text does not begin with a space.
        Some((_, ' ')) | None if letter == ' ' => {}
        // Joins letters that were written in parts: kana with a sound mark, Korean syllables.
        Some((at, before)) if is_part(letter) => match compose.compose(before, letter) {
            Some(whole) => held = Some((at, whole)),
            None => {
                push(at, before);
                held = Some((origin, letter));
            }
        },
        _ => {
            if let Some((at, before)) = held.replace((origin, letter)) {
                push(at, before);
            }
        }
    };
    for (origin, letter) in text.char_indices() {
        if letter.is_ascii() {
            let blank = u8::try_from(letter).is_ok_and(is_blank);
            take(origin, if blank { ' ' } else { letter.to_ascii_lowercase() });
        } else if letter.is_whitespace() || letter.is_control() {
            take(origin, ' ');
        } else if is_whole(letter) {
            take(origin, letter);
        } else {
            for part in decompose.normalize_iter(std::iter::once(letter)) {
                part.to_lowercase().filter(|part| !is_accent(*part)).for_each(|part| take(origin, part));
            }
        }
    }
    if let Some((at, last)) = held {
        push(at, last);
    }
}

/// Letters that are never decomposed, because their parts mean something else.
fn is_whole(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{ac00}'..='\u{d7a3}' | '\u{4e00}'..='\u{9fff}')
}

/// Characters that combine with the letter before them into another letter.
fn is_part(letter: char) -> bool {
    matches!(letter, '\u{3099}' | '\u{309a}' | '\u{1161}'..='\u{11ff}')
}

fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// Whether a letter belongs to a script that is written without spaces between words.
pub fn is_cjk(letter: char) -> bool {
    letter.is_alphanumeric()
        && matches!(
            letter,
            '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{a4cf}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}' | '\u{ff65}'..='\u{ffdc}' | '\u{1b000}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}'
        )
}

/// A run of letters and digits. Either all or none of them are Chinese, Japanese or Korean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<'a> {
    /// Where it begins in the text, in bytes.
    pub at: usize,
    /// The letters.
    pub text: &'a str,
    /// Whether its script has no spaces between words.
    pub cjk: bool,
}

/// The words of a folded text, in order.
pub fn words(folded: &str) -> impl Iterator<Item = Word<'_>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (mut at, mut found) = (next, LetterKind::at(folded, next)?);
        while found.0 == LetterKind::None {
            at = found.1;
            found = LetterKind::at(folded, at)?;
        }
        let (kind, mut end) = found;
        loop {
            if kind == LetterKind::Spaced {
                end += folded.as_bytes()[end..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            }
            match LetterKind::at(folded, end) {
                Some((same, after)) if same == kind => end = after,
                _ => break,
            }
        }
        next = end;
        Some(Word { at, text: &folded[at..end], cjk: kind == LetterKind::Cjk })
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LetterKind {
    None,
    /// Of a script with spaces between words.
    Spaced,
    Cjk,
}

impl LetterKind {
    /// The kind of the character at a position, and where the next one begins. `None` at the end.
    fn at(folded: &str, at: usize) -> Option<(Self, usize)> {
        let byte = *folded.as_bytes().get(at)?;
        if byte.is_ascii() {
            return Some((if byte.is_ascii_alphanumeric() { Self::Spaced } else { Self::None }, at + 1));
        }
        let letter = folded[at..].chars().next()?;
        let kind = match letter {
            _ if !is_letter(letter) => Self::None,
            _ if is_cjk(letter) => Self::Cjk,
            _ => Self::Spaced,
        };
        Some((kind, at + letter.len_utf8()))
    }
}

/// Letters, digits, and the vowel marks of some scripts.
pub(super) fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric()
        || matches!(letter, '\u{900}'..='\u{109f}' | '\u{1780}'..='\u{17d3}' if !letter.is_ascii_punctuation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_folded_as_any_other() {
        for text in ["", " ", "  A  b\t\nC ", "\u{7}x\u{b}\u{b}Y", "no-Change_1", " \0 \u{7f}", "trailing  "] {
            assert_eq!(fold(text), FoldedText::of(text).text, "{text:?}");
        }
    }

    #[test]
    fn case_marks_widths_and_spaces_do_not_count() {
        for (text, folded) in [
            ("Crème  Brûlée\n", "creme brulee "),
            ("\u{65}\u{301}té", "ete"),
            ("ＡＢＣ ｶﾞ", "abc ガ"),
            ("Ünïcödé İ ﬁn", "unicode i fin"),
            ("か\u{3099} が", "が が"),
            ("\u{1112}\u{1161}\u{11ab}글", "한글"),
            ("Việt Ёлка", "viet елка"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }

    #[test]
    fn words_end_where_letters_or_scripts_do() {
        let texts = |text| words(text).map(|word| (word.text, word.cjk)).collect::<Vec<_>>();
        assert_eq!(texts("foo_bar, gpt模型!"), [("foo", false), ("bar", false), ("gpt", false), ("模型", true)]);
        assert_eq!(texts("한글 カタカナ・ー"), [("한글", true), ("カタカナ", true), ("ー", true)]);
        assert_eq!(texts("नमस्ते"), [("नमस्ते", false)]);
        assert_eq!(texts("... \u{e000}1"), [("1", false)]);
    }

    #[test]
    fn every_folded_letter_knows_its_origin() {
        let text = "  É ﬁ か\u{3099}x";
        let traced = FoldedText::of(text);
        assert_eq!(traced.text, fold(text));
        for (folded, original) in [("e", "É"), ("f", "ﬁ"), ("i", "ﬁ"), ("が", "か"), ("x", "x")] {
            let at = traced.text.find(folded).unwrap();
            assert_eq!(traced.origin(at), text.find(original).unwrap(), "{folded}");
        }
        assert_eq!(traced.origin(traced.text.len()), text.len());
    }
}
