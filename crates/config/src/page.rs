//! Writes the effective configuration as commented TOML that can be loaded again.

use std::fmt::Write as _;

use crate::reading::path::quoted;
use crate::values::base_url::BaseUrl;
use crate::values::secret::REDACTED;

/// TOML text that is being written.
#[derive(Default)]
pub(crate) struct Page {
    text: String,
}

impl Page {
    /// Writes a comment, one line for each line of the text.
    pub(crate) fn comment(&mut self, about: &str) {
        for line in about.lines() {
            self.line(format_args!("# {line}"));
        }
    }

    /// Begins a table.
    pub(crate) fn heading(&mut self, path: &[&str], about: &str) {
        self.text.push('\n');
        self.comment(about);
        let path: Vec<_> = path.iter().map(|part| quoted(part)).collect();
        self.line(format_args!("[{}]", path.join(".")));
    }

    /// Writes a setting that has a value.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<toml::Value>, about: &str) {
        self.comment(about);
        self.line(format_args!("{} = {}", quoted(key), value.into()));
    }

    /// Writes a setting that has no value as a comment that shows how to give it one.
    pub(crate) fn unset(&mut self, key: &str, example: impl Into<toml::Value>, about: &str) {
        self.comment(about);
        self.line(format_args!("# {} = {}", quoted(key), example.into()));
    }

    /// Writes a setting if it has a value, else as [`Page::unset`] does.
    pub(crate) fn maybe<T: Into<toml::Value>>(&mut self, key: &str, value: Option<T>, example: T, about: &str) {
        match value {
            Some(value) => self.set(key, value, about),
            None => self.unset(key, example, about),
        }
    }

    /// Writes the base URL of a model server. One whose query may hold a secret becomes a comment.
    pub(crate) fn base_url(&mut self, url: Option<&BaseUrl>, example: &str, about: &str) {
        match url.map(|url| (url, url.shown())) {
            Some((_, Some(shown))) => self.set("base_url", shown, about),
            Some((url, None)) => self.unset("base_url", url.to_string(), about),
            None => self.unset("base_url", example, about),
        }
    }

    /// Writes a secret as a comment. As a value, it would be loaded again as a wrong secret.
    pub(crate) fn secret(&mut self, key: &str, is_set: bool, about: &str) {
        self.unset(key, if is_set { REDACTED } else { "…" }, about);
    }

    /// Names the keys of a table of secrets in a comment.
    pub(crate) fn secrets<'a>(&mut self, key: &str, names: impl Iterator<Item = &'a String>) {
        for name in names {
            self.comment(&format!("{key}.{} = {}", quoted(name), toml::Value::from(REDACTED)));
        }
    }

    /// The whole text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// A size or count as a TOML integer.
pub(crate) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
