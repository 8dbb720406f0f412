//! What is known about session keys, in memory, so that most recalls read nothing.
//!
//! The admission of a turn reads the version of its key. What is known at that version is good: a fact that was changed
//! and a message that was deleted have raised it. More that was said does not raise it, so lists of messages are read
//! again when the index has grown.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use herma_model::{SessionKey, TenantId};
use herma_store::{MemoryQuery, MemoryVersion, Remembered, StoreError};
use rusqlite::Connection;

use super::known::Known;
use super::lookups::{Lookups, NotFound};
use super::rank;
use crate::failure::StoreResult;
use crate::memories::versions;

/// Most bytes of all keys together.
const MOST: usize = 16 * 1024 * 1024;
/// Most bytes of one key. If it has more, only what the last recall needed is kept.
const MOST_OF_KEY: usize = 4 * 1024 * 1024;

type Scope = (TenantId, SessionKey);

/// What is known about session keys.
#[derive(Default)]
pub(crate) struct RecallCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    all: HashMap<Scope, Entry>,
    bytes: usize,
    clock: u64,
}

struct Entry {
    known: Known,
    bytes: usize,
    used: u64,
}

impl RecallCache {
    /// Answers a query from memory. If that is not possible: what is known of its key.
    pub(crate) fn answer(&self, query: &MemoryQuery) -> Result<Remembered, Option<Box<Known>>> {
        let now = Instant::now();
        let mut entries = self.lock();
        entries.clock += 1;
        let used = entries.clock;
        let entry = entries.all.get_mut(&scope(query)).ok_or(None)?;
        entry.used = used;
        let as_of = query.as_of.filter(|as_of| as_of.version == entry.known.version);
        let Some(indexed) = as_of.map(|as_of| as_of.indexed) else {
            return Err(Some(Box::new(entry.known.needed_for(query, now))));
        };
        if must_read_again(&mut entry.known, query, indexed, now) {
            return Err(Some(Box::new(entry.known.needed_for(query, now))));
        }
        let mut lookups = Lookups { known: &mut entry.known, connection: None, query, indexed };
        match rank::remember(&mut lookups, query) {
            Ok(remembered) => Ok(remembered),
            Err(NotFound::Unknown | NotFound::Failed(_)) => Err(Some(Box::new(entry.known.needed_for(query, now)))),
        }
    }

    /// Answers a query from the database, and keeps what was read. The caller holds a read transaction.
    pub(crate) fn read(
        &self,
        connection: &Connection,
        query: &MemoryQuery,
        known: Option<Box<Known>>,
    ) -> StoreResult<Remembered> {
        let MemoryVersion { version, indexed } = versions::of(connection, query.tenant, &query.session_key)?;
        let mut known =
            known.filter(|known| known.version == version).unwrap_or_else(|| Box::new(Known::nothing(version)));
        let mut lookups = Lookups { known: &mut known, connection: Some(connection), query, indexed };
        let remembered = rank::remember(&mut lookups, query).map_err(|error| match error {
            NotFound::Failed(error) => error,
            NotFound::Unknown => StoreError::Failed("a recall had no connection".to_owned()),
        })?;
        known.recorded = HashMap::new();
        self.put(scope(query), *known);
        Ok(remembered)
    }

    fn put(&self, scope: Scope, known: Known) {
        let mut entries = self.lock();
        entries.clock += 1;
        let used = entries.clock;
        let before = entries.all.remove(&scope);
        let length = scope.1.as_str().len();
        let alone = |known: Known| (known.bytes() + length, known);
        let (bytes, known) = match before {
            Some(Entry { known: mut before, bytes, .. }) => {
                entries.bytes -= bytes;
                // Versions of a key only grow.
                match before.version.cmp(&known.version) {
                    Ordering::Less => alone(known),
                    Ordering::Greater => (bytes, before),
                    Ordering::Equal if bytes > MOST_OF_KEY => alone(known),
                    Ordering::Equal => (bytes + before.extend(known), before),
                }
            }
            None => alone(known),
        };
        // A few very long messages are not worth their place.
        if bytes > 2 * MOST_OF_KEY {
            return;
        }
        entries.bytes += bytes;
        entries.all.insert(scope, Entry { known, bytes, used });
        if entries.bytes > MOST {
            entries.shrink();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Drops the half of the keys that was used least recently.
    fn shrink(&mut self) {
        let mut used: Vec<u64> = self.all.values().map(|entry| entry.used).collect();
        let middle = used.len() / 2;
        let (_, median, _) = used.select_nth_unstable(middle);
        let oldest_kept = *median;
        self.all.retain(|_, entry| entry.used >= oldest_kept);
        self.bytes = self.all.values().map(|entry| entry.bytes).sum();
    }
}

fn scope(query: &MemoryQuery) -> Scope {
    (query.tenant, query.session_key.clone())
}

/// Whether a recall must read a list of messages again. It then reads all that are not fresh.
fn must_read_again(known: &mut Known, query: &MemoryQuery, indexed: i64, now: Instant) -> bool {
    let mut must = false;
    for word in &query.words {
        let Some(lists) = known.said_with.get_mut(word) else { continue };
        must |= lists.must_be_read_again(query.shown.conversation, indexed, now);
    }
    must
}
