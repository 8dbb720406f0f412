//! Reads the databases of Hermes, even while Hermes writes them. Changes and interprets nothing.
//!
//! - [`HermesFile`]: `state.db`, its sessions and their messages. A column that an older Hermes did not have reads as
//!   empty. Unknown columns are ignored.
//! - [`ResponseStore`]: `response_store.db`, the names that its Responses API gave out.

mod cells;
mod file;
mod records;
mod responses;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use file::{HermesFile, NEWEST_SCHEMA};
pub use records::{HermesMessage, HermesSession};
pub use responses::{GivenName, ResponseStore};

use crate::open::BUSY_TIMEOUT;

/// Why a file of Hermes cannot be read. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum HermesError {
    /// It does not exist, or is not a file.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    /// It is not an SQLite database.
    #[error("{} is not an SQLite database", .0.display())]
    NotADatabase(PathBuf),
    /// SQLite says that it is damaged. A backup may help, or Hermes' own repair at its next start.
    #[error(
        "{} is damaged ({reason}); restore it from a backup, or let Hermes repair it by starting it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// It is an SQLite database of another program.
    #[error("{} is not a Hermes database: it has no {missing}", path.display())]
    NotHermes {
        /// The file.
        path: PathBuf,
        /// A table or column that every version of Hermes has.
        missing: String,
    },
    /// It was written by a newer Hermes than this program knows.
    #[error("{} was written by a newer Hermes (schema {schema}; up to {NEWEST_SCHEMA} is known)", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        schema: i64,
    },
    /// It cannot be opened or read now.
    #[error(
        "cannot read {}: {reason}; check that the file and its directory can be read and written, \
         or copy it with its -wal file",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
}

impl HermesError {
    fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, reason) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase(path),
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, reason },
            _ => Self::Unreadable { path, reason },
        }
    }
}

/// A read-only connection that sees what other processes write meanwhile.
fn connect(path: &Path) -> Result<Connection, HermesError> {
    if !path.is_file() {
        return Err(HermesError::Missing(path.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| HermesError::of(path, &error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| HermesError::of(path, &error))?;
    Ok(connection)
}

/// The columns of a table. Empty if there is no such table.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    connection.prepare("SELECT name FROM pragma_table_info(?1)")?.query_map([table], |row| row.get(0))?.collect()
}
