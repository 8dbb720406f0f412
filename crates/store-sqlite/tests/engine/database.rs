//! A database file of a test's own, and what must be true of it beneath the port.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use herma_store::contract::{Engine, World};
use herma_store_sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

/// A file in a directory that goes with it.
pub(crate) struct Database {
    directory: TempDir,
}

impl Database {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("herma.db")
    }

    /// The names in the directory, in order.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) async fn world(&self) -> World<SqliteStore> {
        World::new(self).await
    }
}

impl Engine for Database {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Existing(self.path()).open().await
    }
}

/// A file that belongs to another process' test.
pub(crate) struct Existing(pub(crate) PathBuf);

impl Engine for Existing {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.0).unwrap())
    }
}

/// Counts that must be zero, whatever happened to a file.
const NEVER: &[(&str, &str)] = &[
    (
        "waiters are counted",
        "SELECT count(*) FROM conversations c
         WHERE waiting <> (SELECT count(*) FROM turns t WHERE t.conversation_pk = c.pk AND t.state = 'queued')",
    ),
    (
        "the running turn is the one that runs",
        "SELECT count(*) FROM conversations c
         WHERE running_turn IS NOT (SELECT pk FROM turns t WHERE t.conversation_pk = c.pk AND t.state = 'running')",
    ),
    (
        "one turn runs",
        "SELECT count(*) FROM (SELECT 1 FROM turns WHERE state = 'running' GROUP BY conversation_pk HAVING count(*) > 1)",
    ),
    (
        "turns have a conversation",
        "SELECT count(*) FROM turns WHERE conversation_pk NOT IN (SELECT pk FROM conversations)",
    ),
    ("messages have a turn", "SELECT count(*) FROM messages WHERE turn_pk NOT IN (SELECT pk FROM turns)"),
    (
        "only running turns have a journal",
        "SELECT count(*) FROM turn_journal WHERE turn_pk NOT IN (SELECT pk FROM turns WHERE state = 'running')",
    ),
    (
        "heads are sessions of their conversation",
        "SELECT count(*) FROM conversations c LEFT JOIN sessions s ON s.pk = c.head_pk AND s.conversation_pk = c.pk WHERE s.pk IS NULL",
    ),
    (
        "names lead to sessions of their conversation",
        "SELECT count(*) FROM aliases a LEFT JOIN sessions s ON s.pk = a.session_pk AND s.conversation_pk = a.conversation_pk WHERE a.session_pk IS NOT NULL AND s.pk IS NULL",
    ),
    (
        "the next place follows the last",
        "SELECT count(*) FROM conversations c WHERE next_seq <> 1 + (SELECT count(*) FROM messages m JOIN sessions s ON s.pk = m.session_pk WHERE s.conversation_pk = c.pk)",
    ),
    (
        "no conversation is empty",
        "SELECT count(*) FROM conversations c WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.conversation_pk = c.pk)",
    ),
];

/// Looks a file over that no store has open.
pub(crate) fn holds_together(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let whole: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let dangling = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!dangling, "every foreign key leads somewhere");
    for (promise, sql) in NEVER {
        let broken: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(broken, 0, "{promise}");
    }
}
