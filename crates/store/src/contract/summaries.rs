//! Helpers that compact and undo as a gateway does.

use herma_model::alias::Namespace;
use herma_model::compaction::{CompactionTrigger, MadeBy, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{CompactionId, Role, Seq, SessionId, Usage};
use uuid::Uuid;

use super::World;
use super::fixture::{message, name, text_of};
use crate::{
    Authority, CompactOutcome, Compacted, Entry, Extent, FailedCompaction, LedgerPage, MessageRange, NewCompaction,
    Order, Pin, Running, Scope, Snapshot, Store, Undo, UndoOutcome, UndoRefusal, Version,
};

/// A new id for a compaction.
pub fn new_id() -> CompactionId {
    CompactionId::from_uuid(Uuid::now_v7())
}

/// Returns the compaction; panics on any other outcome.
pub fn compacted(outcome: CompactOutcome) -> Compacted {
    match outcome {
        CompactOutcome::Compacted(compacted) => *compacted,
        other => panic!("expected a compaction, got {other:?}"),
    }
}

/// Returns the undo; panics on any other outcome.
pub fn undone(outcome: UndoOutcome) -> Compacted {
    match outcome {
        UndoOutcome::Undone(undone) => *undone,
        other => panic!("expected an undo, got {other:?}"),
    }
}

/// Returns the refusal; panics on any other outcome.
pub fn not_undone(outcome: UndoOutcome) -> UndoRefusal {
    match outcome {
        UndoOutcome::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// What the model is shown, in order: the summary in square brackets, carried messages in round ones, other messages as
/// they are.
pub fn shown(snapshot: &Snapshot) -> Vec<String> {
    let mut shown = Vec::new();
    if let Some(base) = &snapshot.base {
        shown.push(format!("[{}]", text_of(base.summary.said.payload.as_json())));
        shown.extend(base.carried.iter().map(|kept| format!("({})", text_of(kept.said.payload.as_json()))));
    }
    shown.extend(snapshot.messages.iter().map(|said| text_of(said.said.payload.as_json())));
    shown
}

/// The text of an entry; a summary in square brackets.
pub fn entry_text(entry: &Entry) -> String {
    match entry {
        Entry::Said(said) => text_of(said.said.payload.as_json()),
        Entry::Summary(summary) => format!("[{}]", text_of(summary.said.payload.as_json())),
    }
}

impl<S: Store> World<S> {
    /// The authority of a caller while no turn is running.
    pub fn idle_authority(&self, to: &str) -> Authority {
        Authority::Idle { scope: self.scope.clone(), alias: name(to) }
    }

    /// A compaction of all that the model is shown except the last `keep` messages.
    pub async fn plan(&self, to: &str, mode: CompactionMode, keep: usize, summary: &str) -> NewCompaction {
        let view = self.read(to).await.unwrap();
        let covered = view.base.as_ref().map_or(Seq(0), |base| base.through);
        let last = view.messages.iter().rev().nth(keep);
        NewCompaction {
            facts: Vec::new(),
            id: new_id(),
            authority: self.idle_authority(to),
            base: view.base.as_ref().map(|base| base.summary.compaction),
            rewrites: view.rewrites,
            mode,
            trigger: CompactionTrigger::Manual,
            made_by: MadeBy::Herma,
            through: last.map_or(covered, |last| last.seq),
            last: last.map_or(herma_model::MessageId::from_uuid(Uuid::nil()), |last| last.id),
            carried: Vec::new(),
            summary: message(Role::User, summary),
            trimmed: None,
            session: SessionId::from_uuid(Uuid::now_v7()),
            model: Some("model-1".to_owned()),
            sizes: Sizes { before: 1000, after: 100 },
            usage: Usage { input: 900, output: 90, cached: 9, reasoning: 1, ..Usage::default() },
            duration_ms: 1234,
            now: self.now(),
        }
    }

    /// Compacts all but the last message while no turn is running.
    pub async fn compact(&self, store: &S, to: &str, mode: CompactionMode, summary: &str) -> Compacted {
        compacted(store.compact(self.plan(to, mode, 1, summary).await).await.unwrap())
    }

    /// Compacts all but the last message during a turn, which continues in the new head.
    pub async fn compact_during(
        &self,
        store: &S,
        turn: &mut Running,
        mode: CompactionMode,
        summary: &str,
    ) -> Compacted {
        let plan = self.plan(&turn.facts.id.to_string(), mode, 1, summary).await;
        let plan = NewCompaction { authority: Authority::Lease(turn.lease), ..plan };
        let compacted = compacted(store.compact(plan).await.unwrap());
        turn.facts = compacted.facts.clone();
        turn.version = compacted.version;
        compacted
    }

    /// An undo request at the version that the caller sees now.
    pub async fn undo_request(&self, to: &str, target: CompactionId) -> Undo {
        let seen = self.read(to).await.map_or(Version(0), |snapshot| snapshot.version);
        Undo {
            id: new_id(),
            scope: self.scope.clone(),
            alias: name(to),
            target,
            seen,
            sizes: Sizes { before: 100, after: 1000 },
            now: self.now(),
        }
    }

    /// Undoes a compaction.
    pub async fn undo(&self, store: &S, to: &str, target: CompactionId) -> UndoOutcome {
        store.undo(self.undo_request(to, target).await).await.unwrap()
    }

    /// A failed compaction.
    pub fn failed(&self, turn: &Running) -> FailedCompaction {
        FailedCompaction {
            id: new_id(),
            tenant: self.scope.tenant,
            conversation: turn.facts.id,
            mode: CompactionMode::Split,
            trigger: CompactionTrigger::Threshold,
            first: Seq(1),
            through: Seq(2),
            model: None,
            tokens: 1000,
            usage: Usage { input: 900, ..Usage::default() },
            duration_ms: 77,
            failure: "it said nothing".to_owned(),
            turn: Some(turn.turn),
            now: self.now(),
        }
    }

    /// The conversation that a name leads to, read in this extent.
    pub async fn read_as(&self, to: &str, extent: Extent) -> Option<Snapshot> {
        self.two.open(&self.scope, &name(to), Namespace::Session, extent).await.unwrap()
    }

    /// All entries of a full view.
    pub async fn entries(&self, scope: &Scope, to: &str, pin: Pin) -> Vec<Entry> {
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let range = MessageRange { order: Order::OldestFirst { after: all.last().map(Entry::seq) }, limit: 7, pin };
            let page = self.two.messages(scope, &name(to), range).await.unwrap().unwrap();
            assert!(page.entries.len() <= 7);
            all.extend(page.entries);
            if !page.has_more {
                return all;
            }
        }
    }

    /// All entries of a full view, newest first.
    pub async fn entries_back(&self, scope: &Scope, to: &str, pin: Pin) -> Vec<Entry> {
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let range =
                MessageRange { order: Order::NewestFirst { before: all.last().map(Entry::seq) }, limit: 5, pin };
            let page = self.two.messages(scope, &name(to), range).await.unwrap().unwrap();
            assert!(page.entries.len() <= 5);
            all.extend(page.entries);
            if !page.has_more {
                return all;
            }
        }
    }

    /// The texts of all entries of a full view.
    pub async fn said(&self, to: &str, pin: Pin) -> Vec<String> {
        self.entries(&self.scope, to, pin).await.iter().map(entry_text).collect()
    }

    /// The first rows of a conversation's ledger.
    pub async fn ledger(&self, to: &str) -> LedgerPage {
        self.two.compactions(&self.scope, &name(to), None, 100).await.unwrap().unwrap()
    }
}
