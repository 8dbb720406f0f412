//! Questions that differ in all words that memory is asked by.
//!
//! Each question has five words of its own, longer than all others in it. Memory is asked by the longest words.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many questions there are. They are asked in turn, so a question returns after all others.
const QUESTIONS: usize = 512;
/// Words of a question.
const WORDS: usize = 5;
/// All words together.
pub(in crate::bench) const VOCABULARY: usize = QUESTIONS * WORDS;

const SYLLABLES: [&str; 16] =
    ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "to", "vu", "za"];

/// The number of the next question, in the whole run.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A word. All have ten letters.
pub(in crate::bench) fn word(number: usize) -> String {
    let digits = [number / 256, number / 16, number].map(|digit| SYLLABLES[digit % 16]);
    format!("kalo{}", digits.concat())
}

/// The next question. All have the same length, which is about that of [`super::USER_TEXT`].
pub(super) fn next() -> String {
    question(NEXT.fetch_add(1, Ordering::Relaxed) % QUESTIONS)
}

fn question(number: usize) -> String {
    let words: Vec<String> = (0..WORDS).map(|nth| word(number * WORDS + nth)).collect();
    format!("Please look again and tell me what you know of {}.", words.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_questions_share_a_long_word() {
        let questions: Vec<String> = (0..QUESTIONS).map(question).collect();
        let letters = |text: &str| text.chars().filter(|letter| letter.is_alphanumeric()).count();
        let long: Vec<&str> =
            questions.iter().flat_map(|text| text.split(' ')).filter(|word| letters(word) > 6).collect();
        assert_eq!(long.len(), VOCABULARY);
        assert_eq!(long.iter().collect::<HashSet<_>>().len(), VOCABULARY);
        assert!(questions.iter().all(|text| text.len() == questions[0].len()));
    }
}
