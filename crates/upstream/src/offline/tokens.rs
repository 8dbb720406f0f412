//! How the offline model counts tokens.
//!
//! A token is a run of up to six letters and digits, one character of a script written without spaces, or one
//! other character that is not white space. For English this is close to what real models count.

const LONGEST: usize = 6;

/// How many tokens a text has.
pub(super) fn count(text: &str) -> u64 {
    ends(text).count() as u64
}

/// The first `limit` tokens of a text, or all of it if it has fewer.
pub(super) fn first(text: &str, limit: u64) -> &str {
    let Some(last) = limit.checked_sub(1) else { return "" };
    let end = usize::try_from(last).ok().and_then(|last| ends(text).nth(last));
    &text[..end.unwrap_or(text.len())]
}

/// Where each token ends.
fn ends(text: &str) -> impl Iterator<Item = usize> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (at, first) = rest.find(|(_, c)| !c.is_whitespace())?;
        let mut end = at + first.len_utf8();
        let mut length = 1;
        while is_joined(first)
            && length < LONGEST
            && let Some((at, next)) = rest.next_if(|(_, c)| is_joined(*c))
        {
            end = at + next.len_utf8();
            length += 1;
        }
        Some(end)
    })
}

/// Whether a character forms a word with its neighbours. Scripts from U+2E80 on mostly have no spaces.
fn is_joined(c: char) -> bool {
    c.is_alphanumeric() && c < '\u{2e80}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_punctuation_and_wide_characters_count() {
        for (text, tokens) in [
            ("", 0),
            ("  \n", 0),
            ("Hello, world!", 4),
            ("compression", 2),
            ("a1b2c3d4", 2),
            ("日本語", 3),
            ("{\"a\": 1}", 7),
            ("größer", 1),
        ] {
            assert_eq!(count(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn a_beginning_has_the_tokens_it_should() {
        assert_eq!(first("Hello, big world", 3), "Hello, big");
        assert_eq!(first("Hello", 9), "Hello");
        assert_eq!(first("Hello", 0), "");
        assert_eq!(first("日本語", 2), "日本");
    }
}
