//! Connections for reading, lent one at a time to blocking tasks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herma_store::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::Semaphore;

use crate::failure::{StoreResult, Translate};
use crate::open;

/// The largest number of reads at one time, each with its own connection. More would only wait for the same disk and
/// cost memory.
const AT_ONCE: usize = 4;

/// A pool of reading connections.
#[derive(Clone)]
pub(crate) struct Readers {
    path: Arc<PathBuf>,
    places: Arc<Semaphore>,
    /// `None` once the store is closed.
    idle: Arc<Mutex<Option<Vec<Connection>>>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path: Arc::new(path),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            idle: Arc::new(Mutex::new(Some(Vec::new()))),
        }
    }

    /// Runs a read in one transaction, off the async threads. Cancel-safe.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let readers = self.clone();
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            let mut connection = readers.take()?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred).translated()?;
            let outcome = work(&transaction);
            transaction.finish().translated()?;
            readers.put_back(connection);
            outcome
        });
        done.await.unwrap_or_else(|_| Err(StoreError::Unavailable("a read was broken off".to_owned())))
    }

    /// Closes the idle connections, and the others when they are returned.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    fn take(&self) -> StoreResult<Connection> {
        let idle = self.lock().as_mut().ok_or(StoreError::Closed)?.pop();
        idle.map_or_else(|| open::reader(&self.path), Ok)
    }

    fn put_back(&self, connection: Connection) {
        if let Some(idle) = &mut *self.lock() {
            idle.push(connection);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
