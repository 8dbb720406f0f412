//! Opens the file: checks it without changing it, then sets up connections.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use herma_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::failure::{StoreResult, Translate, translate};
use crate::migrations;

/// How long a writer waits for another process's transaction.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a file is checked before it is refused, and the pause between. Another process may be creating it.
const INSPECTIONS: u32 = 3;
const INSPECTION_PAUSE: Duration = Duration::from_millis(20);

/// Refuses a file that belongs to another program, is damaged, or was written by a newer Herma. Does not change it.
pub(crate) fn inspect(path: &Path) -> StoreResult<()> {
    inspect_or(path, "Restore it from a backup, or point --data or --store elsewhere")
}

/// The same for a file that is to be restored: it is the backup itself.
pub(crate) fn inspect_backup(path: &Path) -> StoreResult<()> {
    inspect_or(path, "Name a file that `herma backup` wrote")
}

/// `advice` is what to do about a file that is no database of Herma.
fn inspect_or(path: &Path, advice: &str) -> StoreResult<()> {
    for _ in 1..INSPECTIONS {
        if inspect_once(path, advice).is_ok() {
            return Ok(());
        }
        std::thread::sleep(INSPECTION_PAUSE);
    }
    inspect_once(path, advice)
}

fn inspect_once(path: &Path, advice: &str) -> StoreResult<()> {
    if !path.exists() || std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0) {
        return Ok(());
    }
    let name = path.display();
    let refuse = |error: &rusqlite::Error| match translate(error) {
        StoreError::Unusable(_) => {
            StoreError::Unusable(format!("{name} is damaged or not a Herma database; nothing was changed. {advice}"))
        }
        other => other,
    };
    let connection = inspection_connection(path).map_err(|error| refuse(&error))?;
    connection.busy_timeout(BUSY_TIMEOUT).translated()?;
    // One transaction, so that all values are from the same moment.
    let connection = connection.unchecked_transaction().map_err(|error| refuse(&error))?;
    let read = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let application = read("application_id").map_err(|error| refuse(&error))?;
    let version = read("user_version").map_err(|error| refuse(&error))?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| refuse(&error))?;
    if tables > 0 && application != migrations::APPLICATION_ID {
        return Err(StoreError::Unusable(format!(
            "{name} is a database of another program; nothing was changed. {advice}"
        )));
    }
    if version > migrations::newest() {
        return Err(StoreError::Unusable(format!(
            "{name} was written by a newer Herma (schema {version}, this one knows {}); nothing was changed. \
             Use the newer program",
            migrations::newest()
        )));
    }
    Ok(())
}

/// A connection that changes nothing. If there is no log, no process has the file open, so it needs no locks and no
/// files beside it.
fn inspection_connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match real.to_str().filter(|_| !log_path(&real).exists()) {
        Some(text) => {
            let text = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            Connection::open_with_flags(format!("file:{text}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)
        }
        None => Connection::open_with_flags(path, flags),
    }
}

/// The path of a database's write-ahead log.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// Creates a new file that only its owner can read; the log gets the same permissions. An existing file is not changed.
#[cfg(unix)]
pub(crate) fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::File::options().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Leaves permissions to the system.
#[cfg(not(unix))]
pub(crate) fn make_private(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The most memory of the page cache of a writing connection, in SQLite's unit. Only pages that are used take memory.
/// A turn writes to a random place of some indexes, and reads that page from the file if it is not here.
const WRITER_CACHE_KIB: i64 = -16 * 1024;

/// A connection that may write. The first one also migrates the schema.
pub(crate) fn writer(path: &Path) -> StoreResult<Connection> {
    let connection = Connection::open(path).translated()?;
    connection.busy_timeout(BUSY_TIMEOUT).translated()?;
    let mode = retry_while_locked(|| {
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))
    })?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Unusable(format!(
            "{} cannot use a write-ahead log (is it on a network file system?); put the data directory on a local disk",
            path.display()
        )));
    }
    // The sync thread makes commits durable: it syncs the log after each commit whose caller waits for that.
    connection.pragma_update(None, "synchronous", "NORMAL").translated()?;
    connection.pragma_update(None, "wal_autocheckpoint", 0).translated()?;
    // Only in debug builds: the statements themselves keep references valid, and checking costs a tenth of a turn.
    connection.pragma_update(None, "foreign_keys", cfg!(debug_assertions)).translated()?;
    connection.pragma_update(None, "temp_store", "MEMORY").translated()?;
    connection.pragma_update(None, "cache_size", WRITER_CACHE_KIB).translated()?;
    // SQLite overwrites deleted text with zeros. Maintenance truncates the log afterwards.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(())).translated()?;
    keep_statements(&connection, 128)?;
    Ok(connection)
}

/// Tries again while another process has an exclusive lock and SQLite does not wait by itself: the file is being
/// created, or its log truncated.
fn retry_while_locked<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> StoreResult<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && began.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome.translated(),
        }
    }
}

/// The page cache of a reading connection, in SQLite's unit. It holds the inner pages for a million conversations, so
/// that a look-up reads one page instead of three.
const READER_CACHE_KIB: i64 = -8 * 1024;

/// A connection that only reads.
pub(crate) fn reader(path: &Path) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).translated()?;
    connection.busy_timeout(BUSY_TIMEOUT).translated()?;
    connection.pragma_update(None, "cache_size", READER_CACHE_KIB).translated()?;
    keep_statements(&connection, 64)?;
    #[cfg(feature = "counts")]
    let connection = {
        let mut watched = connection;
        crate::counts::watch(&mut watched).translated()?;
        watched
    };
    Ok(connection)
}

/// Caches this many statements, each with its first plan. Without this, SQLite plans again when a bound value might
/// allow a partial index, which costs more than most look-ups. Statements that need such an index name it.
fn keep_statements(connection: &Connection, count: usize) -> StoreResult<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).translated()?;
    connection.set_prepared_statement_cache_capacity(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("herma.db");
        let mut writer = writer(&path).unwrap();
        migrations::run(&mut writer).unwrap();
        for connection in [writer, reader(&path).unwrap()] {
            let mut select = connection.prepare("SELECT pk FROM turns WHERE joinable = ?1").unwrap();
            for joinable in [0, 1, 0] {
                assert!(!select.exists([joinable]).unwrap());
            }
            assert_eq!(select.get_status(StatementStatus::RePrepare), 0);
        }
    }
}
