//! Writes the effective configuration as commented TOML that can be loaded again.

use std::fmt::Write as _;

use crate::loading::notices;
use crate::reading::path::quoted;
use crate::values::base_url::BaseUrl;
use crate::values::secret::REDACTED;

/// Settings in the order in which they are written.
#[derive(Default)]
pub(crate) struct Page {
    /// What stands before the first table.
    preface: String,
    tables: Vec<Table>,
}

/// A table with its settings.
#[derive(PartialEq)]
struct Table {
    /// Its path, as TOML writes it.
    path: String,
    about: String,
    /// Whether the table is not there and only shows what could be set.
    is_example: bool,
    entries: Vec<Entry>,
}

/// A setting, or a comment in the place of one.
#[derive(PartialEq)]
struct Entry {
    /// The path of its table, a dot, and its key.
    path: String,
    about: String,
    /// The setting as TOML.
    line: String,
    value: Standing,
}

/// What is known of the value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is set, or it is a default that [`Config::defaults`](crate::Config::defaults) has too.
    Shown,
    /// It is set, but must not be shown.
    Hidden,
    /// It is the default of a table whose name the operator chose.
    Default,
    /// There is no value; the line shows how to give it one.
    Unset,
}

/// How an entry is written.
#[derive(Debug, Clone, Copy)]
enum Written {
    Setting,
    Comment,
    /// A comment that says that this is not set.
    Example,
}

impl Page {
    /// Writes a comment before the first table.
    pub(crate) fn comment(&mut self, about: &str) {
        comment(&mut self.preface, about);
    }

    /// Begins a table.
    pub(crate) fn heading(&mut self, path: &[&str], about: &str) {
        self.table_of(path, about, false);
    }

    /// Begins a table that is not there, to show its settings as comments.
    pub(crate) fn example(&mut self, path: &[&str], about: &str) {
        self.table_of(path, about, true);
    }

    fn table_of(&mut self, path: &[&str], about: &str, is_example: bool) {
        let path = path.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".");
        self.tables.push(Table { path, about: about.to_owned(), is_example, entries: Vec::new() });
    }

    /// Writes a setting that has a value.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<toml::Value>, about: &str) {
        self.entry(key, &value.into(), about, Standing::Shown);
    }

    /// Writes a setting of a table whose name the operator chose. Nothing else knows the defaults of such a table.
    pub(crate) fn own(
        &mut self,
        key: &str,
        value: impl Into<toml::Value>,
        default: impl Into<toml::Value>,
        about: &str,
    ) {
        let value = value.into();
        let standing = if value == default.into() { Standing::Default } else { Standing::Shown };
        self.entry(key, &value, about, standing);
    }

    /// Writes a setting that has no value as a comment that shows how to give it one.
    pub(crate) fn unset(&mut self, key: &str, example: impl Into<toml::Value>, about: &str) {
        self.entry(key, &example.into(), about, Standing::Unset);
    }

    fn entry(&mut self, key: &str, value: &toml::Value, about: &str, standing: Standing) {
        let Some(table) = self.tables.last_mut() else { return };
        let line = format!("{} = {value}", quoted(key));
        let path = format!("{}.{key}", table.path);
        table.entries.push(Entry { path, about: about.to_owned(), line, value: standing });
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
            Some((url, None)) => self.entry("base_url", &url.to_string().into(), about, Standing::Hidden),
            None => self.unset("base_url", example, about),
        }
    }

    /// Writes a secret as a comment. As a value, it would be loaded again as a wrong secret.
    pub(crate) fn secret(&mut self, key: &str, is_set: bool, about: &str) {
        let (shown, standing) = if is_set { (REDACTED, Standing::Hidden) } else { ("…", Standing::Unset) };
        self.entry(key, &shown.into(), about, standing);
    }

    /// Names the keys of a table of secrets in comments.
    pub(crate) fn secrets<'a>(&mut self, key: &str, names: impl Iterator<Item = &'a String>, about: &str) {
        let mut about = about.to_owned();
        for name in names {
            let Some(table) = self.tables.last_mut() else { return };
            let line = format!("{key}.{} = {}", quoted(name), toml::Value::from(REDACTED));
            let path = format!("{}.{key}", table.path);
            table.entries.push(Entry { path, about: std::mem::take(&mut about), line, value: Standing::Hidden });
        }
    }

    /// The tables and settings that are not on the other page.
    pub(crate) fn differing_from(&self, defaults: &Self) -> String {
        let mut text = self.preface.clone();
        for table in self.tables.iter().filter(|table| !table.is_example) {
            let default = defaults.table(&table.path);
            let entries = table.entries.iter().filter(is_there).filter_map(|entry| {
                let written = match entry.value {
                    _ if entry.is_in(default) => return None,
                    Standing::Shown => Written::Setting,
                    Standing::Hidden => Written::Comment,
                    Standing::Default | Standing::Unset => return None,
                };
                Some((entry, written))
            });
            let entries: Vec<_> = entries.collect();
            // An empty table of a name that the operator chose means something too.
            if default.is_none() || !entries.is_empty() {
                table.write(&mut text, entries.into_iter());
            }
        }
        text
    }

    /// All tables and settings. Those that are on the other page too become comments, and of them it is said whether
    /// they are a default or an example.
    pub(crate) fn whole(&self, defaults: &Self) -> String {
        let mut text = self.preface.clone();
        for table in &self.tables {
            let default = defaults.table(&table.path);
            let mut entries = table.entries.iter().filter(is_there).peekable();
            if entries.peek().is_some() {
                let written = |entry: &Entry| match entry.value {
                    Standing::Unset => Written::Example,
                    Standing::Shown if table.is_example => Written::Example,
                    Standing::Shown if !entry.is_in(default) => Written::Setting,
                    Standing::Shown | Standing::Hidden | Standing::Default => Written::Comment,
                };
                table.write(&mut text, entries.map(|entry| (entry, written(entry))));
            }
        }
        text
    }

    fn table(&self, path: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.path == path && !table.is_example)
    }
}

impl Table {
    /// Writes the table with some of its entries, each as a setting or as a comment.
    fn write<'a>(&self, text: &mut String, entries: impl Iterator<Item = (&'a Entry, Written)>) {
        text.push('\n');
        comment(text, &self.about);
        let sign = if self.is_example { "# " } else { "" };
        line(text, format_args!("{sign}[{}]", self.path));
        for (entry, written) in entries {
            comment(text, &entry.about);
            match written {
                Written::Setting => line(text, format_args!("{}", entry.line)),
                Written::Comment => line(text, format_args!("# {}", entry.line)),
                Written::Example => line(text, format_args!("# {}  # an example; not set", entry.line)),
            }
        }
    }
}

impl Entry {
    fn is_in(&self, table: Option<&Table>) -> bool {
        table.is_some_and(|table| table.entries.contains(self))
    }
}

/// Whether the feature of a setting is there.
fn is_there(entry: &&Entry) -> bool {
    !notices::is_not_yet(&entry.path)
}

fn comment(text: &mut String, about: &str) {
    about.lines().for_each(|about| line(text, format_args!("# {about}")));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// A size or count as a TOML integer.
pub(crate) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
