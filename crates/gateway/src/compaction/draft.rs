//! A plan and its summary, ready to be written.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::compaction::{Base, CompactionTrigger, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{CompactionId, ConversationId, Message, NewMessage, Seq, TenantId, TurnId};
use herma_store::{Authority, Compacted, FailedCompaction, NewCompaction, Snapshot, StoreError};
use herma_turn::compaction::{self, Plan};
use herma_turn::{Budget, Transcript};

use super::summarise::{NoSummary, Summarised, Task};
use super::{Load, transcript};
use crate::gateway::Gateway;
use crate::mint;

/// A summary shorter than this cannot say anything.
const LEAST_SUMMARY: u64 = 48;
/// How far an estimate is taken to be wrong at most.
const MOST_WRONG: f64 = 4.0;
/// Most drafts in memory.
const MOST_DRAFTS: usize = 256;

/// A conversation that is to be compacted.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) load: Load,
    /// The turn that needs room.
    pub(crate) running: Option<TurnId>,
    /// What fits, as the model server counts.
    pub(crate) budget: Budget,
    /// The model that the conversation is for, as its client calls it.
    pub(crate) model: Option<&'a str>,
    pub(crate) mode: CompactionMode,
    pub(crate) trigger: CompactionTrigger,
    /// Whether it is only to be shown what would happen.
    pub(crate) dry_run: bool,
}

impl<'a> Case<'a> {
    fn conversation(&self) -> ConversationId {
        self.snapshot.facts.id
    }

    fn transcript(&self) -> Transcript<'a> {
        transcript(self.snapshot)
    }

    fn footing(&self) -> Footing {
        Footing::of(self.snapshot)
    }

    /// Whether the turn cannot go on as things are.
    fn is_forced(&self) -> bool {
        self.trigger != CompactionTrigger::Threshold || self.load.total > self.budget.window
    }

    /// How many tokens the model server counts for one that we estimate.
    fn scale(&self) -> f64 {
        let estimated = compaction::size(self.load.front, self.transcript(), None);
        (self.load.total as f64 / estimated.max(1) as f64).clamp(1.0 / MOST_WRONG, MOST_WRONG)
    }

    /// What to summarise, and how long the summary may be. A turn that cannot go on otherwise keeps less than it should.
    fn plan(&self, pinned: &[Arc<Message>], budget: &Budget) -> Result<(Plan, u64), NoDraft> {
        let room = budget.window.saturating_sub(self.load.front + budget.summary);
        let fit = |keep| {
            let plan = compaction::plan(self.transcript(), self.running, pinned, keep).ok_or(NoDraft::Nothing)?;
            let left = budget.window.saturating_sub(self.load.front + plan.stays);
            if left < LEAST_SUMMARY && self.running.is_some() {
                return Err(NoDraft::Hopeless);
            }
            let limit = budget.summary.min(plan.frees / 4 * 3).min(left.max(LEAST_SUMMARY));
            if limit < LEAST_SUMMARY { Err(NoDraft::TooLittle) } else { Ok((plan, limit)) }
        };
        if !self.is_forced() {
            return fit(budget.keep).and_then(|(plan, limit)| {
                if plan.is_worth_it(budget) { Ok((plan, limit)) } else { Err(NoDraft::TooLittle) }
            });
        }
        [budget.keep.min(room / 2), room / 8, 0]
            .into_iter()
            .map(fit)
            .reduce(Result::or)
            .unwrap_or(Err(NoDraft::Nothing))
    }

    /// The budget in tokens as we estimate them.
    fn estimated_budget(&self) -> Budget {
        let scale = self.scale();
        let estimated = |tokens: u64| (tokens as f64 / scale) as u64;
        Budget {
            window: estimated(self.budget.window),
            threshold: estimated(self.budget.threshold),
            soft: estimated(self.budget.soft),
            keep: estimated(self.budget.keep),
            summary: estimated(self.budget.summary),
        }
    }
}

/// What a summary is made on: the compaction on which a conversation stands, and what was left of what was said. On any other it is of no use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footing {
    base: Option<CompactionId>,
    rewrites: u32,
}

impl Footing {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let base = snapshot.base.as_ref().map(|base| base.summary.compaction);
        Self { base, rewrites: snapshot.rewrites }
    }
}

/// A plan and its summary.
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    pub(crate) summary: Summarised,
    pub(crate) sizes: Sizes,
}

/// Why there is no draft.
pub(crate) enum NoDraft {
    /// Nothing is left to summarise.
    Nothing,
    /// A summary would hardly be shorter.
    TooLittle,
    /// What must be kept is too much by itself.
    Hopeless,
    /// Summaries failed lately; it is tried again after this time.
    CoolingDown(Duration),
    /// There is no summary to use.
    Failed(NoSummary),
    /// The store could not be asked.
    Store(StoreError),
}

impl From<StoreError> for NoDraft {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Gateway {
    /// A draft for a conversation: the one in memory if it still fits what was said since, else a new one. Cancel-safe.
    pub(crate) async fn draft(&self, case: Case<'_>) -> Result<Draft, NoDraft> {
        let pinned = self.store.pinned(case.tenant, case.conversation()).await?;
        if let Some(summary) = self.compactor.drafts.take(case.conversation(), case.footing())
            && let Some(plan) = compaction::through(case.transcript(), &pinned, summary.through)
        {
            let draft = Draft::of(case, plan, summary.summary);
            if draft.still_fits(case) {
                return Ok(draft);
            }
        }
        let budget = case.estimated_budget();
        let (plan, limit) = case.plan(&pinned, &budget)?;
        let summary = self.summary_of(case, &plan, limit).await?;
        Ok(Draft::of(case, plan, summary))
    }

