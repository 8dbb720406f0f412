//! The text of a call of a custom tool, inside the arguments that the model writes for a function.

use serde_json::Value;

use crate::json::Writer;

/// The only parameter of the function that a custom tool is offered as.
pub(crate) const INPUT: &str = "input";

/// The text of a call. It is the `input` of the arguments, or all of them if they have none.
pub(crate) fn input_of(arguments: &str) -> String {
    let mut input = CustomInput::default();
    let mut text = input.push(arguments);
    text.push_str(&input.rest());
    text
}

/// The arguments of a call with this text.
pub(crate) fn arguments_of(input: &str) -> String {
    let mut writer = Writer::with_capacity(input.len() + 16);
    writer.open_object();
    writer.field(INPUT, input);
    writer.close_object();
    writer.into_text()
}

/// Takes the text out of arguments that come piece by piece.
#[derive(Debug, Default)]
pub(crate) struct CustomInput {
    arguments: String,
    progress: InputProgress,
}

/// How far the arguments are read.
#[derive(Debug, Clone, Copy, Default)]
enum InputProgress {
    /// Before the text.
    #[default]
    Before,
    /// Within the text, up to this byte.
    Within(usize),
    /// After the text.
    After,
    /// The arguments do not begin with the text, so all of them are needed.
    Elsewhere,
}

impl CustomInput {
    /// Adds a piece of the arguments. Returns the piece of the text that is known by it.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.arguments.push_str(piece);
        if matches!(self.progress, InputProgress::Before) {
            self.progress = beginning(&self.arguments);
        }
        let mut text = String::new();
        if let InputProgress::Within(from) = self.progress {
            self.progress = self.decode(from, &mut text);
        }
        text
    }

    /// The text that only the whole arguments show.
    pub(crate) fn rest(&self) -> String {
        if matches!(self.progress, InputProgress::Within(_) | InputProgress::After) {
            return String::new();
        }
        let parsed: Option<Value> = serde_json::from_str(&self.arguments).ok();
        let input = parsed.as_ref().and_then(|arguments| arguments[INPUT].as_str());
        input.unwrap_or(&self.arguments).to_owned()
    }

    /// The arguments so far.
    pub(crate) fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Decodes a JSON string from a byte on. Stops before an escape that is not whole yet.
    fn decode(&self, mut from: usize, text: &mut String) -> InputProgress {
        loop {
            let rest = &self.arguments[from..];
            let Some(end) = rest.find(['"', '\\']) else {
                text.push_str(rest);
                return InputProgress::Within(self.arguments.len());
            };
            text.push_str(&rest[..end]);
            from += end;
            if rest[end..].starts_with('"') {
                return InputProgress::After;
            }
            let Some((decoded, length)) = escape(&rest[end..]) else { return InputProgress::Within(from) };
            text.push(decoded);
            from += length;
        }
    }
}

/// Looks for `{"input":"` at the beginning of arguments.
fn beginning(arguments: &str) -> InputProgress {
    let mut rest = arguments;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(after) => rest = after,
            None if token.starts_with(rest) => return InputProgress::Before,
            None => return InputProgress::Elsewhere,
        }
    }
    InputProgress::Within(arguments.len() - rest.len())
}

/// Decodes the escape at the beginning of a text, and tells its length. `None` if it is not whole yet.
fn escape(text: &str) -> Option<(char, usize)> {
    let kind = text[1..].chars().next()?;
    let decoded = match kind {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return unicode(text),
        other => other,
    };
    Some((decoded, 1 + kind.len_utf8()))
}

/// Decodes `\uXXXX`, or two of them if they are the halves of one character. Half a character becomes U+FFFD.
fn unicode(text: &str) -> Option<(char, usize)> {
    const ONE: usize = 6;
    let unit = |text: &str| text.get(2..ONE).and_then(|hex| u16::from_str_radix(hex, 16).ok());
    if text.len() < ONE {
        return None;
    }
    let Some(first) = unit(text) else { return Some((char::REPLACEMENT_CHARACTER, 2)) };
    if !(0xD800..0xDC00).contains(&first) {
        return Some((char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), ONE));
    }
    let next = &text[ONE..];
    if "\\u".starts_with(next) || (next.starts_with("\\u") && next.len() < ONE) {
        return None;
    }
    let second = next.starts_with("\\u").then(|| unit(next)).flatten();
    let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, ONE), |decoded| (decoded, 2 * ONE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text, from arguments that come in two pieces, cut everywhere.
    fn read(arguments: &str) -> String {
        let whole = input_of(arguments);
        for cut in (0..arguments.len()).filter(|cut| arguments.is_char_boundary(*cut)) {
            let mut input = CustomInput::default();
            let mut text = input.push(&arguments[..cut]);
            text += &input.push(&arguments[cut..]);
            text += &input.rest();
            assert_eq!(text, whole, "{arguments} cut at {cut}");
        }
        whole
    }

    #[test]
    fn the_text_is_the_same_however_its_arguments_are_cut() {
        let text = "let a = \"ä\\\";\n\t// 😀 \u{7f}\u{1}";
        assert_eq!(read(&arguments_of(text)), text);
        assert_eq!(read(r#" { "input" : "a\u00e4\ud83d\ude00\/b" , "why": "x" } "#), "aä😀/b");
    }

    #[test]
    fn half_a_character_becomes_a_replacement() {
        assert_eq!(read(r#"{"input":"\ud83d!\ude00\ud83d\u0041"}"#), "\u{fffd}!\u{fffd}\u{fffd}A");
    }

    #[test]
    fn a_text_that_broke_off_is_read_up_to_there() {
        assert_eq!(read(r#"{"input":"let a\n= "#), "let a\n= ");
        assert_eq!(read(r#"{"input":"a\ud83"#), "a");
    }

    #[test]
    fn arguments_without_the_text_are_the_text() {
        for text in ["ls -l", "{}", "[1]", "", "{\"code\":\"ls\"}", "{\"input\":7}", "\"ls\""] {
            assert_eq!(read(text), text);
        }
        assert_eq!(read(r#"{"why":"x","input":"ls"}"#), "ls");
    }

    #[test]
    fn a_text_is_shown_as_soon_as_it_is_known() {
        let mut input = CustomInput::default();
        let pieces = ["{\"in", "put\": \"a", "b\\", "nc", "\"}"].map(|piece| input.push(piece));
        assert_eq!(pieces, ["", "a", "b", "\nc", ""]);
        assert_eq!(input.rest(), "");
    }
}
