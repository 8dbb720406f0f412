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
    let (program, common) = THIS.get().map_or(("herma", &[][..]), |(program, common)| (program.as_str(), common));
    let words = words.iter().copied().chain(common.iter().map(String::as_str));
    std::iter::once(program).chain(words).map(quoted).collect::<Vec<_>>().join(" ")
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
}
