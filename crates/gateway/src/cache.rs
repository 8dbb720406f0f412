//! Histories in memory.
//!
//! An entry may be old. An admission names the version of the history that it used, and the store refuses it if the
//! conversation has another version now. A turn takes an entry out and puts it back with its own messages.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationId, TenantId};
use herma_store::Snapshot;

type Name = (TenantId, Namespace, Alias);

/// Bytes that an entry and a message cost besides their text.
const ENTRY_BYTES: usize = 512;
const MESSAGE_BYTES: usize = 320;

#[derive(Default)]
struct Inner {
    names: HashMap<Name, ConversationId>,
    entries: HashMap<ConversationId, Entry>,
    bytes: usize,
    clock: u64,
}

struct Entry {
    snapshot: Snapshot,
    name: Name,
    bytes: usize,
    used: u64,
}

/// Histories by the name under which they were last requested.
pub(crate) struct HistoryCache {
    limit: usize,
    inner: Mutex<Inner>,
}

impl HistoryCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, inner: Mutex::default() }
    }

    /// Takes out the history of the conversation to which this name led.
    pub(crate) fn take(&self, tenant: TenantId, namespace: Namespace, alias: &Alias) -> Option<Snapshot> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = inner.names.remove(&(tenant, namespace, alias.clone()))?;
        let entry = inner.entries.remove(&conversation)?;
        inner.bytes -= entry.bytes;
        Some(entry.snapshot)
    }

    /// Adds a history under the name by which it was requested. If the cache is full, the least recently used entries
    /// go.
    pub(crate) fn put(&self, tenant: TenantId, namespace: Namespace, alias: &Alias, snapshot: Snapshot) {
        let bytes = size_of_snapshot(&snapshot);
        if bytes > self.limit / 4 {
            return;
        }
        let name = (tenant, namespace, alias.clone());
        let conversation = snapshot.facts.id;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let used = inner.clock;
        inner.names.insert(name.clone(), conversation);
        inner.bytes += bytes;
        if let Some(old) = inner.entries.insert(conversation, Entry { snapshot, name: name.clone(), bytes, used }) {
            inner.bytes -= old.bytes;
            if old.name != name {
                inner.names.remove(&old.name);
            }
        }
        if inner.bytes > self.limit {
            inner.evict(self.limit / 4 * 3);
        }
    }
}

impl Inner {
    fn evict(&mut self, target: usize) {
        let mut by_age: Vec<_> = self.entries.iter().map(|(id, entry)| (entry.used, *id)).collect();
        by_age.sort_unstable();
        for (_, conversation) in by_age {
            if self.bytes <= target {
                break;
            }
            if let Some(entry) = self.entries.remove(&conversation) {
                self.bytes -= entry.bytes;
                self.names.remove(&entry.name);
            }
        }
    }
}

fn size_of_snapshot(snapshot: &Snapshot) -> usize {
    let system: usize = snapshot.system.iter().map(|payload| payload.as_json().len()).sum();
    let carried = snapshot.base.iter().flat_map(|base| &base.carried);
    let summary = snapshot.base.as_ref().map_or(0, |base| base.summary.said.payload.as_json().len());
    let messages: usize = snapshot
        .messages
        .iter()
        .chain(&snapshot.rewound)
        .chain(carried)
        .map(|message| {
            MESSAGE_BYTES
                + message.said.payload.as_json().len()
                + message.said.extra.as_ref().map_or(0, |extra| extra.len())
        })
        .sum();
    ENTRY_BYTES + system + summary + messages
}
