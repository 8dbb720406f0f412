//! A copy of a database while it is in use, and the way back.
//!
//! The copy is one file. It has everything that was committed when it began, and nothing that was deleted before.

use std::path::Path;

use herma_store::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::SqliteStore;
use crate::failure::Translate;
use crate::open::{self, BUSY_TIMEOUT};

impl SqliteStore {
    /// Writes a copy of a database to a new file, which must not exist or be empty. Other processes go on meanwhile.
    pub fn back_up(database: &Path, copy: &Path) -> Result<(), StoreError> {
        open::inspect(database)?;
        // Not read-only: the last process that used the file may have left a log that has to be read.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(database, flags).translated()?;
        connection.busy_timeout(BUSY_TIMEOUT).translated()?;
        let Some(copy) = copy.to_str() else {
            return Err(StoreError::Unusable(format!("{} cannot be written as text", copy.display())));
        };
        connection.execute("VACUUM INTO ?1", [copy]).map(drop).translated()
    }

    /// Checks that a file is a database of Herma that this program can use, and that no page of it is damaged.
    pub fn verify(database: &Path) -> Result<(), StoreError> {
        open::inspect_backup(database)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(database, flags).translated()?;
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).translated()?;
        let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).translated()?;
        match found.as_str() {
            "ok" if tables > 0 => Ok(()),
            "ok" => Err(StoreError::Unusable(format!("{} is empty", database.display()))),
            damage => Err(StoreError::Unusable(format!("{} is damaged: {damage}", database.display()))),
        }
    }

    /// Puts all of a database into its one file, without a log beside it. False if a process uses the database.
    pub fn close_all(database: &Path) -> Result<bool, StoreError> {
        let connection = Connection::open(database).translated()?;
        let mode = connection.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) => Ok(mode.eq_ignore_ascii_case("delete")),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
            Err(error) => Err(crate::failure::translate(&error)),
        }
    }
}
