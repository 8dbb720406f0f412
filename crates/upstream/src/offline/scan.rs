//! Splits what a person wrote into words and JSON objects.

use serde_json::Value;

/// A part of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// It has only characters that function names and server labels may have.
    Word(&'a str),
    /// A JSON object. The words in it are not words of the message.
    Object(Value),
}

/// The words and objects of a text, in order.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((object, length)) = object_at(rest) {
            tokens.push(Token::Object(object));
            rest = &rest[length..];
            continue;
        }
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let word = rest[..end].trim_end_matches(['.', '-']);
        if !word.is_empty() {
            tokens.push(Token::Word(word));
        }
        rest = &rest[end.max(first.len_utf8())..];
    }
    tokens
}

/// The parts of a text between separators that do not stand in a JSON object.
pub(super) fn outside_objects(text: &str, separators: [char; 2]) -> Vec<&str> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = text[at..].chars().next() {
        if let Some((_, length)) = object_at(&text[at..]) {
            at += length;
            continue;
        }
        if separators.contains(&c) {
            parts.push(&text[start..at]);
            start = at + c.len_utf8();
        }
        at += c.len_utf8();
    }
    parts.push(&text[start..]);
    parts
}

/// The JSON object that a text begins with, and its length.
fn object_at(text: &str) -> Option<(Value, usize)> {
    if !text.starts_with('{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let object = values.next()?.ok()?;
    Some((object, values.byte_offset()))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_one_token_and_broken_ones_are_words() {
        let object = Token::Object(json!({"a": "call b"}));
        assert_eq!(
            tokens("Use größe: {\"a\":\"call b\"}, x."),
            [Token::Word("Use"), Token::Word("größe"), object, Token::Word("x")]
        );
        assert_eq!(tokens("{a} …"), [Token::Word("a")]);
        assert_eq!(tokens(""), []);
    }

    #[test]
    fn separators_in_objects_do_not_separate() {
        assert_eq!(outside_objects("a {\"b\":\";\"}; ü;", [';', '\n']), ["a {\"b\":\";\"}", " ü", ""]);
    }
}
