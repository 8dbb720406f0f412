//! A plan and its summary, ready to be written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::compaction::{Base, CompactionTrigger, MadeBy, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{CompactionId, ConversationId, MemorySource, Message, NewMessage, Payload, Seq, TenantId, TurnId};
use herma_store::{Authority, Compacted, FailedCompaction, NewCompaction, NewMemory, Snapshot, StoreError};
use herma_telemetry::Trace;
use herma_turn::compaction::{self, Plan};
use herma_turn::summary::Facts;
use herma_turn::{Budget, Transcript, summary, words};

use super::summarise::{NoSummary, Summarised, SummaryCost, SummaryTask};
use super::{Load, transcript};
use crate::gateway::Gateway;
use crate::mint;
use crate::spans::{Purpose, Traced};

/// Least token limit of a summary. A shorter one is useless.
const LEAST_SUMMARY: u64 = 48;
/// The largest error of a token estimate, as a factor.
const MOST_WRONG: f64 = 4.0;
/// Most prepared summaries in memory.
const MOST_DRAFTS: usize = 256;

/// A conversation that is to be compacted.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    /// The id of the compaction, if one is made.
    pub(crate) id: CompactionId,
    pub(crate) tenant: TenantId,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) load: Load,
    /// The turn that waits for the compaction, if one does.
    pub(crate) running: Option<TurnId>,
    /// The context budget, in tokens as the model server counts.
    pub(crate) budget: Budget,
    /// The conversation's model, by the client's name for it.
    pub(crate) model: Option<&'a str>,
    pub(crate) mode: CompactionMode,
    pub(crate) trigger: CompactionTrigger,
    /// True if the caller only wants to know what would happen.
    pub(crate) dry_run: bool,
    /// Is told when a summary is asked for.
    pub(crate) begun: Option<&'a dyn CompactionListener>,
    /// Where calls for the summary belong.
    pub(crate) trace: &'a Trace,
}

/// Hears that a compaction has begun.
pub(crate) trait CompactionListener: Send + Sync {
    /// A summary is asked for. It may still fail.
    fn begun(&self, compaction: CompactionId);
}

impl<'a> Case<'a> {
    fn conversation(&self) -> ConversationId {
        self.snapshot.facts.id
    }

    fn transcript(&self) -> Transcript<'a> {
        transcript(self.snapshot)
    }

    /// What a plan summarises, as the model was shown it. A summary of an older version may still list facts. They are
    /// left out, because they may have been corrected or forgotten since.
    fn covered(&self, plan: &Plan) -> Vec<Payload> {
        let mut covered = plan.covered(self.transcript());
        let is_ours = self.snapshot.base.as_ref().is_some_and(|base| base.made_by == MadeBy::Herma);
        if let Some(earlier) = covered.first_mut().filter(|_| is_ours)
            && let Some(text) = earlier.text().filter(|text| !summary::facts(text).is_empty())
        {
            *earlier = summary::utterance(words::summary_text(&summary::without_facts(&text))).payload;
        }
        covered
    }

    fn basis(&self) -> SummaryBasis {
        SummaryBasis::of(self.snapshot)
    }

    /// True if the context does not fit, or the compaction was asked for.
    fn is_forced(&self) -> bool {
        self.trigger != CompactionTrigger::Threshold || self.load.total > self.budget.window
    }

    /// True if a turn waits for this and cannot go on without it.
    pub(crate) fn is_needed(&self) -> bool {
        self.running.is_some() && self.is_forced()
    }

    /// What to leave out if there is no summary. `None` if the rest would not fit either.
    fn trim(&self, pinned: &[Arc<Message>], budget: &Budget, note: u64) -> Option<Plan> {
        let left = budget.window.saturating_sub(self.load.front + note);
        let plan = compaction::trim(self.transcript(), self.running, pinned, budget.keep.min(left / 2), left)?;
        // The scale may be wrong. A context that fits without it is sent, and the model server decides.
        let is_hopeful = self.load.front + plan.stays <= self.budget.window;
        (is_hopeful && plan.frees > note).then_some(plan)
    }

    /// How many tokens the model server counts for one estimated token.
    fn scale(&self) -> f64 {
        let estimated = compaction::size(self.load.front, self.transcript(), None);
        (self.load.total as f64 / estimated.max(1) as f64).clamp(1.0 / MOST_WRONG, MOST_WRONG)
    }

    /// What to summarise, and how long the summary may be. If a compaction is forced, fewer messages than configured
    /// may be kept word for word.
    fn plan(&self, pinned: &[Arc<Message>], budget: &Budget) -> Result<(Plan, u64), NoDraft> {
        let most_kept = budget.window.saturating_sub(self.load.front + budget.summary);
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
        [budget.keep.min(most_kept / 2), most_kept / 8, 0]
            .into_iter()
            .map(fit)
            .reduce(Result::or)
            .unwrap_or(Err(NoDraft::Nothing))
    }

    /// The context budget in estimated tokens.
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

