//! The forms in which JSON is stored and compared.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::bad_request::Flaw;

/// Deepest nesting of a value that is passed on. Other objects will surround the value, so this is below serde_json's
/// own limit.
const MAX_DEPTH: usize = 96;

/// Removes the whitespace between tokens. Numbers, escapes and key order stay as they are.
///
/// Fails if the value is nested deeper than [`MAX_DEPTH`].
pub(crate) fn compact(raw: &RawValue) -> Result<Cow<'_, str>, Flaw> {
    let text = raw.get();
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied, mut depth) = (0, 0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = after_string(bytes, at);
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.push_str(&text[copied..at]);
                copied = at + 1;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Flaw::new(format!("must not be nested deeper than {MAX_DEPTH} levels")));
        }
        at += 1;
    }
    if copied == 0 {
        return Ok(Cow::Borrowed(text));
    }
    out.push_str(&text[copied..]);
    Ok(Cow::Owned(out))
}

fn after_string(bytes: &[u8], opening: usize) -> usize {
    let mut at = opening + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns a form that is the same for equal values: compact, with sorted keys.
pub(crate) fn normal_form(raw: &RawValue) -> Result<Cow<'_, str>, Flaw> {
    let compact = compact(raw)?;
    Ok(normal_form_of_text(&compact).map_or(compact, Cow::Owned))
}

/// Like [`normal_form`], for text that may not be JSON. `None` if it is not.
pub(crate) fn normal_form_of_text(text: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    value.sort_all_objects();
    Some(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn whitespace_goes_and_numbers_stay() {
        let json = raw("{ \"b\" : [ 1.50 ,\n\t1e2 ] , \"a b\" : \" x\\\" y \" }");
        assert_eq!(compact(json).unwrap(), r#"{"b":[1.50,1e2],"a b":" x\" y "}"#);
    }

    #[test]
    fn compact_text_is_not_copied() {
        assert!(matches!(compact(raw(r#"{"a":[1,2]}"#)).unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(compact(raw(&deep(96))).is_ok());
        assert!(compact(raw(&deep(97))).is_err());
        assert!(compact(raw(&deep(100_000))).is_err());
    }

    #[test]
    fn the_normal_form_ignores_key_order() {
        let one = normal_form(raw(r#"{"b":{"y":1,"x":2},"a":3}"#)).unwrap();
        assert_eq!(one, normal_form(raw(r#"{"a":3,"b":{"x":2,"y":1}}"#)).unwrap());
    }
}
