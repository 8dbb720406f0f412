//! Conversations that leave a store and come back: to people as Markdown, to another store as they were.

mod markdown;
mod refusals;
mod round_trip;

use std::path::PathBuf;

use crate::{Said, Terminal};

impl Terminal {
    /// A file beside the data directory.
    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Exports into a file, and gives its lines.
    fn exported(&self, ids: &str, name: &str) -> Vec<String> {
        let file = self.file(name);
        self.sessions(&format!("export {ids} --force --output {}", file.display())).answer();
        std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
    }

    /// Imports lines as a file.
    fn imported(&self, lines: &[String], flags: &str) -> Said {
        std::fs::write(self.file("in.jsonl"), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
        self.sessions(&format!("import in.jsonl{flags}"))
    }
}
