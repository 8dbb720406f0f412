//! Preparing a summary after an answer, so that the next turn need not wait for one.

use std::sync::Arc;

use herma_model::TenantId;
use herma_model::compaction::CompactionTrigger;
use herma_store::Snapshot;

use super::Load;
use super::draft::{Case, Footing};
use crate::gateway::Gateway;
use crate::request::TurnRequest;

/// Prepares a summary in the background if the conversation will soon need one and nothing speaks against it.
pub(crate) fn prepare(gateway: &Arc<Gateway>, request: &TurnRequest, snapshot: &Snapshot) {
    let Some(mode) = gateway.settings.compaction.mode else { return };
    let (_, window) = gateway.settings.resolve_model(request.model.as_deref());
    let Some(window) = window else { return };
    let budget = gateway.budget(u64::from(window));
    let load = Load::of(request, Some(snapshot), &[]);
    let is_due = load.total > budget.soft && !snapshot.held_back && !gateway.is_draining();
    if !is_due || gateway.compactor.drafts.has(snapshot.facts.id, Footing::of(snapshot)) {
        return;
    }
    let Ok(permit) = Arc::clone(&gateway.compactor.ahead).try_acquire_owned() else { return };
    let tenant: TenantId = request.principal.tenant;
    let (gateway, snapshot, model) = (Arc::clone(gateway), snapshot.clone(), request.model.clone());
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
        if let Some(_under_way) = gateway.compactor.drafts.begin(snapshot.facts.id, Footing::of(&snapshot))
            && let Ok(draft) = gateway.draft(case).await
        {
            tracing::debug!(conversation = %snapshot.facts.id, "a summary was prepared ahead");
            gateway.remember(case, &draft);
        }
        drop(permit);
    });
}
