//! Compactions that a caller asks for: compact now, preview a compaction, undo one.

use std::sync::Arc;
use std::time::Duration;

use herma_model::alias::Namespace;
use herma_model::compaction::{CompactionTrigger, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{
    Alias, CompactionId, ConversationFacts, Message, Principal, Seq, TurnFailure, TurnId, Usage, Utterance,
};
use herma_store::{
    Authority, CompactOutcome, Compacted, ExpectedRevision, Extent, Scope, Snapshot, Undo, UndoOutcome, UndoRefusal,
};
use herma_telemetry::Trace;
use herma_turn::compaction::{size, system_tokens};
use herma_turn::summary::Unusable;
use herma_wire::resource::CompactionPreview;
use tokio::sync::watch;
use tokio::time::Instant;

use super::draft::{Case, CompactionListener, NoDraft};
use super::summarise::NoSummary;
use super::{Load, transcript};
use crate::error::{Conflict, GatewayError, Missing, UndoProblem};
use crate::gateway::Gateway;
use crate::mint;

/// How often the store is asked again while a turn is running.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A compaction that a caller asks for.
#[derive(Debug, Clone)]
pub struct CompactionRequest {
    /// Who asks.
    pub principal: Principal,
    /// A name of the conversation.
    pub alias: Alias,
    /// What the compaction does to the session, if not as configured.
    pub mode: Option<CompactionMode>,
    /// The model whose window the conversation has to fit, if not the default one.
    pub model: Option<String>,
    /// The revision at which the conversation has to be, if the request says so.
    pub expected: Option<ExpectedRevision>,
    /// Gets the id of the compaction when its summary is asked for.
    pub begun: Option<watch::Sender<Option<CompactionId>>>,
    /// Becomes true if the compaction is not wanted any more. One that is written already stays.
    pub cancelled: Option<watch::Receiver<bool>>,
    /// Its place in a trace.
    pub trace: Trace,
}

impl CompactionListener for watch::Sender<Option<CompactionId>> {
    fn begun(&self, compaction: CompactionId) {
        self.send_replace(Some(compaction));
    }
}

impl CompactionRequest {
    fn scope(&self) -> Scope {
        Scope::of(&self.principal).expecting(self.expected.clone())
    }
}

/// A compaction that a caller wants undone.
#[derive(Debug, Clone)]
pub struct UndoRequest {
    /// Who asks.
    pub principal: Principal,
    /// A name of the conversation.
    pub alias: Alias,
    /// Which compaction.
    pub compaction: CompactionId,
    /// The model whose window the conversation has to fit afterwards, if not the default one.
    pub model: Option<String>,
    /// The revision at which the conversation has to be, if the request says so.
    pub expected: Option<ExpectedRevision>,
}

/// What a compaction would do.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The conversation as it is.
    pub facts: Arc<ConversationFacts>,
    /// What the compaction would do to the session.
    pub mode: CompactionMode,
    /// The first message that would be summarised.
    pub first: Seq,
    /// The last one.
    pub through: Seq,
    /// How many messages that is.
    pub summarised: usize,
    /// Messages from before that point that would be kept word for word.
    pub carried: Vec<Arc<Message>>,
    /// Messages after that point.
    pub kept: Vec<Arc<Message>>,
    /// The summary that would be written.
    pub summary: Utterance,
    /// The model that summarised.
    pub model: Option<String>,
    /// The context's sizes before and after.
    pub sizes: Sizes,
    /// What the summary cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl<'a> From<&'a Preview> for CompactionPreview<'a> {
    fn from(preview: &'a Preview) -> Self {
        Self {
            mode: preview.mode,
            first: preview.first,
            through: preview.through,
            summarised: preview.summarised,
            carried: &preview.carried,
            kept: &preview.kept,
            summary: &preview.summary,
            model: preview.model.as_deref(),
            sizes: preview.sizes,
            usage: preview.usage,
            duration_ms: preview.duration_ms,
        }
    }
}

/// Waits until a compaction is not wanted any more. Cancel-safe.
async fn cancelled(signal: Option<watch::Receiver<bool>>) -> TurnFailure {
    let is_cancelled = match signal {
        Some(mut signal) => signal.wait_for(|cancelled| *cancelled).await.is_ok(),
        None => false,
    };
    if !is_cancelled {
        // Without a signal it is never cancelled.
        std::future::pending::<()>().await;
    }
    TurnFailure::new(FailureCode::Cancelled, "the compaction was cancelled")
}

