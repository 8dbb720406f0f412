//! A turn of a conversation while it runs: what the driver's effects mean for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use herma_model::{ModelCall, ModelFailure, Step, TurnFailure, tokens};
use herma_store::StoreError;
use herma_telemetry::SpanKind;
use herma_turn::compaction::system_tokens as tokens_of;
use herma_turn::{CallPlace, ContextFit, Event, Need, Stop, Task};
use herma_upstream::ModelServer;
use tokio::sync::watch;

use crate::answer::holds_text;
use crate::compaction::{CompactionPlan, Fit};
use crate::crash;
use crate::driver::{Host, stopped};
use crate::gateway::Gateway;
use crate::journal::Journal;
use crate::log::{TurnEvent, TurnLog};
use crate::models::ResolvedModel;
use crate::replay::replay_steps;
use crate::request::TurnRequest;
use crate::running::RunningTurn;
use crate::spans::{self, Purpose, Traced};
use crate::tools::{PlannedCall, TurnTools};
use crate::warning;

/// Pause before the store is asked again whether a lease holds, while the store cannot be read.
const CONFIRM_AGAIN: Duration = Duration::from_millis(500);

/// A turn that holds its lease and has not ended.
pub(crate) struct StoredTurn<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) request: &'a TurnRequest,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
    pub(crate) turn: &'a mut RunningTurn,
    pub(crate) journal: Journal,
    /// The tools of Herma that the turn is offered.
    pub(crate) tools: TurnTools,
    /// Stored calls that people have decided about. The turn begins with them.
    pub(crate) decided: Vec<PlannedCall>,
    /// How many children the turn may still make.
    pub(crate) children_left: Arc<AtomicU32>,
}

impl Host for StoredTurn<'_> {
    type Error = StoreError;

    async fn carry_out(&mut self, task: Task) -> Result<Event, StoreError> {
        match task {
            Task::FitContext(need) => self.fit_context(&need).await,
            Task::RunTools(round) => {
                self.may_show().await?;
                // On the heap, so that turns without tools do not carry the state of a round.
                Box::pin(self.take_care_of(round)).await
            }
        }
    }

    fn call(&self, place: CallPlace) -> ModelCall {
        ModelCall {
            model: self.model().name.to_owned(),
            messages: self.turn.context(),
            params: self.tools.params(&self.request.options.params, place),
            streaming: self.request.options.streaming,
            retries: self.request.identity.upstream_retries(),
            trace: None,
        }
    }

    async fn wait(&mut self, shown: &str) -> Result<Option<Stop>, StoreError> {
        tokio::select! {
            biased;
            stop = stopped(self.stop) => return Ok(Some(stop)),
            durable = self.turn.running.durable.wait(), if !self.turn.is_told => {
                durable?;
                announce(self.request, self.log, self.turn);
                self.turn.is_told = true;
            }
            due = self.journal.due() => {
                due?;
                self.journal.write(self.gateway, self.turn.running.lease, shown, self.log);
            }
        }
        Ok(None)
    }

    /// Nothing is shown before the admission is on disk.
    async fn may_show(&mut self) -> Result<(), StoreError> {
        if !self.turn.is_told {
            self.turn.running.durable.wait().await?;
            announce(self.request, self.log, self.turn);
            self.turn.is_told = true;
        }
        Ok(())
    }

    async fn show(&mut self, pieces: Vec<TurnEvent>, _: &str) -> Result<ControlFlow<()>, StoreError> {
        self.confirm_lease().await?;
        self.log.push_all(pieces);
        self.journal.shown();
        crash::point(crash::SHOWN);
        Ok(ControlFlow::Continue(()))
    }

    fn call_failed(&mut self, failure: &ModelFailure, server: &dyn ModelServer, model: &str) {
        self.gateway.counters.model_failed(failure);
        warning::model_call_failed(failure, server, model, &self.traced());
    }

    fn traced(&self) -> Traced<'_> {
        let conversation = Some(self.turn.session.facts.id);
        Traced { trace: &self.request.trace, conversation, purpose: Purpose::Turn }
    }
}

