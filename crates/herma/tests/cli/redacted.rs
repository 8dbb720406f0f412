//! Transcripts without values that differ between runs.

use std::path::Path;

/// Replaces ids and keys by the number of their first appearance, and times by `MOMENT`. Short ids
/// become `SHORT_ID`, the data directory becomes `DATA`, and the program's path `herma`.
pub(crate) fn redacted(text: &str, data: &Path) -> String {
    let mut text = text.replace(crate::HERMA, "herma").replace(&data.display().to_string(), "DATA");
    for (prefix, digits) in [("sess_", 32), ("conv_", 32), ("cmp_", 32), ("key_", 32), ("hk-", 64), ("hk-", 6)] {
        text = numbered(&text, prefix, digits);
    }
    let lines: Vec<String> = text.split('\n').map(short_ids).collect();
    moments(&lines.join("\n"))
}

fn short_ids(line: &str) -> String {
    let is_short_id = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = line.split(' ').map(|word| if is_short_id(word) { "SHORT_ID" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn numbered(text: &str, prefix: &str, digits: usize) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut pieces = text.split(prefix);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(prefix);
        let hex = piece.bytes().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if hex != digits {
            out.push_str(piece);
            continue;
        }
        let (id, rest) = piece.split_at(digits);
        let at = seen.iter().position(|one| one == id).unwrap_or_else(|| {
            seen.push(id.to_owned());
            seen.len() - 1
        });
        out.push_str(&format!("<{}>{rest}", at + 1));
    }
    out
}

/// Replaces times by `MOMENT`: `2026-03-04 05:06`, and RFC 3339.
fn moments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match [24, 20, 16].into_iter().find(|&length| rest.get(..length).is_some_and(is_moment)) {
            Some(length) => {
                out.push_str("MOMENT");
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

fn is_moment(text: &str) -> bool {
    let form = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => matches!(byte, b' ' | b'T'),
        13 | 16 => byte == b':',
        19 if at + 1 < text.len() => byte == b'.',
        _ if at + 1 == text.len() && text.len() > 16 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.bytes().enumerate().all(form)
}
