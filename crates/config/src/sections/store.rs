//! `[store]`: where conversations are stored.

use std::path::Path;

use crate::error::ConfigError;
use crate::page::{Page, integer};
use crate::reading::section::Section;
use crate::values::store_url::StoreUrl;

const DEFAULT_CACHE_BYTES: usize = 64 * 1024 * 1024;

/// The store and its cache in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The database.
    pub url: StoreUrl,
    /// Memory for the histories of recent conversations. 0 means no cache.
    pub cache_bytes: usize,
}

impl StoreConfig {
    /// A database `herma.db` in the data directory.
    pub fn in_directory(data_dir: &Path) -> Self {
        Self { url: StoreUrl::Sqlite(data_dir.join("herma.db")), cache_bytes: DEFAULT_CACHE_BYTES }
    }

    pub(crate) fn read(section: &mut Section, data_dir: &Path) -> Result<Self, ConfigError> {
        let default = Self::in_directory(data_dir);
        Ok(Self { url: section.or("url", default.url)?, cache_bytes: section.or("cache_bytes", default.cache_bytes)? })
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["store"], "Where conversations are kept.");
        page.set("url", self.url.to_string(), "sqlite:PATH or postgres://…; a password is not shown here.");
        page.set(
            "cache_bytes",
            integer(self.cache_bytes),
            "Memory for histories of recent conversations; 0 keeps none.",
        );
    }
}
