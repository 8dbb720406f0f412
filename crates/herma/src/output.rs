//! The two streams of the terminal: answers on stdout, everything else on stderr.

use std::io::{self, Write};

use crate::next_command;
use crate::terminal::{Stream, Style};
use crate::text_width::{columns, wrapped};

/// What a line begins with that is to be pasted. With a line end in it, it could not be, so the terminal breaks it.
const PASTED: &str = "    ";

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

/// Writes lines for people. A terminal gets them broken between words. If stderr is closed, they are lost.
pub(crate) fn note(text: &str) {
    send(&fitted(text, Stream::Stderr.width()));
}

/// Writes lines for people that matter less than others: dim on a terminal, unless `NO_COLOR` is set.
pub(crate) fn dim(text: &str) {
    let text = fitted(text, Stream::Stderr.width());
    send(&if Stream::Stderr.has_colours() { Style::DIM.paint(&text) } else { text });
}

fn send(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The text in lines that fit into a terminal of this width. Lines that fit, such as those of tables, stay as they are,
/// and so do lines to be pasted.
fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    text.split('\n').flat_map(|line| fitted_line(line, width)).collect::<Vec<_>>().join("\n")
}

fn fitted_line(line: &str, width: usize) -> Vec<String> {
    if columns(line) <= width || line.starts_with(PASTED) {
        return vec![line.to_owned()];
    }
    let Some(at) = next_command::starts_in(line) else { return indented(line, width) };
    let mut lines = indented(&line[..at], width);
    // A command with a line end in it could not be pasted, so the terminal breaks it.
    lines.push(format!("  {}", &line[at..]));
    lines
}

fn indented(line: &str, width: usize) -> Vec<String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    wrapped(line, width.saturating_sub(columns(indent))).iter().map(|part| format!("{indent}{part}")).collect()
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
    fn sentences_are_broken_between_words_and_commands_and_tables_are_not() {
        let text = "NAME  AGE\nerror: it was ended; to open it again: herma sessions reopen trip --data /a/long/path";
        assert_eq!(fitted(text, None), text);
        assert_eq!(
            fitted(text, Some(24)),
            "NAME  AGE\nerror: it was ended; to\nopen it again:\n  herma sessions reopen trip --data /a/long/path"
        );
        assert_eq!(fitted("  one two three", Some(10)), "  one two\n  three");
        assert_eq!(fitted("    curl -d 'one two'", Some(10)), "    curl -d 'one two'");
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\r\nd\u{9b}1m"), "a[2Jb\tc\nd1m");
    }
}
