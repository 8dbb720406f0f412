//! Which ports servers of a store listen on: each holds the lock of a file beside the database, as long as it lives.
//!
//! So another process knows whether the server on a port has the same store, without asking that server anything.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use herma_config::{Config, StoreUrl};

/// A server that listens. When it is dropped, no server does.
pub(crate) struct Listening {
    file: PathBuf,
    _lock: File,
}

impl Listening {
    /// Says that this process listens on a port. `None` if files cannot be locked there; it only serves people then.
    pub(crate) fn begin(config: &Config, port: u16) -> Option<Self> {
        let file = path(config, port)?;
        let lock = File::create(&file).ok()?;
        lock.try_lock().ok()?;
        Some(Self { file, _lock: lock })
    }

    /// Whether a server of this store listens on a port.
    pub(crate) fn is_on(config: &Config, port: u16) -> bool {
        let lock = path(config, port).and_then(|file| File::open(file).ok());
        lock.is_some_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

fn path(config: &Config, port: u16) -> Option<PathBuf> {
    let StoreUrl::Sqlite(database) = &config.store.url else { return None };
    let mut name = OsString::from(database.file_name()?);
    name.push(format!("-listening-{port}"));
    Some(database.with_file_name(name))
}
