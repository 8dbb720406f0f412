//! A table of settings. Reading a setting removes it, so the keys that are left at the end are unknown.
//!
//! The document is a section too, with an empty path. Its sections and tables such as `[models.NAME]` are read with
//! [`Section::within`]. A section records every known key, to suggest the nearest one for an unknown key. It also
//! records every key that was set, for notices to the operator.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::given::{GivenValue, ValueError};
use super::path::{join, quoted};
use super::setting::Setting;
use super::unknown::Unknown;
use crate::error::{ConfigError, Origin};

/// Values from variables and flags, by full dotted key.
pub(crate) type TextSettings = BTreeMap<String, (String, Origin)>;

/// A table that is being read.
pub(crate) struct Section {
    path: String,
    file: PathBuf,
    table: toml::Table,
    texts: TextSettings,
    known_tables: Vec<String>,
    known: Vec<String>,
    set: Vec<String>,
    unknown: Vec<Unknown>,
    /// Values that cannot be used. The default stands in for each, so that reading goes on and finds the others.
    mistakes: Vec<ConfigError>,
}

impl Section {
    /// The whole document: the table of the file, and the texts that override it.
    pub(crate) fn document(file: PathBuf, table: toml::Table, texts: TextSettings) -> Self {
        Self::new(String::new(), file, table, texts)
    }

    fn new(path: String, file: PathBuf, table: toml::Table, texts: TextSettings) -> Self {
        let [known_tables, known, set] = [const { Vec::new() }; 3];
        Self { path, file, table, texts, known_tables, known, set, unknown: Vec::new(), mistakes: Vec::new() }
    }

    /// Reads a setting. `None` if it was not given, or if its value cannot be used, which [`Section::finish`] tells.
    pub(crate) fn read<T: Setting>(&mut self, key: &str) -> Option<T> {
        self.read_where(key, T::ALLOWED, |_| true)
    }

    /// Reads a setting. If it was not given or cannot be used, returns the default.
    pub(crate) fn or<T: Setting>(&mut self, key: &str, default: T) -> T {
        self.read(key).unwrap_or(default)
    }

    /// Reads a setting that must also satisfy `accepted`. `allowed` says in words which values do.
    pub(crate) fn read_where<T: Setting>(
        &mut self,
        key: &str,
        allowed: &str,
        accepted: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let (given, key, origin) = self.take(key)?;
        let mistake = match T::read(&given)
            .and_then(|value| if accepted(&value) { Ok(value) } else { Err(ValueError::NotAllowed) })
        {
            Ok(value) => return Some(value),
            Err(ValueError::WrongType) => {
                ConfigError::WrongType { key, origin, expected: allowed.to_owned(), found: given.type_name() }
            }
            Err(ValueError::NotAllowed) => {
                ConfigError::InvalidValue { key, origin, value: T::show(&given), allowed: allowed.to_owned() }
            }
        };
        self.mistakes.push(mistake);
        None
    }

    /// Notes that settings of this table cannot be used together. Call it after all of them were read. It has no
    /// effect if one of them is a mistake: the conflict may then be with the default that stands in for it.
    pub(crate) fn conflict(&mut self, problem: String) {
        if self.mistakes.is_empty() {
            self.mistakes.push(ConfigError::Conflict(problem));
        }
    }

    /// Notes that a table inside this one has a name that cannot be used.
    pub(crate) fn wrong_name(&mut self, problem: String) {
        self.mistakes.push(ConfigError::Conflict(problem));
    }

    /// Reads the table at `key` with `read`. A table that was not given is empty.
    pub(crate) fn within<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let path = join(&self.path, key);
        let mut mistakes = Vec::new();
        let table = match self.table.remove(key) {
            None => toml::Table::new(),
            Some(toml::Value::Table(table)) => table,
            Some(other) => {
                mistakes.push(ConfigError::WrongType {
                    key: path.clone(),
                    origin: Origin::File(self.file.clone()),
                    expected: format!("a table, written [{path}]"),
                    found: GivenValue::Toml(other).type_name(),
                });
                toml::Table::new()
            }
        };
        let prefix = format!("{path}.");
        let texts = self.texts.extract_if(.., |key, _| key.starts_with(&prefix)).collect();
        let mut inner = Self::new(path.clone(), self.file.clone(), table, texts);
        inner.mistakes = mistakes;
        let value = read(&mut inner);
        inner.note_unknown();
        self.mistakes.append(&mut inner.mistakes);
        self.known_tables.push(path);
        self.known_tables.append(&mut inner.known_tables);
        self.known.append(&mut inner.known);
        self.set.append(&mut inner.set);
        self.unknown.append(&mut inner.unknown);
        value
    }

    /// The keys of the file's table that were not read yet. For tables whose keys the operator chooses.
    pub(crate) fn names(&self) -> Vec<String> {
        self.table.keys().cloned().collect()
    }

    /// Returns the dotted keys that were set, or an error about all values that cannot be used and all unknown keys.
    pub(crate) fn finish(mut self) -> Result<Vec<String>, ConfigError> {
        self.note_unknown();
        let unknown = self.unknown.iter().map(|unknown| unknown.error(&self.known_tables, &self.known));
        self.mistakes.extend(unknown.collect::<Vec<_>>());
        match ConfigError::of_all(self.mistakes) {
            Some(error) => Err(error),
            None => Ok(self.set),
        }
    }

    fn take(&mut self, key: &str) -> Option<(GivenValue, String, Origin)> {
        let path = join(&self.path, key);
        self.known.push(path.clone());
        // Remove the file's value even if a text overrides it. Otherwise its key would count as unknown.
        let from_file = self.table.remove(key).map(|value| (GivenValue::Toml(value), Origin::File(self.file.clone())));
        let (given, origin) =
            self.texts.remove(&path).map(|(text, origin)| (GivenValue::Text(text), origin)).or(from_file)?;
        self.set.push(path.clone());
        Some((given, path, origin))
    }

    fn note_unknown(&mut self) {
        let from_file = self.table.iter().map(|(key, value)| Unknown {
            table: self.path.clone(),
            key: quoted(key),
            is_table: value.is_table(),
            origin: Origin::File(self.file.clone()),
        });
        let from_texts = self.texts.iter().map(|(path, (_, origin))| {
            let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
            Unknown { table: table.to_owned(), key: key.to_owned(), is_table: false, origin: origin.clone() }
        });
        self.unknown.extend(from_file.chain(from_texts));
    }
}
