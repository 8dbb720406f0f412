//! Commands that people are told to type next. They can be pasted back: they name this program, and carry the flags
//! that say where things are.

use std::sync::OnceLock;

use crate::arguments::Common;

/// The program, and the flags that every command has to repeat. Set once, when the command line was read.
static THIS: OnceLock<(String, Vec<String>)> = OnceLock::new();

/// Remembers how this program was called.
pub(crate) fn remember(common: &Common) {
    let called = std::env::args().next().unwrap_or_default();
    let program = if called.contains('/') || called.contains('\\') { called } else { "herma".to_owned() };
    // A second call would have the same flags.
    let _ = THIS.set((program, common.words()));
}

/// The command with these words behind the program's name.
pub(crate) fn of(words: &[&str]) -> String {
    with(words, &[], &[])
}

/// The command with these words, flags with their values, and operands. Values that a person chose belong to the last
/// two, because they may begin with a dash.
pub(crate) fn with(words: &[&str], flags: &[(&str, &str)], operands: &[&str]) -> String {
    let (program, common) = THIS.get().map_or(("herma", &[][..]), |(program, common)| (program.as_str(), common));
    let words = words.iter().map(|word| (*word).to_owned());
    let flags = flags.iter().flat_map(|(name, value)| flag(name, value));
    let common = common.iter().cloned();
    let operands = operands.iter().map(|operand| (*operand).to_owned());
    let before = std::iter::once(program.to_owned()).chain(words).chain(flags);
    let written: Vec<String> = match operands.clone().any(|operand| operand.starts_with('-')) {
        true => before.chain(common).chain(["--".to_owned()]).chain(operands).collect(),
        false => before.chain(operands).chain(common).collect(),
    };
    written.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The words of a flag with its value. A value that begins with a dash would be read as another flag, so it is joined.
pub(crate) fn flag(name: &str, value: &str) -> Vec<String> {
    if value.starts_with('-') { vec![format!("{name}={value}")] } else { vec![name.to_owned(), value.to_owned()] }
}

/// Where a line has a command to type: behind a colon, to the end. `None` if it has none.
pub(crate) fn starts_in(line: &str) -> Option<usize> {
    let program = THIS.get().map_or("herma", |(program, _)| program.as_str());
    let begin = format!(": {} ", quoted(program));
    line.rfind(&begin).map(|at| at + 2)
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { in_quotes(word) }
}

fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_meant() {
        for (word, written) in
            [("trip", "trip"), ("my trip", "'my trip'"), ("it's", r"'it'\''s'"), ("", "''"), ("a$b", "'a$b'")]
        {
            assert_eq!(quoted(word), written);
        }
    }

    #[test]
    fn a_value_that_begins_with_a_dash_is_no_flag() {
        assert_eq!(with(&["chat"], &[("--session", "trip")], &[]), "herma chat --session trip");
        assert_eq!(with(&["chat"], &[("--session", "-x")], &[]), "herma chat --session=-x");
        assert_eq!(with(&["sessions", "undo"], &[], &["trip", "cmp_1"]), "herma sessions undo trip cmp_1");
        assert_eq!(with(&["sessions", "undo"], &[], &["-x", "cmp_1"]), "herma sessions undo -- -x cmp_1");
    }

    #[test]
    fn a_command_is_found_behind_its_colon() {
        assert_eq!(starts_in("to continue: herma chat --session trip"), Some(13));
        assert_eq!(starts_in("error: the herma of trip"), None);
    }
}
