//! Preparing a summary after an answer, so that the next turn need not wait for one.
//!
//! A turn never waits for a preparation. Before a turn calls a model server it makes every preparation there drop its
//! request, because a server may have one slot. A preparation starts again when no turn is at its model server.
//! A preparation of the turn's own conversation ends for good: the turn's answer begins the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herma_model::ConversationId;
use herma_model::compaction::CompactionTrigger;
use herma_store::Snapshot;
use tokio::sync::{Notify, Semaphore, watch};

use super::Load;
use super::draft::{Case, SummaryBasis};
use crate::gateway::Gateway;
use crate::mint;
use crate::models::{ModelServers, PerServer, ServerId};
use crate::request::TurnRequest;

/// Most summaries that one model server prepares, or that wait for it, at one time.
const MAX_PREPARATIONS: usize = 4;
/// How long a preparation may go on after a turn has come, because its summary may be almost complete.
const GRACE: Duration = Duration::from_millis(100);

/// Summaries that are being prepared, and the model calls of turns that go before them.
pub(crate) struct Preparations {
    permits: PerServer<Arc<Semaphore>>,
    /// How many turns are at each model server.
    calls: PerServer<watch::Sender<usize>>,
    /// Which preparation of a conversation is the current one, and how it is told that it no longer is.
    current: Mutex<HashMap<ConversationId, Arc<Notify>>>,
}

/// A turn that is at a model server, until this is dropped.
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
    mark: Arc<Notify>,
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
    pub(crate) fn of(servers: &ModelServers) -> Self {
        Self {
            permits: servers.map(|_| Arc::new(Semaphore::new(MAX_PREPARATIONS))),
            calls: servers.map(|_| watch::Sender::new(0)),
            current: Mutex::default(),
        }
    }

    /// Interrupts the preparations of a model server while a turn is there. Ends that of the turn's conversation, if it
    /// has one.
    pub(crate) fn make_way(&self, server: ServerId, conversation: Option<ConversationId>) -> AtModel<'_> {
        if let Some(conversation) = conversation {
            self.end(conversation);
        }
        let calls = self.calls.of(server);
        calls.send_modify(|calls| *calls += 1);
        AtModel { calls }
    }

    /// Ends a conversation's preparation, because a turn comes or the model is no longer shown what it summarises.
    pub(crate) fn end(&self, conversation: ConversationId) {
        if let Some(mark) = self.lock().remove(&conversation) {
            mark.notify_one();
        }
    }

    /// Begins a conversation's preparation. `None` if there is one already.
    fn begin(&self, conversation: ConversationId) -> Option<Preparation<'_>> {
        let mark = Arc::new(Notify::new());
        let mut current = self.lock();
        if current.contains_key(&conversation) {
            return None;
        }
        current.insert(conversation, Arc::clone(&mark));
        Some(Preparation { preparations: self, conversation, mark })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, Arc<Notify>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prepares a summary in the background if the conversation will soon need one, and has none.
pub(crate) fn prepare(gateway: &Arc<Gateway>, request: &TurnRequest, snapshot: &Snapshot) {
    let Some(mode) = gateway.settings.compaction.mode else { return };
    let asked = request.options.model.as_deref();
    let Some(window) = gateway.settings.resolve_model(asked).window else { return };
    let budget = gateway.budget(u64::from(window));
    let load = Load::of(request, Some(snapshot), &[]);
    let is_due = load.total > budget.soft && !snapshot.auto_compaction_paused && !gateway.is_draining();
    if !is_due || gateway.compactor.drafts.has(snapshot.facts.id, SummaryBasis::of(snapshot)) {
        return;
    }
    let permits = gateway.compactor.preparations.permits.of(gateway.summary_model(asked).server);
    let Ok(permit) = Arc::clone(permits).try_acquire_owned() else { return };
    let tenant = request.caller.principal.tenant;
    let (gateway, snapshot, model) = (Arc::clone(gateway), snapshot.clone(), request.options.model.clone());
    let trace = request.trace.clone();
    tokio::spawn(async move {
        let case = Case {
            id: mint::compaction(),
            tenant,
            snapshot: &snapshot,
            load,
            running: None,
            budget,
            model: model.as_deref(),
            mode,
            trigger: CompactionTrigger::Threshold,
            dry_run: false,
            begun: None,
            trace: &trace,
        };
        gateway.prepare(case).await;
        drop(permit);
    });
}

impl Gateway {
    /// Notes that a turn is at a model server, until the result is dropped.
    pub(crate) fn at_model(&self, server: ServerId, conversation: Option<ConversationId>) -> AtModel<'_> {
        self.compactor.preparations.make_way(server, conversation)
    }

    /// Makes a summary while no turn is at the model server that makes it, and keeps it.
    async fn prepare(&self, case: Case<'_>) {
        let conversation = case.snapshot.facts.id;
        let preparations = &self.compactor.preparations;
        let Some(preparation) = preparations.begin(conversation) else { return };
        let mut calls = preparations.calls.of(self.summary_model(case.model).server).subscribe();
        while calls.wait_for(|calls| *calls == 0).await.is_ok() && preparation.is_current() && !self.is_draining() {
            let turn_comes = async {
                tokio::select! {
                    _ = calls.wait_for(|calls| *calls > 0) => {}
                    // A turn of this conversation may be at another model server.
                    () = preparation.mark.notified() => {}
                }
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
