//! Histories in memory.
//!
//! An entry may be old. An admission names the version of the history that it used, and the store refuses it if the
//! conversation has another version now. A turn takes an entry out and puts it back with its own messages.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationId, Digest, HistoryDigest, HistoryTrail, SessionKey, TenantId};
use herma_store::Snapshot;

type Name = (TenantId, Namespace, Alias);

/// The ends of a trail lead to it, and the rest of it is then compared.
type TrailEnds = (TenantId, (Digest, Digest, usize));

/// Bytes that an entry and a message cost besides their text.
const ENTRY_BYTES: usize = 512;
const MESSAGE_BYTES: usize = 320;

#[derive(Default)]
struct Inner {
    names: HashMap<Name, ConversationId>,
    /// The last added of the conversations that end with a history.
    histories: HashMap<(TenantId, HistoryDigest), ConversationId>,
    /// The last added of the conversations whose trails have these ends.
    trails: HashMap<TrailEnds, ConversationId>,
    entries: HashMap<ConversationId, Entry>,
    bytes: usize,
    clock: u64,
}

struct Entry {
    snapshot: Snapshot,
    /// The trail of the history with which the conversation ends, if its last client sent that history.
    trail: Option<HistoryTrail>,
    name: Name,
    bytes: usize,
    used: u64,
}

impl Entry {
    /// The history with which the conversation ends.
    fn history(&self) -> Option<(TenantId, HistoryDigest)> {
        self.snapshot.history.map(|history| (self.name.0, history))
    }

    fn trail_ends(&self) -> Option<TrailEnds> {
        self.trail.as_ref().and_then(HistoryTrail::ends).map(|ends| (self.name.0, ends))
    }
}

/// Histories by the name under which they were last requested, and by their digests.
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
        let conversation = *inner.names.get(&(tenant, namespace, alias.clone()))?;
        inner.remove(conversation)
    }

    /// The same as [`Self::take_history`], by the trail of the history. `None` if the conversation was added without.
    pub(crate) fn take_trail(
        &self,
        tenant: TenantId,
        session_key: Option<&SessionKey>,
        trail: &HistoryTrail,
    ) -> Option<Snapshot> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = *inner.trails.get(&(tenant, trail.ends()?))?;
        let entry = inner.entries.get(&conversation)?;
        if entry.snapshot.facts.session_key.as_ref() != session_key || entry.trail.as_ref() != Some(trail) {
            return None;
        }
        inner.remove(conversation)
    }

    /// Takes out a conversation that ends with this history and has this session key.
    pub(crate) fn take_history(
        &self,
        tenant: TenantId,
        session_key: Option<&SessionKey>,
        history: HistoryDigest,
    ) -> Option<Snapshot> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = *inner.histories.get(&(tenant, history))?;
        let entry = inner.entries.get(&conversation)?;
        if entry.snapshot.facts.session_key.as_ref() != session_key {
            return None;
        }
        inner.remove(conversation)
    }

    /// Adds a history under the name by which it was requested. If the cache is full, the least recently used entries
    /// go. `trail` is that of the history with which the conversation ends, if it is known.
    pub(crate) fn put(
        &self,
        tenant: TenantId,
        namespace: Namespace,
        alias: &Alias,
        snapshot: Snapshot,
        trail: Option<HistoryTrail>,
    ) {
        let bytes = size_of_snapshot(&snapshot) + trail.as_ref().map_or(0, HistoryTrail::bytes);
        if bytes > self.limit / 4 {
            return;
        }
        let name = (tenant, namespace, alias.clone());
        let conversation = snapshot.facts.id;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let used = inner.clock;
        inner.remove(conversation);
        inner.names.insert(name.clone(), conversation);
        inner.bytes += bytes;
        let entry = Entry { snapshot, trail, name, bytes, used };
        if let Some(history) = entry.history() {
            inner.histories.insert(history, conversation);
        }
        if let Some(ends) = entry.trail_ends() {
            inner.trails.insert(ends, conversation);
        }
        inner.entries.insert(conversation, entry);
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
            self.remove(conversation);
        }
    }

    /// Removes an entry, and what leads to it.
    fn remove(&mut self, conversation: ConversationId) -> Option<Snapshot> {
        let entry = self.entries.remove(&conversation)?;
        self.bytes -= entry.bytes;
        if self.names.get(&entry.name) == Some(&conversation) {
            self.names.remove(&entry.name);
        }
        if let Some(history) = entry.history()
            && self.histories.get(&history) == Some(&conversation)
        {
            self.histories.remove(&history);
        }
        if let Some(ends) = entry.trail_ends()
            && self.trails.get(&ends) == Some(&conversation)
        {
            self.trails.remove(&ends);
        }
        Some(entry.snapshot)
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
