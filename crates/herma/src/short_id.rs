//! The short ids of lists: the last digits of an id, because its first ones are its time. Every command that takes an id
//! takes its short id, and as much of its beginning as is unique.

use std::fmt::Display;

use herma_model::SessionId;

/// How many digits a short id has.
const DIGITS: usize = 8;

/// The short id of an id.
pub(crate) fn of(id: impl Display) -> String {
    let id = id.to_string();
    id[id.len() - DIGITS..].to_owned()
}

/// The short id of a session. `None` if a client chose its id, which then is its name.
pub(crate) fn of_session(id: &SessionId) -> Option<String> {
    id.chosen().is_none().then(|| of(id.as_str()))
}

/// Whether a text has the form of a short id.
pub(crate) fn is_one(typed: &str) -> bool {
    typed.len() == DIGITS && typed.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a text is rather a mistyped id of a conversation than a name that a person chose. Eight decimal digits are
/// no mistyped id: they may be a date.
pub(crate) fn looks_like_one_of_a_conversation(typed: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_whole_or_begun = typed.strip_prefix("sess_").is_some_and(|digits| digits.bytes().all(is_digit));
    is_whole_or_begun || (is_one(typed) && typed.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

/// Whether a text is this id, its beginning with or without the prefix, or its short id. An empty text and a prefix
/// alone name nothing.
pub(crate) fn names(typed: &str, id: impl Display) -> bool {
    let id = id.to_string();
    let (prefix, digits) = id.split_at(id.find('_').map_or(0, |at| at + 1));
    let wanted = typed.strip_prefix(prefix).unwrap_or(typed).to_ascii_lowercase();
    !wanted.is_empty() && (digits.starts_with(&wanted) || (is_one(typed) && digits.ends_with(typed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_named_by_its_beginning_or_its_last_eight_digits() {
        let id = "key_01a1f05e98647405814f847434451b9d";
        assert_eq!(of(id), "34451b9d");
        for (typed, expected) in [
            (id, true),
            ("key_01a1", true),
            ("01A1", true),
            ("34451b9d", true),
            ("4451b9d", false),
            ("key_34451b9d", false),
            ("key_", false),
            ("", false),
            ("mem_01a1", false),
        ] {
            assert_eq!(names(typed, id), expected, "{typed:?}");
        }
    }

    #[test]
    fn eight_digits_with_a_letter_look_like_an_id_and_a_date_does_not() {
        for (typed, expected) in [
            ("0163541e", true),
            ("sess_01a1", true),
            ("sess_", true),
            ("20261119", false),
            ("0163541", false),
            ("sess_trip", false),
            ("trip", false),
        ] {
            assert_eq!(looks_like_one_of_a_conversation(typed), expected, "{typed:?}");
        }
    }
}
