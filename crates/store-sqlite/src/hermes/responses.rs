//! `response_store.db`.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde::Deserialize;

use super::cells::text;
use super::{HermesError, columns, connect};

/// A name of Hermes' Responses API, and the session it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenName {
    /// The slug of a conversation, or the id of a response.
    pub name: String,
    /// The session's id. `None` if the store does not have it.
    pub session: Option<String>,
}

/// The fields of a stored response that are read.
#[derive(Deserialize)]
struct ResponseData {
    session_id: Option<String>,
}

/// The store of Hermes' responses, open for reading.
pub struct ResponseStore {
    connection: Connection,
    path: PathBuf,
}

impl ResponseStore {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, HermesError> {
        let connection = connect(path)?;
        for table in ["responses", "conversations"] {
            if columns(&connection, table).map_err(|error| HermesError::of(path, &error))?.is_empty() {
                let missing = format!("table {table}");
                return Err(HermesError::NotHermes { path: path.to_owned(), missing });
            }
        }
        Ok(Self { connection, path: path.to_owned() })
    }

    /// All names: slugs first, then responses.
    pub fn names(&self) -> Result<Vec<GivenName>, HermesError> {
        let select = "SELECT c.name, r.data FROM conversations c LEFT JOIN responses r ON r.response_id = c.response_id
             UNION ALL SELECT response_id, data FROM responses";
        self.read(select).map_err(|error| HermesError::of(&self.path, &error))
    }

    fn read(&self, select: &str) -> rusqlite::Result<Vec<GivenName>> {
        self.connection
            .prepare(select)?
            .query_map([], |row| {
                let data = text(row, 1)?.and_then(|json| serde_json::from_str::<ResponseData>(&json).ok());
                Ok(GivenName {
                    name: text(row, 0)?.unwrap_or_default(),
                    session: data.and_then(|data| data.session_id),
                })
            })?
            .collect()
    }
}
