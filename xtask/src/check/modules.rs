//! Checks that every module begins with a doc comment.

use super::Finding;
use crate::workspace::SourceFile;

/// Checks the first line of a module.
pub(super) fn check(file: &SourceFile) -> Option<Finding> {
    let in_src = file.path.components().any(|part| part.as_os_str() == "src");
    if !in_src || file.extension() != "rs" || file.text.starts_with("//!") {
        return None;
    }
    let message = "begins without `//!`: say first what this module owns and what it must not know";
    Some(Finding::at(&file.path, 1, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_begin_with_their_purpose() {
        for (path, text, found) in [
            ("crates/x/src/a.rs", "//! Owns a.\n", false),
            ("crates/x/src/deep/a.rs", "use std::fmt;\n//! Late.\n", true),
            ("crates/x/src/a.rs", "", true),
            ("crates/x/tests/a.rs", "use std::fmt;\n", false),
            ("crates/x/src/a.sql", "SELECT 1;\n", false),
        ] {
            let file = SourceFile { path: path.into(), text: text.to_owned() };
            assert_eq!(check(&file).is_some(), found, "{path} {text:?}");
        }
    }
}