    async fn summary_of(&self, case: Case<'_>, plan: &Plan, limit: u64) -> Result<Summarised, NoDraft> {
        let (model, window) = self.summary_model(case.model);
        let is_manual = case.trigger == CompactionTrigger::Manual;
        if let Some(left) =
            self.compactor.cool_down.wait(case.conversation(), &model, Instant::now()).filter(|_| !is_manual)
        {
            return Err(NoDraft::CoolingDown(left));
        }
        let task = Task {
            model: &model,
            window: window.map(u64::from),
            covered: &plan.covered(case.transcript()),
            limit,
            timeout: self.settings.compaction.timeout,
        };
        match self.summarise(&task).await {
            Ok(summary) => {
                self.compactor.cool_down.worked(case.conversation(), &model);
                Ok(summary)
            }
            Err((why, _)) if case.dry_run => Err(NoDraft::Failed(why)),
            Err((why, cost)) => {
                self.compactor.cool_down.failed(case.conversation(), &model, why.is_silence(), Instant::now());
                self.compactor.count.failed();
                self.store.record_failed(FailedCompaction {
                    id: mint::compaction(),
                    tenant: case.tenant,
                    conversation: case.conversation(),
                    mode: case.mode,
                    trigger: case.trigger,
                    first: plan.first,
                    through: plan.through,
                    model: Some(model),
                    tokens: case.load.total,
                    usage: cost.usage,
                    duration_ms: cost.duration_ms,
                    failure: why.to_string(),
                    turn: case.running,
                    now: mint::now(),
                });
                Err(NoDraft::Failed(why))
            }
        }
    }

    /// Keeps a draft for the compaction that will need it.
    pub(crate) fn remember(&self, case: Case<'_>, draft: &Draft) {
        let kept = Kept { footing: case.footing(), through: draft.plan.through, summary: draft.summary.clone() };
        self.compactor.drafts.put(case.conversation(), kept);
    }
}

impl Draft {
    fn of(case: Case<'_>, plan: Plan, summary: Summarised) -> Self {
        let after = case.load.front + u64::from(summary.said.tokens) + plan.stays;
        let after = (after as f64 * case.scale()) as u64;
        Self { plan, summary, sizes: Sizes { before: case.load.total, after } }
    }

    /// Whether a summary from memory makes enough room now.
    fn still_fits(&self, case: Case<'_>) -> bool {
        let most = match case.trigger {
            CompactionTrigger::Manual => case.load.total,
            CompactionTrigger::Threshold | CompactionTrigger::ContextLength => case.budget.threshold,
        };
        self.sizes.after <= most && self.sizes.after < case.load.total
    }

    /// What the store is asked to write.
    pub(crate) fn compaction(&self, case: Case<'_>, authority: Authority) -> NewCompaction {
        let cost = &self.summary.cost;
        let Footing { base, rewrites } = case.footing();
        NewCompaction {
            id: mint::compaction(),
            authority,
            base,
            rewrites,
            mode: case.mode,
            trigger: case.trigger,
            through: self.plan.through,
            last: self.plan.last,
            carried: self.plan.carried.iter().map(|message| message.seq).collect(),
            summary: NewMessage { id: mint::summary(), said: self.summary.said.clone() },
            session: mint::session(),
            model: Some(cost.model.clone()),
            sizes: self.sizes,
            usage: cost.usage,
            duration_ms: cost.duration_ms,
            now: mint::now(),
        }
    }

    /// What the conversation stands on once it is written.
    pub(crate) fn base(self, compacted: &Compacted) -> Option<Arc<Base>> {
        let summary = compacted.summary()?.clone();
        Some(Arc::new(Base { through: self.plan.through, summary, carried: self.plan.carried }))
    }
}

/// A summary in memory, and what it is of.
struct Kept {
    footing: Footing,
    through: Seq,
    summary: Summarised,
}

/// Summaries that were made before they were needed, and those that are being made.
#[derive(Default)]
pub(crate) struct Drafts {
    kept: Mutex<HashMap<ConversationId, Kept>>,
    under_way: Mutex<HashSet<ConversationId>>,
}

/// A summary that is being made ahead, until this is dropped.
pub(crate) struct UnderWay<'a> {
    drafts: &'a Drafts,
    conversation: ConversationId,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.drafts.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.conversation);
    }
}

impl Drafts {
    /// Whether there is one that was made on this.
    pub(crate) fn has(&self, conversation: ConversationId, footing: Footing) -> bool {
        self.lock().get(&conversation).is_some_and(|kept| kept.footing == footing)
    }

    /// Claims the making of a conversation's summary; `None` if there is one, or somebody is at it.
    pub(crate) fn begin(&self, conversation: ConversationId, footing: Footing) -> Option<UnderWay<'_>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = !self.has(conversation, footing) && under_way.insert(conversation);
        is_free.then(|| UnderWay { drafts: self, conversation })
    }

    /// Takes out the summary that was made on this; one on anything else is of no use any more.
    fn take(&self, conversation: ConversationId, footing: Footing) -> Option<Kept> {
        self.lock().remove(&conversation).filter(|kept| kept.footing == footing)
    }

    fn put(&self, conversation: ConversationId, kept: Kept) {
        let mut drafts = self.lock();
        if drafts.len() >= MOST_DRAFTS {
            // Any of them can be made again; conversations that went quiet are the oldest ids.
            if let Some(oldest) = drafts.keys().min().copied() {
                drafts.remove(&oldest);
            }
        }
        drafts.insert(conversation, kept);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
