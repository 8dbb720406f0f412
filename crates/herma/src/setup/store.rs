//! Opens the configured store.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use herma_config::{Config, StoreUrl};
use herma_store::{Store, StoreError};
use herma_store_sqlite::SqliteStore;

use super::make_private;
use crate::failure::Misuse;

/// Opens the store. Makes it if it does not exist.
pub(crate) fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let path = sqlite_path(config)?;
    make_private(&config.data_dir)?;
    open(path)
}

/// Opens the store if it exists, for commands that have nothing to do without one.
pub(crate) fn open_existing_store(config: &Config) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let path = sqlite_path(config)?;
    if path.exists() { open(path).map(Some) } else { Ok(None) }
}

fn open(path: &Path) -> anyhow::Result<Arc<dyn Store>> {
    match SqliteStore::open(path) {
        Ok(store) => Ok(Arc::new(store)),
        Err(error @ StoreError::Unusable(_)) => Err(error.into()),
        Err(error) => Err(anyhow!(
            "cannot open {}: {error}; check that the file and its directory may be written and that the disk is not \
             full, or point --data or --store elsewhere",
            path.display()
        )),
    }
}

/// The file of the configured store.
pub(crate) fn sqlite_path(config: &Config) -> Result<&Path, Misuse> {
    match &config.store.url {
        StoreUrl::Sqlite(path) => Ok(path),
        url @ StoreUrl::Postgres(_) => Err(Misuse(format!(
            "PostgreSQL is not in this release, so {url} cannot be used; use sqlite:PATH, or leave the store out for \
             a file in the data directory"
        ))),
    }
}
