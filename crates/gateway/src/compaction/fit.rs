//! Makes the context of a turn fit, under the turn's lease.

use std::sync::Arc;

use herma_model::compaction::{Base, CompactionTrigger};
use herma_model::provenance::CompactionMode;
use herma_model::{ModelFailure, TurnFailure};
use herma_store::{Authority, CompactOutcome, Compacted, Lease, NewCompaction, Snapshot, StoreError};
use herma_telemetry::Trace;
use herma_turn::Need;

use super::draft::{Case, Draft, NoDraft};
use super::summarise::NoSummary;
use super::{Load, exceeded, longer_than};
use crate::crash;
use crate::gateway::Gateway;
use crate::log::TurnLog;
use crate::mint;
use crate::request::TurnRequest;

/// Whether the context of a turn fits.
pub(crate) enum Fit<'a> {
    /// It fits.
    Fits,
    /// It is over its threshold, or does not fit: it should be compacted.
    NeedsCompaction(Box<Overflow<'a>>),
    /// It does not fit and cannot be compacted.
    Refused(TurnFailure),
}

/// A turn whose context should be compacted.
pub(crate) struct Overflow<'a> {
    case: Case<'a>,
    need: &'a Need,
    lease: Lease,
    /// The model by the model server's name.
    model: &'a str,
}

impl Overflow<'_> {
    fn refused(&self, why: &str) -> CompactionPlan {
        CompactionPlan::Refused(too_long(self.need, self.case.load.total, self.case.budget.window, self.model, why))
    }
}

/// How a turn goes on whose context should be compacted.
pub(crate) enum CompactionPlan {
    /// Without a compaction: the context fits as it is.
    Enough,
    /// With this compaction.
    Compaction(Box<FoundCompaction>),
    /// Not at all: there is no summary, because the conversation's own model cannot be reached.
    Unreachable(ModelFailure),
    /// Not at all: the context does not fit.
    Refused(TurnFailure),
}

impl CompactionPlan {
    /// A fixed word for it, for traces.
    pub(crate) const fn outcome(&self) -> &'static str {
        match self {
            Self::Enough => "not_needed",
            Self::Compaction(found) if found.draft.is_trimmed() => "trimmed",
            Self::Compaction(_) => "applied",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
        }
    }
}

/// A compaction that is ready to be written.
pub(crate) struct FoundCompaction {
    draft: Draft,
    new: NewCompaction,
}

impl Gateway {
    /// Measures the context of a turn. The snapshot has the turn's messages already. `recalled` are the tokens of what
    /// memory adds to them.
    pub(crate) fn measure<'a>(
        &'a self,
        request: &'a TurnRequest,
        snapshot: &'a Snapshot,
        lease: Lease,
        need: &'a Need,
        log: &'a TurnLog,
        recalled: u64,
    ) -> Fit<'a> {
        let model = self.settings.resolve_model(request.options.model.as_deref());
        let mut load = Load::of(request, Some(snapshot), &[]);
        load.total += recalled;
        let is_little = request.options.compact_at.is_none_or(|threshold| load.total <= threshold);
        if model.window.is_none() && is_little && matches!(need, Need::Threshold) {
            return Fit::Fits;
        }
        let window = model.window.map_or(load.total, u64::from);
        let (window, trigger) = match need {
            Need::Threshold => (window, CompactionTrigger::Threshold),
            // The model server refused this length, so its window is smaller than the settings say.
            Need::TooLong(_) => (window.min(load.total), CompactionTrigger::ContextLength),
        };
        let budget = self.budget_of(request, window);
        let limit = if snapshot.auto_compaction_paused { budget.window } else { budget.threshold };
        if matches!(need, Need::Threshold) && load.total <= limit {
            return Fit::Fits;
        }
        // If automatic compaction is off, a threshold in the request asks for one.
        let asked_for = request.options.compact_at.map(|_| CompactionMode::Split);
        let Some(mode) = self.settings.compaction.mode.or(asked_for) else {
            return match need {
                Need::Threshold if load.total <= window => Fit::Fits,
                _ => Fit::Refused(too_long(need, load.total, window, model.name, "compaction is off")),
            };
        };
        let case = Case {
            id: mint::compaction(),
            tenant: request.caller.principal.tenant,
            snapshot,
            load,
            running: Some(lease.id),
            budget,
            model: request.options.model.as_deref(),
            mode,
            trigger,
            dry_run: false,
            begun: Some(log),
            trace: &request.trace,
        };
        Fit::NeedsCompaction(Box::new(Overflow { case, need, lease, model: model.name }))
    }

    /// Finds a compaction. Writes nothing to the conversation. Cancel-safe.
    pub(crate) async fn plan_compaction(
        &self,
        overflow: &Overflow<'_>,
        trace: &Trace,
    ) -> Result<CompactionPlan, StoreError> {
        match self.draft(Case { trace, ..overflow.case }).await {
            Ok(draft) => {
                let new = self.compaction_of(&draft, overflow.case, Authority::Lease(overflow.lease));
                Ok(CompactionPlan::Compaction(Box::new(FoundCompaction { draft, new })))
            }
            Err(NoDraft::Store(error)) => Err(error),
            Err(_) if !overflow.case.is_needed() => Ok(CompactionPlan::Enough),
            Err(why) if self.goes_on_without(overflow.case, &why) => Ok(overflow.refused(&why.reason())),
            Err(NoDraft::Failed(NoSummary::Failed(failure), _)) => Ok(CompactionPlan::Unreachable(failure)),
            Err(why) => Ok(overflow.refused(&why.reason())),
        }
    }

    /// Writes a compaction. `None` if the store refused it. Not cancel-safe: the turn has to know whether it was
    /// written.
    pub(crate) async fn write_compaction(
        &self,
        found: FoundCompaction,
    ) -> Result<Option<(Compacted, Arc<Base>)>, StoreError> {
        crash::point(crash::SUMMARISED);
        let FoundCompaction { draft, new } = found;
        let outcome = self.store.compact(new).await?;
        crash::point(crash::COMPACTED);
        let CompactOutcome::Compacted(compacted) = outcome else {
            tracing::warn!(?outcome, "a turn with the lease could not compact its conversation");
            return Ok(None);
        };
        self.compacted(&compacted);
        Ok(draft.base(&compacted).map(|base| (*compacted, base)))
    }
}

fn too_long(need: &Need, tokens: u64, window: u64, model: &str, why: &str) -> TurnFailure {
    match need {
        Need::Threshold => exceeded(&longer_than(tokens, model, window), why),
        Need::TooLong(failure) => TurnFailure { upstream_status: failure.status, ..exceeded(&failure.message, why) },
    }
}