impl<'a> StoredTurn<'a> {
    /// The model that the turn asks for.
    pub(crate) fn model(&self) -> ResolvedModel<'a> {
        self.gateway.settings.resolve_model(self.request.options.model.as_deref())
    }

    /// Adds a step that is durable to the turn, and tells the listeners.
    fn made(&mut self, step: Step) {
        self.turn.steps.push(step.clone());
        self.tell_step(step);
    }

    /// Tells the listeners of a step that is durable.
    pub(crate) fn tell_step(&self, step: Step) {
        let (next, session) = (self.turn.next_id(), self.turn.session.clone());
        tell(self.request, self.log, TurnEvent::Step { step, next, session });
    }

    /// Measures the context, and compacts it if it is too long.
    async fn fit_context(&mut self, need: &Need) -> Result<Event, StoreError> {
        let tenant = self.request.caller.principal.tenant;
        if let Some(failure) = self.gateway.over_budget(tenant, &self.turn.session, self.turn.usage).await? {
            return Ok(Event::ContextFit(ContextFit::Refused(failure)));
        }
        let Some(snapshot) = &self.turn.before else {
            return Ok(Event::ContextFit(if self.request.options.truncate {
                self.cut(need)
            } else {
                ContextFit::NothingToCompact
            }));
        };
        let block = self.turn.recall.as_ref().and_then(|recall| recall.block.as_deref());
        let recalled = block.map_or(0, |block| u64::from(tokens::estimate(block)));
        let lease = self.turn.running.lease;
        let overflow = match self.gateway.measure(self.request, snapshot, lease, need, self.log, recalled) {
            Fit::Fits => return Ok(Event::ContextFit(ContextFit::Fits)),
            Fit::Refused(failure) => return Ok(Event::ContextFit(self.leave_out(need, failure))),
            Fit::NeedsCompaction(overflow) => overflow,
        };
        if !self.turn.is_told {
            self.turn.running.durable.wait().await?;
            announce(self.request, self.log, self.turn);
            self.turn.is_told = true;
        }
        let mut span = self.request.trace.begin(SpanKind::Internal, || spans::COMPACTION);
        // On the heap, so that turns that fit do not carry the state of a compaction. Open streams are many.
        let plan = Box::pin(self.gateway.plan_compaction(&overflow, span.trace()));
        let found = tokio::select! {
            biased;
            stop = stopped(self.stop) => return Ok(Event::Stop(stop)),
            found = plan => found?,
        };
        span.set("herma.compaction.outcome", || found.outcome());
        Ok(Event::ContextFit(match found {
            CompactionPlan::Enough => ContextFit::Fits,
            CompactionPlan::Refused(failure) => self.leave_out(need, failure),
            CompactionPlan::Unreachable(failure) => ContextFit::Unreachable(failure),
            CompactionPlan::Compaction(found) => {
                if let Some((compacted, base)) = Box::pin(self.gateway.write_compaction(*found)).await? {
                    self.turn.compacted(&compacted, base);
                    self.made(Step::Compacted(compacted.record.id));
                }
                ContextFit::Fits
            }
        }))
    }

    /// Cuts the context if the request allows it. Otherwise the turn is refused.
    fn leave_out(&mut self, need: &Need, failure: TurnFailure) -> ContextFit {
        if self.request.options.truncate { self.cut(need) } else { ContextFit::Refused(failure) }
    }

    /// Leaves out the beginning of the context, so that the rest fits.
    fn cut(&mut self, need: &Need) -> ContextFit {
        let window = self.model().window;
        let shown = tokens_of(&self.turn.context());
        let limit = match need {
            Need::Threshold => window.map_or(shown, u64::from),
            // The model server refused this length, so its window is smaller than the settings say.
            Need::TooLong(_) => shown / 2,
        };
        self.turn.context_limit = Some(limit);
        ContextFit::Fits
    }

    /// Makes sure, before a piece is shown, that the turn still holds its lease. The store is asked only if this
    /// process has not renewed its leases in time: it may have been suspended, and another process may have ended the
    /// turn.
    async fn confirm_lease(&mut self) -> Result<(), StoreError> {
        let lease = &mut self.turn.running.lease;
        if !self.request.options.streaming || self.gateway.store.is_fresh(lease) {
            return Ok(());
        }
        loop {
            match self.gateway.store.confirm(*lease).await {
                Ok(confirmed) => {
                    *lease = confirmed;
                    return Ok(());
                }
                Err(StoreError::Unavailable(why)) => {
                    let turn = lease.id;
                    tracing::warn!(%why, %turn, "the lease of a turn could not be confirmed yet; it is tried again");
                    tokio::time::sleep(CONFIRM_AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Tells listeners of a stream that the turn runs, and the steps of its earlier attempts.
fn announce(request: &TurnRequest, log: &TurnLog, turn: &RunningTurn) {
    tell(request, log, turn.started());
    for event in replay_steps(&turn.steps, &turn.session, turn.next_id(), holds_text(request)) {
        tell(request, log, event);
    }
}

/// Pushes an event if the request is streamed. A client that waits for the whole answer is not woken.
pub(crate) fn tell(request: &TurnRequest, log: &TurnLog, event: TurnEvent) {
    if request.options.streaming {
        log.push(event);
    }
}