/// The state of a conversation for which a summary is made: its compaction base, and how often its messages were
/// rewritten or rewound. In any other state the summary is useless.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SummaryBasis {
    base: Option<CompactionId>,
    rewrites: u32,
}

impl SummaryBasis {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let base = snapshot.base.as_ref().map(|base| base.summary.compaction);
        Self { base, rewrites: snapshot.rewrites }
    }
}

/// A plan and its summary, or the note that stands in place of one.
pub(crate) struct Draft {
    pub(crate) plan: Plan,
    pub(crate) summary: Summarised,
    pub(crate) sizes: Sizes,
    /// Why there is no summary, if there is none.
    trimmed: Option<String>,
}

impl Draft {
    /// Whether a part is left out without a summary.
    pub(crate) const fn is_trimmed(&self) -> bool {
        self.trimmed.is_some()
    }
}

/// Why there is no draft.
pub(crate) enum NoDraft {
    /// There is nothing to summarise.
    Nothing,
    /// A summary would hardly be shorter.
    TooLittle,
    /// The messages that must be kept do not fit.
    Hopeless,
    /// Summaries failed lately. The next is tried after this time.
    CoolingDown(Duration),
    /// There is no usable summary. The cost is that of the tries.
    Failed(NoSummary, SummaryCost),
    /// The store could not be asked.
    Store(StoreError),
}

impl From<StoreError> for NoDraft {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl NoDraft {
    /// The reason, as a part of a sentence.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Nothing => "there is nothing left to summarise".to_owned(),
            Self::TooLittle => "a summary of the rest would hardly be shorter".to_owned(),
            Self::Hopeless => "what is kept word for word is too much by itself".to_owned(),
            Self::CoolingDown(left) => {
                format!("summaries of it failed, and the next is tried in {} seconds", left.as_secs().max(1))
            }
            Self::Failed(why, _) => format!("it could not be summarised: {why}"),
            Self::Store(error) => error.to_string(),
        }
    }

    /// The reason, for a log: without text of the model server.
    fn for_log(&self) -> String {
        match self {
            Self::Failed(why, _) => format!("it could not be summarised: {}", why.for_log()),
            other => other.reason(),
        }
    }

    /// The cost of the tries at a summary.
    fn into_cost(self) -> SummaryCost {
        if let Self::Failed(_, cost) = self { cost } else { SummaryCost::default() }
    }
}

impl Gateway {
    /// A draft for a conversation, with the prepared summary if that still frees enough, else with a new one. If a turn
    /// cannot go on without one and there is no summary, the draft leaves the oldest part out. Cancel-safe.
    pub(crate) async fn draft(&self, case: Case<'_>) -> Result<Draft, NoDraft> {
        let pinned = self.store.pinned(case.tenant, case.conversation()).await?;
        if let Some(summary) = self.compactor.drafts.take(case.conversation(), case.basis())
            && let Some(plan) = compaction::through(case.transcript(), &pinned, summary.through)
        {
            let draft = Draft::of(case, plan, summary.summary);
            if draft.still_fits(case) {
                return Ok(draft);
            }
        }
        let budget = case.estimated_budget();
        let fresh = match case.plan(&pinned, &budget) {
            Ok((plan, limit)) => {
                self.summary_of(case, &plan, limit).await.map(|summary| Draft::of(case, plan, summary))
            }
            Err(why) => Err(why),
        };
        match fresh {
            Err(why) if self.goes_on_without(case, &why) => Draft::trimmed(case, &pinned, &budget, why),
            fresh => fresh,
        }
    }

