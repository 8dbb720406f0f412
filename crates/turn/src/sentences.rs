//! Where a text can be cut so that its last sentence is whole.
//!
//! A sentence ends with a punctuation mark, in any script. A line of a list and a paragraph end a sentence too. An
//! abbreviation is taken for the end of a sentence, so the text may become a few words shorter than necessary.

/// Marks that end a sentence if white space or the end of the text follows.
const SPACED: &[char] = &['.', '!', '?', '…', '؟', '۔', '।', '॥', '።', '။'];
/// Marks that end a sentence in any case, because their scripts put no space after them.
const UNSPACED: &[char] = &['。', '！', '？', '．', '｡'];
/// Closing quotation marks, brackets and marks of Markdown. They belong to the sentence before them.
const CLOSING: &[char] = &['"', '\'', ')', ']', '”', '’', '»', '」', '』', '）', '】', '*', '_', '`'];
/// Marks at the beginning of a line of a list.
const BULLETS: &[char] = &['-', '*', '+', '•', '–', '·'];

/// The longest beginning of a text, of at most `most` bytes, that ends with a whole sentence. Empty if there is none.
/// A last line without a line break is not whole: the text may have been cut off there.
pub(crate) fn whole_sentences(text: &str, most: usize) -> &str {
    let ends = text.char_indices().filter_map(|(at, mark)| end_after(text, at, mark));
    let last = ends.take_while(|end| *end <= most).last().unwrap_or(0);
    text[..last].trim_end()
}

/// Where the sentence ends, if the character at a place ends one.
fn end_after(text: &str, at: usize, mark: char) -> Option<usize> {
    if mark != '\n' && !SPACED.contains(&mark) && !UNSPACED.contains(&mark) {
        return None;
    }
    let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = text[line_start..at].trim();
    if mark == '\n' {
        let ends_paragraph = !line.is_empty() && text[at + 1..].starts_with('\n');
        return ((is_list_item(line) || ends_paragraph) && !line.ends_with([':', '：'])).then_some(at);
    }
    let after_mark = &text[at + mark.len_utf8()..];
    let rest = after_mark.trim_start_matches(CLOSING);
    let is_end = UNSPACED.contains(&mark) || rest.is_empty() || rest.starts_with(char::is_whitespace);
    (is_end && !is_part_of_number(line, rest, mark)).then_some(text.len() - rest.len())
}

/// Whether a full stop belongs to the number of a line of a list, or to a number that was cut off.
fn is_part_of_number(line: &str, rest: &str, mark: char) -> bool {
    let is_digit = |character: char| character.is_ascii_digit();
    mark == '.' && line.ends_with(is_digit) && (rest.is_empty() || line.chars().all(is_digit))
}

fn is_list_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let is_numbered = numbered.len() < line.len() && numbered.starts_with(['.', ')']);
    is_numbered || line.strip_prefix(BULLETS).is_some_and(|item| !item.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> &str {
        whole_sentences(text, text.len())
    }

    #[test]
    fn a_text_is_cut_after_its_last_whole_sentence() {
        for (text, expected) in [
            ("They met. They spoke. Then th", "They met. They spoke."),
            ("Really? \"Yes!\" He le", "Really? \"Yes!\""),
            ("All is said.", "All is said."),
            ("It costs 3.50 euros. It costs 4.75 eu", "It costs 3.50 euros."),
            ("It was in 2024. Then 3.", "It was in 2024."),
            ("他们去了里斯本。他们住在旅馆！后来他", "他们去了里斯本。他们住在旅馆！"),
            ("「行こう。」と言った。それか", "「行こう。」と言った。"),
            ("वे मिले। फिर वे", "वे मिले।"),
            ("- booked the hotel\n- paid 300 euros\n- asked for a la", "- booked the hotel\n- paid 300 euros"),
            ("Decisions:\n1. take the train\n2. leave at n", "Decisions:\n1. take the train"),
            ("พวกเขาพบกัน\n\nแล้วก็", "พวกเขาพบกัน"),
            ("Decisions:\n\n1. take the tr", ""),
            ("no end at all", ""),
            ("", ""),
        ] {
            assert_eq!(cut(text), expected, "{text}");
        }
    }

    #[test]
    fn a_sentence_that_does_not_fit_is_left_out() {
        let text = "One. Two. Three.";
        assert_eq!(whole_sentences(text, 9), "One. Two.");
        assert_eq!(whole_sentences(text, 8), "One.");
        assert_eq!(whole_sentences(text, 3), "");
    }
}
