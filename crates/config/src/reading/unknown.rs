//! The error about an unknown key or section.

use super::nearest::{likeness, nearest, nearest_by};
use super::path::{last, parent};
use crate::error::{ConfigError, Origin};

/// A key or a table that no section has read.
pub(crate) struct Unknown {
    /// The path of the table that contains it; empty for the document.
    pub(crate) table: String,
    /// Its name, quoted if TOML needs it.
    pub(crate) key: String,
    /// Whether it is a table in the file.
    pub(crate) is_table: bool,
    /// Where it was given.
    pub(crate) origin: Origin,
}

impl Unknown {
    /// The error, with the nearest of the known tables or keys.
    pub(crate) fn error(&self, tables: &[String], keys: &[String]) -> ConfigError {
        let origin = self.origin.clone();
        if let Some(name) = self.section(tables) {
            let sections = || tables.iter().map(String::as_str).filter(|table| parent(table).is_empty());
            let advice = match nearest(name, sections()) {
                Some(section) => format!("did you mean [{section}]?"),
                None => format!("the sections are {}", sections().collect::<Vec<_>>().join(", ")),
            };
            return ConfigError::UnknownSection { name: name.to_owned(), origin, advice };
        }
        let advice = match self.nearest_key(tables, keys) {
            Some(nearest) => format!("did you mean `{nearest}`{}?", self.as_variable(nearest)),
            None => self.all_of_table(keys),
        };
        let key = if self.table.is_empty() { self.key.clone() } else { format!("{}.{}", self.table, self.key) };
        ConfigError::UnknownKey { key, origin, advice }
    }

    /// The name of the section, if the section itself is unknown.
    fn section(&self, tables: &[String]) -> Option<&str> {
        if self.table.is_empty() {
            return self.is_table.then_some(&self.key);
        }
        (!tables.contains(&self.table)).then_some(&self.table)
    }

    /// The nearest known key, or table of the same table. A key of the same table scores higher than an equal key of
    /// another table.
    fn nearest_key<'a>(&self, tables: &'a [String], keys: &'a [String]) -> Option<&'a str> {
        let tables = tables.iter().filter(|table| parent(table) == self.table && !self.table.is_empty());
        nearest_by(keys.iter().chain(tables).map(String::as_str), |candidate| {
            let own = likeness(&self.key, last(candidate));
            if parent(candidate) == self.table { own } else { own * 0.8 }
        })
    }

    /// The variable for a key, if the operator misspelled a variable and the key has one.
    fn as_variable(&self, key: &str) -> String {
        match (&self.origin, key.split_once('.')) {
            (Origin::Variable(_), Some((section, key))) if !key.contains('.') => {
                format!(", HERMA_{}__{}", section.to_uppercase(), key.to_uppercase())
            }
            _ => String::new(),
        }
    }

    fn all_of_table(&self, keys: &[String]) -> String {
        let keys: Vec<_> = keys.iter().filter(|key| parent(key) == self.table).map(|key| last(key)).collect();
        match (self.table.as_str(), keys.as_slice()) {
            ("", _) => "every setting stands in a section, such as `listen` in [server]".to_owned(),
            (table, []) => format!("its settings stand in tables of the file, written [{table}.NAME]"),
            (table, keys) => format!("the settings of [{table}] are {}", keys.join(", ")),
        }
    }
}
