//! Text by the columns that it takes in a terminal. A letter of Chinese, Japanese or Korean and an emoji take two.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The columns that a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
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

/// The words of a text in lines of at most `width` columns. A word that is wider has a line of its own.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.is_empty() || columns(line) + 1 + columns(word) <= width);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.push_str(&format!(" {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns_and_are_never_cut_in_half() {
        assert_eq!(columns("オスロ"), 6);
        assert_eq!(columns("👩‍🚀 zürich"), 9);
        assert_eq!(shortened("オスロ", 6), "オスロ");
        assert_eq!(shortened("オスロ", 5), "オス…");
        assert_eq!(shortened("オスロ", 4), "オ…");
        assert_eq!(shortened("Oslo in May", 8), "Oslo in…");
        assert_eq!(shortened("Oslo", 0), "");
        assert_eq!(padded("オ", 4), "オ  ");
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a wide-word b", 4), ["a", "wide-word", "b"]);
    }
}