    /// Whether a turn leaves out the oldest part because there is no summary of it. Not if the conversation's own model
    /// cannot be reached: then the turn fails as any turn does.
    pub(crate) fn goes_on_without(&self, case: Case<'_>, why: &NoDraft) -> bool {
        case.is_needed()
            && match why {
                NoDraft::Nothing | NoDraft::TooLittle | NoDraft::Hopeless => true,
                NoDraft::Failed(NoSummary::TimedOut(_) | NoSummary::Unusable(_), _) => true,
                NoDraft::Failed(why @ NoSummary::Failed(_), _) => {
                    let own = self.settings.resolve_model(case.model);
                    !why.is_model_down() || !self.summary_model(case.model).is_same(&own)
                }
                NoDraft::CoolingDown(_) | NoDraft::Store(_) => false,
            }
    }

    async fn summary_of(&self, case: Case<'_>, plan: &Plan, limit: u64) -> Result<Summarised, NoDraft> {
        let model = self.summary_model(case.model);
        let may_wait = case.trigger != CompactionTrigger::Manual && !case.is_needed();
        let pause = self.compactor.cool_down.wait(case.conversation(), &model, Instant::now());
        if let Some(left) = pause.filter(|_| may_wait) {
            return Err(NoDraft::CoolingDown(left));
        }
        let task = SummaryTask {
            model,
            covered: &case.covered(plan),
            limit,
            timeout: self.settings.compaction.timeout,
            facts: self.asks_for_facts(case, plan).await?,
            traced: Traced { trace: case.trace, conversation: Some(case.conversation()), purpose: Purpose::Summary },
        };
        if let Some(listener) = case.begun {
            listener.begun(case.id);
        }
        let made = self.summarise(&task).await;
        let cost = made.as_ref().map_or_else(|(_, cost)| cost, |summary| &summary.cost);
        self.count_side_usage(case.tenant, case.conversation(), &model, cost.usage);
        match made {
            Ok(summary) => {
                self.compactor.cool_down.worked(case.conversation(), &model);
                Ok(summary)
            }
            Err((why, cost)) if case.dry_run => Err(NoDraft::Failed(why, cost)),
            Err((why, cost)) => {
                self.compactor.cool_down.failed(case.conversation(), &model, why.is_model_down(), Instant::now());
                let failed = NoDraft::Failed(why.clone(), cost.clone());
                if self.goes_on_without(case, &failed) {
                    return Err(failed);
                }
                self.compactor.count.failed();
                self.store.record_failed(FailedCompaction {
                    id: case.id,
                    tenant: case.tenant,
                    conversation: case.conversation(),
                    mode: case.mode,
                    trigger: case.trigger,
                    first: plan.first,
                    through: plan.through,
                    model: Some(model.name.to_owned()),
                    tokens: case.load.total,
                    usage: cost.usage,
                    duration_ms: cost.duration_ms,
                    failure: why.to_string(),
                    turn: case.running,
                    now: mint::now(),
                });
                Err(failed)
            }
        }
    }

    /// Whether a summary may list facts: if facts are recalled, under a session key, and if all that it covers may be
    /// remembered. A summary also covers what the summary before it covers.
    async fn asks_for_facts(&self, case: Case<'_>, plan: &Plan) -> Result<Facts, StoreError> {
        let may_remember = self.settings.memory.provider.has_facts()
            && case.snapshot.facts.session_key.is_some()
            && self.store.all_recorded(case.tenant, case.conversation(), plan.through).await?;
        Ok(if may_remember { Facts::Asked } else { Facts::NotAsked })
    }

    /// The compaction that the store is asked to write, with the facts that the summary lists.
    pub(crate) fn compaction_of(&self, draft: &Draft, case: Case<'_>, authority: Authority) -> NewCompaction {
        let mut new = draft.compaction(case, authority);
        if let Some(session_key) = &case.snapshot.facts.session_key {
            let fact = |text: &String| NewMemory {
                id: mint::memory(),
                tenant: case.tenant,
                session_key: session_key.clone(),
                text: Arc::from(text.as_str()),
                source: MemorySource::Summary,
                conversation: Some(case.conversation()),
                now: new.now,
            };
            new.facts = draft.summary.facts.iter().map(fact).collect();
        }
        new
    }

