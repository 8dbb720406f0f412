//! Emphasis, code and links in a line.

use crate::terminal::{Colour, Style};

/// The letters that marks are made of.
pub(super) const MARKS: [char; 6] = ['*', '_', '`', '~', '[', '\\'];

/// How far a closing mark is looked for. A mark without one is shown as it is.
const MOST: usize = 2_000;

/// A piece of text that looks the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Style,
}

/// The spans of a text, and how many bytes of it they stand for. `before` is the letter before the text. Of a line that
/// has not ended, a mark that may still be closed and all behind it are left for later.
pub(super) fn spans(text: &str, before: Option<char>, base: Style, is_end: bool) -> (Vec<Span>, usize) {
    let mut spans = Vec::new();
    let (mut at, mut plain_from) = (0, 0);
    while let Some(first) = text[at..].chars().next() {
        let before = text[..at].chars().next_back().or(before);
        let found = if MARKS.contains(&first) { mark(text, at, before, base) } else { Found::Nothing };
        match found {
            Found::Nothing => at += first.len_utf8(),
            Found::Open(_) if is_end => at += opening(text, at),
            Found::Open(length) if length > MOST => at += opening(text, at),
            Found::Open(_) => break,
            Found::Spans(found, length) => {
                plain(&mut spans, &text[plain_from..at], base);
                spans.extend(found);
                at += length;
                plain_from = at;
            }
        }
    }
    plain(&mut spans, &text[plain_from..at], base);
    (spans, at)
}

/// What stands at a mark.
enum Found {
    /// The letter is no mark here.
    Nothing,
    /// Nothing closes the mark in the text so far, which goes on for so many bytes.
    Open(usize),
    /// These spans, for so many bytes.
    Spans(Vec<Span>, usize),
}

fn plain(spans: &mut Vec<Span>, text: &str, style: Style) {
    if !text.is_empty() {
        spans.push(Span { text: text.to_owned(), style });
    }
}

/// How many of the same mark stand here.
fn opening(text: &str, at: usize) -> usize {
    let mark = text[at..].chars().next().unwrap_or_default();
    text[at..].chars().take_while(|c| *c == mark).map(char::len_utf8).sum::<usize>().max(1)
}

fn mark(text: &str, at: usize, before: Option<char>, base: Style) -> Found {
    let rest = &text[at..];
    match rest.as_bytes()[0] {
        b'\\' => escaped(rest, base),
        b'`' => code(rest, opening(text, at), base),
        b'[' => link(rest, base),
        mark => emphasis(&text[at..], mark, before, base),
    }
}

fn escaped(rest: &str, base: Style) -> Found {
    match rest[1..].chars().next() {
        None => Found::Open(1),
        Some(c) if c.is_ascii_punctuation() => {
            Found::Spans(vec![Span { text: c.to_string(), style: base }], 1 + c.len_utf8())
        }
        Some(_) => Found::Nothing,
    }
}

fn code(rest: &str, ticks: usize, base: Style) -> Found {
    let mut from = ticks;
    while let Some(found) = rest[from..].find('`') {
        let close = from + found;
        let length = opening(rest, close);
        if length == ticks {
            let text = rest[ticks..close].to_owned();
            let style = Style { colour: Some(Colour::Cyan), ..base };
            return Found::Spans(vec![Span { text, style }], close + ticks);
        }
        from = close + length;
    }
    Found::Open(rest.len())
}

/// `[text](address)`: the text, and the address in brackets. Other brackets are no link.
fn link(rest: &str, base: Style) -> Found {
    let Some(close) = rest.find(']') else { return Found::Open(rest.len()) };
    let text = &rest[1..close];
    match rest[close + 1..].chars().next() {
        None => return Found::Open(rest.len()),
        Some('(') => {}
        Some(_) => return Found::Nothing,
    }
    let Some(end) = rest[close..].find(')') else { return Found::Open(rest.len()) };
    let address = &rest[close + 2..close + end];
    if text.is_empty() || text.contains('[') || address.contains(char::is_whitespace) {
        return Found::Nothing;
    }
    let mut spans = vec![Span { text: text.to_owned(), style: Style { underline: true, ..base } }];
    if address != text {
        spans.push(Span { text: format!(" ({address})"), style: Style { dim: true, ..base } });
    }
    Found::Spans(spans, close + end + 1)
}

/// `*text*`, `**text**`, `***text***`, the same with `_` between words, and `~~text~~`.
fn emphasis(text: &str, mark: u8, before: Option<char>, base: Style) -> Found {
    let length = opening(text, 0);
    let behind = &text[length..];
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_mark = match mark {
        b'~' => length == 2,
        b'_' => length <= 3 && !is_word(before),
        _ => length <= 3,
    };
    match behind.chars().next() {
        None if is_mark => return Found::Open(length),
        Some(next) if is_mark && !next.is_whitespace() => {}
        _ => return Found::Spans(vec![Span { text: text[..length].to_owned(), style: base }], length),
    }
    let style = match (mark, length) {
        (b'~', _) => Style { struck: true, ..base },
        (_, 1) => Style { italic: true, ..base },
        (_, 2) => Style { bold: true, ..base },
        _ => Style { bold: true, italic: true, ..base },
    };
    let mut from = 0;
    while let Some(found) = behind[from..].find(char::from(mark)) {
        let close = from + found;
        let closing = opening(behind, close);
        let after = behind[close + closing..].chars().next();
        let follows_text = behind[..close].chars().next_back().is_some_and(|c| !c.is_whitespace());
        if closing == length && follows_text && !(mark == b'_' && is_word(after)) {
            let (inner, _) = spans(&behind[..close], None, style, true);
            return Found::Spans(inner, length + close + closing);
        }
        from = close + closing;
    }
    Found::Open(text.len())
}
