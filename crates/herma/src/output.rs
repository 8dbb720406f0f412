//! The two streams of the terminal: answers on stdout, everything else on stderr.

use std::io::{self, Write};

use crate::terminal::{Stream, Style};

/// Writes a line of the command's answer.
pub(crate) fn answer(line: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Writes a piece of an answer and flushes it. A terminal gets no control characters.
pub(crate) fn piece(text: &str) -> io::Result<()> {
    if Stream::Stdout.is_terminal() { raw_piece(&printable(text)) } else { raw_piece(text) }
}

/// Writes a piece of an answer as it is, and flushes it. For a terminal it must have been made safe.
pub(crate) fn raw_piece(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a line for people. If stderr is closed, the line is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a line for people that matters less than the others: dim on a terminal, unless `NO_COLOR` is set.
pub(crate) fn dim(line: &str) {
    if Stream::Stderr.has_colours() { note(&Style::DIM.paint(line)) } else { note(line) }
}

/// Writes the notices of the configuration.
pub(crate) fn notices(notices: &[String]) {
    for notice in notices {
        note(&format!("note: {notice}"));
    }
}

/// The text without control characters, except newline and tab.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\r\nd\u{9b}1m"), "a[2Jb\tc\nd1m");
    }
}
