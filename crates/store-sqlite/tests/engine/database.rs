//! A database file of a test's own.

use std::path::PathBuf;
use std::sync::Arc;

use herma_store::contract::Engine;
use herma_store_sqlite::SqliteStore;
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
}

impl Engine for Database {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.path()).unwrap())
    }
}
