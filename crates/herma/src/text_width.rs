//! Text by the columns that it takes in a terminal. A letter of Chinese, Japanese or Korean and an emoji take two.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The columns that a text takes. Codes of colours take none.
pub(crate) fn columns(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let behind_code = |part: &str| part.split_once('m').map_or(part.width(), |(_, rest)| rest.width());
    first.width() + parts.map(behind_code).sum::<usize>()
}

/// The letters of a text as people see them, each with its columns. An emoji of several code points is one letter.
pub(crate) fn letters(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true).map(|letter| (letter, letter.width()))
}

/// The text if it fits into `most` columns, else its beginning and an ellipsis.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let (mut short, mut taken) = (String::new(), 0);
    for (letter, width) in letters(text) {
        if taken + width + 1 > most {
            break;
        }
        short.push_str(letter);
        taken += width;
    }
    if most == 0 { short } else { format!("{}…", short.trim_end()) }
}

/// The text with spaces behind it, so that it takes `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// The words of a text in lines of at most `width` columns. A word that is wider has a line of its own, so that ids and
/// paths stay whole. If it has wide letters, it is broken between letters: their languages write without spaces.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let is_broken = columns(word) > width && letters(word).any(|(_, width)| width > 1);
        let pieces: Vec<&str> = if is_broken { letters(word).map(|(letter, _)| letter).collect() } else { vec![word] };
        for (number, piece) in pieces.into_iter().enumerate() {
            let gap = if number == 0 { " " } else { "" };
            let line = lines.last_mut();
            let line = line.filter(|line| line.is_empty() || columns(line) + gap.len() + columns(piece) <= width);
            match line {
                Some(line) if line.is_empty() => line.push_str(piece),
                Some(line) => line.push_str(&format!("{gap}{piece}")),
                None => lines.push(piece.to_owned()),
            }
        }
    }
    lines
}

/// A text beside its name, both in a terminal of this width. The text begins at the column `beside`. If a word is too
/// wide for that, the text stands below its name.
pub(crate) fn named(name: &str, text: &str, beside: usize, width: Option<usize>) -> Vec<String> {
    const INDENT: usize = 2;
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(beside));
    let parts = if columns(text) > room { wrapped(text, room) } else { vec![text.to_owned()] };
    if parts.iter().any(|part| columns(part) > room) {
        let below = wrapped(text, width.unwrap_or(usize::MAX).saturating_sub(INDENT));
        return std::iter::once(name.to_owned()).chain(below.iter().map(|part| format!("  {part}"))).collect();
    }
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    names.zip(parts).map(|(name, part)| format!("{}{part}", padded(name, beside))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns_and_are_never_cut_in_half() {
        assert_eq!(columns("オスロ"), 6);
        assert_eq!(columns("👩‍🚀 zürich"), 9);
        assert_eq!(columns("\u{1b}[1mオスロ\u{1b}[0m may"), 10);
        assert_eq!(shortened("オスロ", 6), "オスロ");
        assert_eq!(shortened("オスロ", 5), "オス…");
        assert_eq!(shortened("オスロ", 4), "オ…");
        assert_eq!(shortened("Oslo in May", 8), "Oslo in…");
        assert_eq!(shortened("Oslo", 0), "");
        assert_eq!(padded("オ", 4), "オ  ");
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a wide-word b", 4), ["a", "wide-word", "b"]);
        assert_eq!(named("id", "1a2b", 6, None), ["id    1a2b"]);
        assert_eq!(named("id", "one two", 6, Some(10)), ["id    one", "      two"]);
        assert_eq!(named("id", "1a2b3c4d", 6, Some(12)), ["id", "  1a2b3c4d"]);
        assert_eq!(wrapped("1 北海道から九州 🚄🚄", 8), ["1 北海道", "から九州", "🚄🚄"]);
    }
}
