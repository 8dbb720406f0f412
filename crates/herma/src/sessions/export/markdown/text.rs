//! Text that Markdown cannot take for markup.

use herma_model::Timestamp;
use herma_wire::resource::rfc3339;

/// A time in UTC, to the second.
pub(super) fn second(moment: Timestamp) -> String {
    let whole = rfc3339(moment);
    whole.get(..19).map_or(whole.clone(), |second| format!("{}Z", second.replace('T', " ")))
}

/// A line in which all markup is escaped.
pub(super) fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        if letter.is_ascii_punctuation()
            && !matches!(letter, ',' | '.' | ':' | ';' | '?' | '\'' | '"' | '/' | '%' | '=' | '-')
        {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// A line as inline code.
pub(super) fn code(line: &str) -> String {
    let fence = "`".repeat(longest_run(line) + 1);
    let is_bare = !line.starts_with(['`', ' ']) && !line.ends_with(['`', ' ']) && !line.is_empty();
    if is_bare { format!("{fence}{line}{fence}") } else { format!("{fence} {line} {fence}") }
}

/// A text as a code block, with a longer fence than any in the text.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// A text as a quotation. Markup that it opens ends with the quotation.
pub(super) fn quoted(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { ">".to_owned() } else { format!("> {line}") };
    let lines: Vec<String> = text.lines().map(line).collect();
    if lines.is_empty() { ">".to_owned() } else { lines.join("\n") }
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_fence() {
        assert_eq!(fenced("json", "{}"), "```json\n{}\n```");
        assert_eq!(fenced("", "a\n````\nb\n"), "`````\na\n````\nb\n`````");
        assert_eq!(fenced("", ""), "```\n```");
    }

    #[test]
    fn code_may_have_backticks() {
        assert_eq!(code("trip"), "`trip`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`x``"), "``` `x`` ```");
    }

    #[test]
    fn every_line_is_quoted() {
        assert_eq!(quoted("# one\n\n```\nopen"), "> # one\n>\n> ```\n> open");
        assert_eq!(quoted(""), ">");
        assert_eq!(quoted("a\r\nb"), "> a\n> b");
    }

    #[test]
    fn a_title_is_no_markup() {
        assert_eq!(escaped("# *Oslo* in [May]?"), r"\# \*Oslo\* in \[May\]?");
    }

    #[test]
    fn a_time_is_written_to_the_second() {
        assert_eq!(second(Timestamp(1_772_582_400_050)), "2026-03-04 00:00:00Z");
    }
}
