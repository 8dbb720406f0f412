//! Limits the length of a file, so that a reader can keep it in mind.

use super::Finding;
use crate::workspace::SourceFile;

const LIMIT: usize = 800;
const WORTH_A_THOUGHT: usize = 450;
const MAP_LIMIT: usize = 80;

/// A file that is longer than recommended.
#[derive(Debug)]
pub(super) enum Size {
    /// The check fails.
    TooLong(Finding),
    /// The check only mentions the file.
    Long(Finding),
}

/// Checks the length of a source file.
pub(super) fn check(file: &SourceFile) -> Option<Size> {
    if !matches!(file.extension(), "rs" | "js" | "css" | "py" | "sh") {
        return None;
    }
    let lines = file.text.lines().count();
    let is_map = file.path.ends_with("src/lib.rs");
    if is_map && lines > MAP_LIMIT {
        let message = format!("{lines} lines; lib.rs is a map of at most {MAP_LIMIT}: move what it does into modules");
        return Some(Size::TooLong(Finding::new(&file.path, message)));
    }
    if lines > LIMIT {
        let message = format!("{lines} lines, at most {LIMIT}: split it by what its parts are about");
        return Some(Size::TooLong(Finding::new(&file.path, message)));
    }
    (lines > WORTH_A_THOUGHT).then(|| {
        let message = format!("{lines} lines: past {WORTH_A_THOUGHT}, ask whether it holds two things");
        Size::Long(Finding::new(&file.path, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(path: &str, lines: usize) -> Option<Size> {
        check(&SourceFile { path: path.into(), text: "x\n".repeat(lines) })
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(sized("src/a.rs", 450).is_none());
        assert!(matches!(sized("src/a.rs", 451), Some(Size::Long(_))));
        assert!(matches!(sized("src/a.rs", 800), Some(Size::Long(_))));
        assert!(matches!(sized("web/a.css", 801), Some(Size::TooLong(_))));
    }

    #[test]
    fn a_crates_map_is_short_and_other_kinds_of_files_are_not_measured() {
        assert!(sized("crates/x/src/lib.rs", 80).is_none());
        assert!(matches!(sized("crates/x/src/lib.rs", 81), Some(Size::TooLong(_))));
        assert!(sized("Cargo.lock", 9000).is_none());
    }
}
