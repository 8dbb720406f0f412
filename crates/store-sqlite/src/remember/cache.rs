//! What is known about session keys, in memory, so that most recalls read nothing.
//!
//! The admission of a turn reads the version of its key. What is known at that version is good: a fact that was changed
//! and a message that was deleted have raised it. More that was said does not raise it. What this process indexes is
//! added to the lists of messages ([`super::feed`]), and after writes of other processes they are read again.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use herma_model::{SessionKey, TenantId};
use herma_store::{MemoryQuery, MemoryVersion, Remembered, StoreError};
use rusqlite::Connection;

use super::feed::Written;
use super::known::Known;
use super::lookups::{Lookups, NotFound};
use super::rank;
use super::said::{Fed, Moment};
use crate::failure::StoreResult;
use crate::memories::versions;

/// Most bytes of all keys together.
const MOST: usize = 64 * 1024 * 1024;
/// Most bytes of one key. If it has more, the words that were used least recently are dropped. A word that is asked for
/// again is then read from the database, which costs a turn many times as much.
const MOST_OF_KEY: usize = 48 * 1024 * 1024;
/// How much of that is kept then, so that it does not happen soon again.
const KEPT_OF_KEY: usize = MOST_OF_KEY / 4 * 3;

pub(super) type Scope = (TenantId, SessionKey);

/// What is known about session keys.
#[derive(Default)]
pub(crate) struct RecallCache {
    entries: Mutex<Entries>,
}

#[derive(Default)]
pub(super) struct Entries {
    pub(super) all: HashMap<Scope, Entry>,
    bytes: usize,
    clock: u64,
    /// `None` until this process writes the index.
    pub(super) fed: Option<Fed>,
}

pub(super) struct Entry {
    pub(super) known: Known,
    /// About its size. It is counted when it seems to be too large.
    bytes: usize,
    used: u64,
}

impl RecallCache {
    /// Answers a query from memory. If that is not possible: what is known of its key.
    pub(crate) fn answer(&self, query: &MemoryQuery) -> Result<Remembered, Option<Box<Known>>> {
        let now = Instant::now();
        let mut entries = self.lock();
        entries.clock += 1;
        let (used, fed) = (entries.clock, entries.fed);
        let entry = entries.all.get_mut(&scope(query)).ok_or(None)?;
        entry.used = used;
        let known = &mut entry.known;
        let moment = query
            .as_of
            .filter(|as_of| as_of.version == known.version)
            .map(|MemoryVersion { indexed, .. }| Moment { fed, indexed, now });
        let Some(moment) = moment else { return Err(Some(Box::new(known.needed_for(query, None)))) };
        if known.must_read_again(query, moment, used) {
            return Err(Some(Box::new(known.needed_for(query, Some(moment)))));
        }
        let mut lookups = Lookups { known, connection: None, query, indexed: moment.indexed };
        match rank::remember(&mut lookups, query) {
            Ok(remembered) => {
                let grown = std::mem::take(&mut known.grown);
                if grown > 0 {
                    entries.grow(&scope(query), grown);
                }
                Ok(remembered)
            }
            Err(NotFound::Unknown | NotFound::Failed(_)) => Err(Some(Box::new(known.needed_for(query, Some(moment))))),
        }
    }

    /// Answers a query from the database, and keeps what was read. The caller holds a read transaction.
    pub(crate) fn read(
        &self,
        connection: &Connection,
        query: &MemoryQuery,
        known: Option<Box<Known>>,
    ) -> StoreResult<Remembered> {
        let MemoryVersion { version, indexed, .. } = versions::of(connection, query.tenant, &query.session_key)?;
        let mut known =
            known.filter(|known| known.version == version).unwrap_or_else(|| Box::new(Known::nothing(version)));
        let mut lookups = Lookups { known: &mut known, connection: Some(connection), query, indexed };
        let remembered = rank::remember(&mut lookups, query).map_err(|error| match error {
            NotFound::Failed(error) => error,
            NotFound::Unknown => StoreError::Failed("a recall had no connection".to_owned()),
        })?;
        known.said = HashMap::new();
        self.lock().keep(&scope(query), *known);
        Ok(remembered)
    }

    /// Adds what this process has indexed to what is known. Everything of one write is added at once, so that a list
    /// that is read meanwhile is known to have all of it or nothing.
    pub(crate) fn feed(&self, written: Written) {
        self.lock().feed(written, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Keeps what a recall has read.
    pub(super) fn keep(&mut self, scope: &Scope, mut known: Known) {
        self.clock += 1;
        let (used, fed) = (self.clock, self.fed);
        known.words.values_mut().for_each(|word| word.used = used);
        let mut grown = std::mem::take(&mut known.grown);
        let nothing = || Entry { known: Known::nothing(known.version), bytes: 0, used };
        let entry = self.all.entry(scope.clone()).or_insert_with(nothing);
        entry.used = used;
        // Versions of a key only grow.
        let dropped = match entry.known.version.cmp(&known.version) {
            Ordering::Greater => return,
            Ordering::Equal => 0,
            Ordering::Less => std::mem::replace(entry, nothing()).bytes,
        };
        if entry.bytes == 0 {
            grown += size_of::<Entry>() + scope.1.as_str().len();
        }
        entry.known.extend(known, fed);
        self.bytes = self.bytes.saturating_sub(dropped);
        self.grow(scope, grown);
    }

    /// Notes that what is known of a key has grown, and drops something if it is too much.
    pub(super) fn grow(&mut self, scope: &Scope, bytes: usize) {
        let Some(entry) = self.all.get_mut(scope) else { return };
        let before = entry.bytes;
        entry.bytes += bytes;
        if entry.bytes > MOST_OF_KEY {
            entry.bytes = entry.known.bytes();
            if entry.bytes > KEPT_OF_KEY {
                entry.known.shrink(KEPT_OF_KEY);
                entry.bytes = entry.known.bytes();
            }
        }
        self.bytes = (self.bytes + entry.bytes).saturating_sub(before);
        if self.bytes > MOST {
            self.shrink();
        }
    }

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