impl Gateway {
    /// Says what a compaction would do, and changes nothing. The summary is kept for a while: a compaction soon after
    /// writes exactly this summary. The work goes on if the caller goes away, because the summary costs money.
    pub async fn preview_compaction(self: &Arc<Self>, request: CompactionRequest) -> Result<Preview, GatewayError> {
        let gateway = Arc::clone(self);
        to_its_end(async move { gateway.preview_now(&request).await }).await
    }

    /// Compacts a conversation now. Turns may run while the summary is made. Then it waits for a running turn, as long
    /// as a turn would wait. The work goes on if the caller goes away, because the summary costs money.
    pub async fn compact(self: &Arc<Self>, request: CompactionRequest) -> Result<Compacted, GatewayError> {
        let gateway = Arc::clone(self);
        to_its_end(async move { gateway.compact_now(&request).await }).await
    }

    async fn preview_now(&self, request: &CompactionRequest) -> Result<Preview, GatewayError> {
        let _place = self.place()?;
        let snapshot = self.snapshot_of(request).await?;
        let case = Case { dry_run: true, ..self.case(request, &snapshot) };
        let draft = self.draft(case).await?;
        self.remember(case, &draft);
        let kept = snapshot.messages.iter().filter(|message| message.seq > draft.plan.through);
        Ok(Preview {
            facts: Arc::clone(&snapshot.facts),
            mode: case.mode,
            first: draft.plan.first,
            through: draft.plan.through,
            summarised: draft.plan.summarised,
            kept: kept.cloned().collect(),
            carried: draft.plan.carried,
            summary: draft.summary.said,
            model: Some(draft.summary.cost.model),
            sizes: draft.sizes,
            usage: draft.summary.cost.usage,
            duration_ms: draft.summary.cost.duration_ms,
        })
    }

    async fn compact_now(&self, request: &CompactionRequest) -> Result<Compacted, GatewayError> {
        let _place = self.place()?;
        let snapshot = self.snapshot_of(request).await?;
        let case = self.case(request, &snapshot);
        let draft = tokio::select! {
            biased;
            failure = cancelled(request.cancelled.clone()) => return Err(GatewayError::Turn(failure)),
            draft = self.draft(case) => draft?,
        };
        let authority = Authority::Idle { scope: request.scope(), alias: request.alias.clone() };
        let new = self.compaction_of(&draft, case, authority);
        let until = Instant::now() + self.settings.queue_timeout;
        loop {
            match self.store.compact(new.clone()).await? {
                CompactOutcome::Compacted(compacted) => {
                    self.compacted(&compacted);
                    return Ok(*compacted);
                }
                CompactOutcome::Busy(running) => tokio::select! {
                    biased;
                    failure = cancelled(request.cancelled.clone()) => return Err(GatewayError::Turn(failure)),
                    waited = wait(running, until) => waited?,
                },
                CompactOutcome::Stale => return Err(GatewayError::Conflict(Conflict::CompactedMeanwhile)),
                CompactOutcome::NotFound => return Err(GatewayError::unknown()),
                CompactOutcome::Ended => return Err(GatewayError::Conflict(Conflict::Ended)),
            }
        }
    }

    /// Undoes a compaction: the model is shown the summarised messages again. Waits for a running turn as long as a
    /// turn would.
    pub async fn undo_compaction(&self, request: &UndoRequest) -> Result<Compacted, GatewayError> {
        let UndoRequest { principal, alias, compaction: id, model, expected } = request;
        let scope = &Scope::of(principal).expecting(expected.clone());
        let window = self.settings.resolve_model(model.as_deref()).window.map(u64::from);
        let until = Instant::now() + self.settings.queue_timeout;
        let open = async |extent| self.store.open(scope, alias, Namespace::Session, extent).await;
        loop {
            let now = open(Extent::View).await?.ok_or(GatewayError::NotFound(Missing::Compaction))?;
            let without = open(Extent::Without(*id)).await?;
            let tokens =
                |snapshot: &Snapshot| size(system_tokens(&snapshot.system), transcript(snapshot), snapshot.counted);
            let sizes = Sizes { before: tokens(&now), after: without.as_ref().map_or(0, tokens) };
            if let Some(window) = window.filter(|window| sizes.after > *window) {
                return Err(GatewayError::Conflict(Conflict::CannotUndo(UndoProblem::DoesNotFit {
                    tokens: sizes.after,
                    window,
                })));
            }
            let undo = Undo {
                id: mint::compaction(),
                scope: scope.clone(),
                alias: alias.clone(),
                target: *id,
                seen: without.map_or(now.version, |snapshot| snapshot.version),
                sizes,
                now: mint::now(),
            };
            match self.store.undo(undo).await? {
                UndoOutcome::Undone(compacted) => return Ok(*compacted),
                UndoOutcome::Refused(refusal) => {
                    return Err(GatewayError::Conflict(Conflict::CannotUndo(refusal.into())));
                }
                UndoOutcome::Busy(running) => wait(running, until).await?,
                UndoOutcome::Stale if Instant::now() < until => {}
                UndoOutcome::Stale => return Err(GatewayError::Conflict(Conflict::CompactedMeanwhile)),
                UndoOutcome::NotFound => return Err(GatewayError::NotFound(Missing::Compaction)),
            }
        }
    }

