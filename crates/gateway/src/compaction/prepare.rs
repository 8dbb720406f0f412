//! Preparing a summary after an answer, so that the next turn need not wait for one.
//!
//! A turn never waits for a preparation. Before a turn calls the model server it makes every preparation drop its
//! request, because a server may have one slot. A preparation starts again when no turn is at the model server.
//! A preparation of the turn's own conversation ends for good: the turn's answer begins the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herma_model::ConversationId;
use herma_model::compaction::CompactionTrigger;
use herma_store::Snapshot;
use tokio::sync::{Semaphore, watch};

use super::Load;
use super::draft::{Case, SummaryBasis};
use crate::gateway::Gateway;
use crate::request::TurnRequest;

/// Most summaries that are prepared, or wait to be, at one time.
const MAX_PREPARATIONS: usize = 4;
/// How long a preparation may go on after a turn has come, because its summary may be almost complete.
const GRACE: Duration = Duration::from_millis(100);

/// Summaries that are being prepared, and the model calls of turns that go before them.
pub(crate) struct Preparations {
    permits: Arc<Semaphore>,
    /// How many turns are at the model server.
    calls: watch::Sender<usize>,
    /// Which preparation of a conversation is the current one.
    current: Mutex<HashMap<ConversationId, Arc<()>>>,
}

impl Default for Preparations {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_PREPARATIONS)),
            calls: watch::Sender::new(0),
            current: Mutex::default(),
        }
    }
}

/// A turn that is at the model server, until this is dropped.
pub(crate) struct AtModel<'a> {
    calls: &'a watch::Sender<usize>,
}

impl Drop for AtModel<'_> {
    fn drop(&mut self) {
        self.calls.send_modify(|calls| *calls -= 1);
    }
}

/// A conversation's preparation, until this is dropped or a turn of the conversation takes its place.
struct Preparation<'a> {
    preparations: &'a Preparations,
    conversation: ConversationId,
    mark: Arc<()>,
}

impl Preparation<'_> {
    fn is_current(&self) -> bool {
        self.preparations.lock().get(&self.conversation).is_some_and(|mark| Arc::ptr_eq(mark, &self.mark))
    }
}

impl Drop for Preparation<'_> {
    fn drop(&mut self) {
        let mut current = self.preparations.lock();
        if current.get(&self.conversation).is_some_and(|mark| Arc::ptr_eq(mark, &self.mark)) {
            current.remove(&self.conversation);
        }
    }
}

impl Preparations {
    /// Interrupts all preparations while a turn is at the model server. Ends that of the turn's conversation, if it has
    /// one.
    pub(crate) fn make_way(&self, conversation: Option<ConversationId>) -> AtModel<'_> {
        if let Some(conversation) = conversation {
            self.lock().remove(&conversation);
        }
        self.calls.send_modify(|calls| *calls += 1);
        AtModel { calls: &self.calls }
    }

    /// Ends a conversation's preparation, because the model is no longer shown what it summarises.
    pub(crate) fn end(&self, conversation: ConversationId) {
        self.lock().remove(&conversation);
    }

    /// Begins a conversation's preparation. `None` if there is one already.
    fn begin(&self, conversation: ConversationId) -> Option<Preparation<'_>> {
        let mark = Arc::new(());
        let mut current = self.lock();
        if current.contains_key(&conversation) {
            return None;
        }
        current.insert(conversation, Arc::clone(&mark));
        Some(Preparation { preparations: self, conversation, mark })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, Arc<()>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prepares a summary in the background if the conversation will soon need one, and has none.
pub(crate) fn prepare(gateway: &Arc<Gateway>, request: &TurnRequest, snapshot: &Snapshot) {
    let Some(mode) = gateway.settings.compaction.mode else { return };
    let (_, window) = gateway.settings.resolve_model(request.options.model.as_deref());
    let Some(window) = window else { return };
    let budget = gateway.budget(u64::from(window));
    let load = Load::of(request, Some(snapshot), &[]);
    let is_due = load.total > budget.soft && !snapshot.auto_compaction_paused && !gateway.is_draining();
    if !is_due || gateway.compactor.drafts.has(snapshot.facts.id, SummaryBasis::of(snapshot)) {
        return;
    }
    let Ok(permit) = Arc::clone(&gateway.compactor.preparations.permits).try_acquire_owned() else { return };
    let tenant = request.caller.principal.tenant;
    let (gateway, snapshot, model) = (Arc::clone(gateway), snapshot.clone(), request.options.model.clone());
    tokio::spawn(async move {
        let case = Case {
            tenant,
            snapshot: &snapshot,
            load,
            running: None,
            budget,
            model: model.as_deref(),
            mode,
            trigger: CompactionTrigger::Threshold,
            dry_run: false,
        };
        gateway.prepare(case).await;
        drop(permit);
    });
}

impl Gateway {
    /// Notes that a turn is at the model server, until the result is dropped.
    pub(crate) fn at_model(&self, conversation: Option<ConversationId>) -> AtModel<'_> {
        self.compactor.preparations.make_way(conversation)
    }

    /// Makes a summary while no turn is at the model server, and keeps it.
    async fn prepare(&self, case: Case<'_>) {
        let conversation = case.snapshot.facts.id;
        let preparations = &self.compactor.preparations;
        let Some(preparation) = preparations.begin(conversation) else { return };
        let mut calls = preparations.calls.subscribe();
        while calls.wait_for(|calls| *calls == 0).await.is_ok() && preparation.is_current() && !self.is_draining() {
            let turn_comes = async {
                let _ = calls.wait_for(|calls| *calls > 0).await;
                tokio::time::sleep(GRACE).await;
            };
            let draft = tokio::select! {
                draft = self.draft(case) => draft,
                () = turn_comes => {
                    tracing::debug!(%conversation, "a preparation makes way for a turn");
                    continue;
                }
            };
            if let Ok(draft) = draft {
                tracing::debug!(%conversation, "a summary was prepared");
                self.remember(case, &draft);
            }
            return;
        }
    }
}
