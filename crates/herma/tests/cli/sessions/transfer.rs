//! Export and import of conversations: as Markdown for people, and losslessly for another store.

mod markdown;
mod refusals;
mod round_trip;

use std::path::PathBuf;

use crate::{CommandOutput, Terminal};

impl Terminal {
    /// A file beside the data directory.
    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Exports to a file and returns its lines.
    fn exported(&self, ids: &str, name: &str) -> Vec<String> {
        let file = self.file(name);
        self.sessions(&format!("export {ids} --force --output {}", file.display())).answer();
        std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
    }

    /// Writes the lines to a file and imports it.
    fn imported(&self, lines: &[String], flags: &str) -> CommandOutput {
        std::fs::write(self.file("in.jsonl"), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
        self.sessions(&format!("import in.jsonl{flags}"))
    }
}