    async fn snapshot_of(&self, request: &CompactionRequest) -> Result<Snapshot, GatewayError> {
        if self.summary_model(request.model.as_deref()).name.is_empty() {
            return Err(GatewayError::no_model());
        }
        let opened = self.store.open(&request.scope(), &request.alias, Namespace::Session, Extent::View).await?;
        let snapshot = opened.ok_or(GatewayError::unknown())?;
        if snapshot.ended { Err(GatewayError::Conflict(Conflict::Ended)) } else { Ok(snapshot) }
    }

    /// The case of a requested compaction. Its window is at most the present context, so that it always frees
    /// something.
    fn case<'a>(&self, request: &'a CompactionRequest, snapshot: &'a Snapshot) -> Case<'a> {
        let window = self.settings.resolve_model(request.model.as_deref()).window;
        let front = system_tokens(&snapshot.system);
        let total = size(front, transcript(snapshot), snapshot.counted);
        Case {
            id: mint::compaction(),
            tenant: request.principal.tenant,
            snapshot,
            load: Load { total, front },
            running: None,
            budget: self.budget(window.map_or(total, u64::from).min(total)),
            model: request.model.as_deref(),
            mode: request.mode.or(self.settings.compaction.mode).unwrap_or(CompactionMode::Split),
            trigger: CompactionTrigger::Manual,
            dry_run: false,
            begun: request.begun.as_ref().map(|begun| begun as &dyn CompactionListener),
            trace: &request.trace,
        }
    }
}

/// Does the work on a task of its own, so that it goes on if the caller goes away.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, GatewayError>> + Send + 'static,
) -> Result<T, GatewayError> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a compaction came to no end");
        let message = "the gateway failed while it compacted the conversation; this is a defect of Herma";
        Err(GatewayError::Turn(TurnFailure::new(FailureCode::Internal, message)))
    })
}

/// Waits a moment for a running turn to end, or gives up.
async fn wait(running: TurnId, until: Instant) -> Result<(), GatewayError> {
    if Instant::now() >= until {
        return Err(GatewayError::busy(running));
    }
    tokio::time::sleep(LOOK_EVERY).await;
    Ok(())
}

impl From<NoDraft> for GatewayError {
    fn from(why: NoDraft) -> Self {
        match why {
            NoDraft::Nothing | NoDraft::TooLittle | NoDraft::Hopeless | NoDraft::CoolingDown(_) => {
                Self::Conflict(Conflict::NothingToCompact)
            }
            NoDraft::Store(error) => error.into(),
            // The summary was not shorter than the messages that it would replace.
            NoDraft::Failed(NoSummary::Unusable(Unusable::TooLong { .. } | Unusable::CutOff), _) => {
                Self::Conflict(Conflict::NothingToCompact)
            }
            NoDraft::Failed(why, _) => why.into(),
        }
    }
}

impl From<NoSummary> for GatewayError {
    fn from(why: NoSummary) -> Self {
        let code = match why {
            NoSummary::Failed(failure) => return Self::Turn(failure.into()),
            NoSummary::TimedOut(_) => FailureCode::UpstreamTimeout,
            NoSummary::Unusable(_) => FailureCode::UpstreamError,
        };
        Self::Turn(TurnFailure::new(code, why.to_string()))
    }
}

impl From<UndoRefusal> for UndoProblem {
    fn from(refusal: UndoRefusal) -> Self {
        match refusal {
            UndoRefusal::Covered(by) => Self::Covered(by),
            UndoRefusal::AlreadyUndone => Self::AlreadyUndone,
            UndoRefusal::NeverApplied => Self::NeverApplied,
            UndoRefusal::IsAnUndo => Self::IsAnUndo,
            UndoRefusal::Rewound => Self::Rewound,
        }
    }
}
