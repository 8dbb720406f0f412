//! Finds marks of unfinished work in the code. Such work is done now or becomes an issue.

use super::Finding;
use crate::workspace::SourceFile;

/// The marks, and what to do about them. They are written in two halves, so that this file passes its own check.
const LEFTOVERS: [(&str, &str); 5] = [
    (concat!("TO", "DO"), "do it now or write an issue"),
    (concat!("FIX", "ME"), "fix it now or write an issue"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("#[ig", "nore"), "make the test run or delete it"),
    (concat!("to", "do!("), "write it or leave it out"),
];

/// Looks for these marks in a source file, line by line.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    if !matches!(file.extension(), "rs" | "js" | "css" | "html" | "py" | "sh" | "sql" | "toml") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| {
        let words = LEFTOVERS.iter().filter(move |(word, _)| contains_word(line, word));
        words.map(move |(word, advice)| Finding::at(&file.path, index + 1, format!("`{word}`: {advice}")))
    });
    found.collect()
}

/// Whether the line has the word, not as a part of a longer word.
fn contains_word(line: &str, word: &str) -> bool {
    let inside = |neighbour: Option<char>| neighbour.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let after = line[at + word.len()..].chars().next();
        let open_ended = !word.ends_with(char::is_alphanumeric);
        !inside(line[..at].chars().next_back()) && (open_ended || !inside(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<Option<usize>> {
        let file = SourceFile { path: path.into(), text: text.to_owned() };
        check(&file).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn leftovers_are_found_with_their_line() {
        for (word, _) in LEFTOVERS {
            assert_eq!(found("a.rs", &format!("fn a() {{}}\n// {word} later\n")), [Some(2)], "{word}");
        }
    }

    #[test]
    fn longer_words_and_prose_are_not_leftovers() {
        assert_eq!(found("a.rs", concat!("let METHO", "DOLOGY = 1; // XX", "XL\n")), []);
        assert_eq!(found("a.md", concat!("no TO", "DO in code\n")), []);
    }
}
