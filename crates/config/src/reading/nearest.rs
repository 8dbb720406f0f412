//! Finds the nearest match of a misspelled word.

/// A suggestion needs a likeness above this. A worse one would confuse the operator.
const MIN_LIKENESS: f64 = 0.6;

/// The candidate most like `word`, if one is like it enough. Of equal candidates the first wins.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_by(candidates, |candidate| likeness(word, candidate))
}

/// The candidate with the highest score, if it is high enough. Of equal candidates the first wins.
pub(crate) fn nearest_by<'a>(
    candidates: impl IntoIterator<Item = &'a str>,
    score: impl Fn(&str) -> f64,
) -> Option<&'a str> {
    let mut best = None;
    let mut best_score = MIN_LIKENESS;
    for candidate in candidates {
        let score = score(candidate);
        if score > best_score {
            (best, best_score) = (Some(candidate), score);
        }
    }
    best
}

/// How alike two words are, from 0 to 1. Ignores case and the difference between `-` and `_`.
pub(crate) fn likeness(left: &str, right: &str) -> f64 {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    strsim::normalized_damerau_levenshtein(&plain(left), &plain(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_words_find_their_neighbour() {
        let words = ["listen", "cors_origins", "drain_timeout"];
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("LISTEN", Some("listen")),
            ("cors-origin", Some("cors_origins")),
            ("draintimeout", Some("drain_timeout")),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
    }
}
