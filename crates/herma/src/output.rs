//! The two streams of the terminal: answers on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

/// Writes a line of the command's answer.
pub(crate) fn answer(line: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// Writes a piece of an answer and flushes it. A terminal gets no control characters.
pub(crate) fn piece(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if stdout.is_terminal() {
        stdout.write_all(printable(text).as_bytes())?;
    } else {
        stdout.write_all(text.as_bytes())?;
    }
    stdout.flush()
}

/// Writes a line for people. If stderr is closed, the line is lost.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a line for people that matters less than the others: dim on a terminal, unless `NO_COLOR` is set.
pub(crate) fn dim(line: &str) {
    if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        note(&format!("\u{1b}[2m{line}\u{1b}[0m"));
    } else {
        note(line);
    }
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
