//! Snippets: the part of a text that matches.

use std::ops::Range;

use super::fold::FoldedText;
use super::matching::Manner;
use super::query::Wanted;

/// The maximum length of a snippet in characters, and how many of them come before the first match.
const MAX_LENGTH: usize = 200;
const MAX_BEFORE: usize = 60;
/// How many characters a cut may move to fall between words.
const MAX_SHIFT: usize = 20;

/// A piece of a snippet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnippetPiece {
    /// The text, on one line.
    pub text: String,
    /// Whether this piece matches the query.
    pub found: bool,
}

/// The part of a text around its first match. `…` stands for text that is left out.
pub fn snippet(text: &str, wanted: &Wanted, manner: Manner) -> Vec<SnippetPiece> {
    let folded = FoldedText::of(text);
    let places: Vec<Range<usize>> = wanted
        .places(&folded.text, manner)
        .into_iter()
        .map(|place| folded.origin(place.start)..folded.origin(place.end))
        .filter(|place| !place.is_empty())
        .collect();
    let first = places.first().map_or(0, |place| place.start);
    let from = beginning(text, first);
    let to = end(text, from).max(places.first().map_or(0, |place| place.end.min(advance(text, first, MAX_LENGTH))));
    let mut pieces = Vec::new();
    let mut at = from;
    add(&mut pieces, if from > 0 { "…" } else { "" }, false);
    for place in places.iter().filter(|place| place.start < to) {
        add(&mut pieces, &text[at..place.start], false);
        at = place.end.min(to);
        add(&mut pieces, &text[place.start..at], true);
    }
    add(&mut pieces, &text[at..to], false);
    add(&mut pieces, if to < text.len() { "…" } else { "" }, false);
    pieces
}

/// Where the snippet begins: some characters before `place`, at a word boundary if possible.
fn beginning(text: &str, place: usize) -> usize {
    let before: Vec<usize> = text[..place].char_indices().rev().take(MAX_BEFORE).map(|(at, _)| at).collect();
    let Some(&from) = before.last() else { return place };
    if from == 0 {
        return 0;
    }
    let word = text[from..place].char_indices().take(MAX_SHIFT).find(|(_, letter)| letter.is_whitespace());
    word.map_or(from, |(at, letter)| from + at + letter.len_utf8())
}

/// Where the snippet ends, at a word boundary if possible.
fn end(text: &str, from: usize) -> usize {
    let to = advance(text, from, MAX_LENGTH);
    if to == text.len() {
        return to;
    }
    let word = text[from..to].char_indices().rev().take(MAX_SHIFT).find(|(_, letter)| letter.is_whitespace());
    word.map_or(to, |(at, _)| from + at)
}

fn advance(text: &str, from: usize, letters: usize) -> usize {
    text[from..].char_indices().nth(letters).map_or(text.len(), |(at, _)| from + at)
}

/// Appends text on one line. Joins it to the last piece if both match or both do not.
fn add(pieces: &mut Vec<SnippetPiece>, text: &str, found: bool) {
    if text.is_empty() {
        return;
    }
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    match pieces.last_mut().filter(|last| last.found == found) {
        Some(last) => last.text.push_str(&line),
        None => pieces.push(SnippetPiece { text: line, found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(typed: &str, text: &str) -> String {
        let pieces = snippet(text, &Wanted::parse(typed).unwrap(), Manner::Parts);
        pieces.iter().map(|piece| if piece.found { format!("[{}]", piece.text) } else { piece.text.clone() }).collect()
    }

    #[test]
    fn what_was_found_is_marked_in_the_original_spelling() {
        assert_eq!(shown("cafe creme", "Un Café,\nune CRÈME!"), "Un [Café], une [CRÈME]!");
        assert_eq!(shown("house", "the lighthouses"), "the light[house]s");
        assert_eq!(shown("京都", "私は東京都です"), "私は東[京都]です");
        assert_eq!(shown("nothing", "something else"), "something else");
    }

    #[test]
    fn a_long_text_is_cut_between_words_around_what_was_found() {
        let text = format!("{}needle {}", "before ".repeat(50), "after ".repeat(50));
        let shown = shown("needle", &text);
        assert!(shown.starts_with("…before ") && shown.ends_with("after…"), "{shown}");
        assert!(shown.contains(" [needle] ") && shown.chars().count() < MAX_LENGTH + 10, "{shown}");
    }

    #[test]
    fn a_text_without_spaces_is_cut_too() {
        let text = format!("{}針{}", "前".repeat(500), "後".repeat(500));
        let shown = shown("針", &text);
        assert!(shown.contains("前[針]後") && shown.chars().count() < MAX_LENGTH + 10, "{shown}");
        assert!(super::snippet(&"x".repeat(900), &Wanted::parse("xxx").unwrap(), Manner::Parts).len() < 300);
    }
}
