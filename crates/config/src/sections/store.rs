//! `[store]`: where conversations are stored.

use std::path::Path;

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

    pub(crate) fn read(section: &mut Section, data_dir: &Path) -> Self {
        let default = Self::in_directory(data_dir);
        Self { url: section.or("url", default.url), cache_bytes: section.or("cache_bytes", default.cache_bytes) }
    }

    /// The default place is not written down, so that the file can be used with another data directory.
    pub(crate) fn write(&self, page: &mut Page, data_dir: &Path) {
        const ABOUT: &str = "sqlite:PATH. Without it: herma.db in the data directory.";
        page.heading(&["store"], "Where conversations are kept.");
        let url = Some(&self.url).filter(|url| **url != Self::in_directory(data_dir).url);
        page.maybe("url", url.map(ToString::to_string), "sqlite:/srv/herma/herma.db".to_owned(), ABOUT);
        page.set(
            "cache_bytes",
            integer(self.cache_bytes),
            "Memory for histories of recent conversations; 0 keeps none.",
        );
    }
}