    /// Keeps the summary of a draft for the compaction that will need it.
    pub(crate) fn remember(&self, case: Case<'_>, draft: &Draft) {
        let kept = PreparedSummary { basis: case.basis(), through: draft.plan.through, summary: draft.summary.clone() };
        self.compactor.drafts.put(case.conversation(), kept);
    }
}

impl Draft {
    fn of(case: Case<'_>, plan: Plan, summary: Summarised) -> Self {
        let after = case.load.front + u64::from(summary.said.tokens) + plan.stays;
        let after = (after as f64 * case.scale()) as u64;
        Self { plan, summary, sizes: Sizes { before: case.load.total, after }, trimmed: None }
    }

    /// A draft without a summary: the oldest part is left out, and a note says so.
    fn trimmed(case: Case<'_>, pinned: &[Arc<Message>], budget: &Budget, why: NoDraft) -> Result<Self, NoDraft> {
        let said = summary::left_out();
        let Some(plan) = case.trim(pinned, budget, u64::from(said.tokens)) else { return Err(why) };
        let reason = why.reason();
        let (conversation, cause) = (case.conversation(), why.for_log());
        tracing::warn!(%conversation, why = %cause, "the oldest part is left out without a summary");
        let note = Summarised { said, facts: Vec::new(), cost: why.into_cost() };
        Ok(Self { trimmed: Some(reason), ..Self::of(case, plan, note) })
    }

    /// Whether a prepared summary still frees enough.
    fn still_fits(&self, case: Case<'_>) -> bool {
        let most = match case.trigger {
            CompactionTrigger::Manual => case.load.total,
            CompactionTrigger::Threshold | CompactionTrigger::ContextLength => case.budget.threshold,
        };
        self.sizes.after <= most && self.sizes.after < case.load.total
    }

    /// The compaction that the store is asked to write.
    fn compaction(&self, case: Case<'_>, authority: Authority) -> NewCompaction {
        let cost = &self.summary.cost;
        let SummaryBasis { base, rewrites } = case.basis();
        NewCompaction {
            id: case.id,
            authority,
            base,
            rewrites,
            mode: case.mode,
            trigger: case.trigger,
            made_by: MadeBy::Herma,
            through: self.plan.through,
            last: self.plan.last,
            carried: self.plan.carried.iter().map(|message| message.seq).collect(),
            summary: NewMessage { id: mint::summary(), said: self.summary.said.clone() },
            session: mint::session(),
            trimmed: self.trimmed.clone(),
            model: Some(cost.model.clone()).filter(|model| !model.is_empty()),
            sizes: self.sizes,
            usage: cost.usage,
            duration_ms: cost.duration_ms,
            facts: Vec::new(),
            now: mint::now(),
        }
    }

    /// The conversation's compaction base after the draft is written.
    pub(crate) fn base(self, compacted: &Compacted) -> Option<Arc<Base>> {
        let summary = compacted.summary()?.clone();
        Some(Arc::new(Base { through: self.plan.through, summary, carried: self.plan.carried, made_by: MadeBy::Herma }))
    }
}

/// A summary that was made before it is needed.
struct PreparedSummary {
    basis: SummaryBasis,
    through: Seq,
    summary: Summarised,
}

/// The prepared summaries in memory.
#[derive(Default)]
pub(crate) struct Drafts {
    kept: Mutex<HashMap<ConversationId, PreparedSummary>>,
}

impl Drafts {
    /// Whether there is a prepared summary for this state of the conversation.
    pub(crate) fn has(&self, conversation: ConversationId, basis: SummaryBasis) -> bool {
        self.lock().get(&conversation).is_some_and(|kept| kept.basis == basis)
    }

    /// Takes out the prepared summary. One for another state of the conversation is dropped.
    fn take(&self, conversation: ConversationId, basis: SummaryBasis) -> Option<PreparedSummary> {
        self.lock().remove(&conversation).filter(|kept| kept.basis == basis)
    }

    fn put(&self, conversation: ConversationId, kept: PreparedSummary) {
        let mut drafts = self.lock();
        if drafts.len() >= MOST_DRAFTS {
            // Any summary can be made again. The oldest id is probably an inactive conversation.
            if let Some(oldest) = drafts.keys().min().copied() {
                drafts.remove(&oldest);
            }
        }
        drafts.insert(conversation, kept);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, PreparedSummary>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
