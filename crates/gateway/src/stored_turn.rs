//! A turn of a conversation while it runs: what the driver's effects mean for it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use herma_model::{Delta, ModelCall, ModelFailure, Step, TurnFailure};
use herma_store::StoreError;
use herma_turn::compaction::system_tokens as tokens_of;
use herma_turn::{ContextFit, Event, Need, Stop};
use tokio::sync::watch;

use crate::compaction::{CompactionPlan, Fit};
use crate::crash;
use crate::driver::{Host, stopped};
use crate::gateway::Gateway;
use crate::journal::Journal;
use crate::log::{TurnEvent, TurnLog};
use crate::request::TurnRequest;
use crate::running::RunningTurn;
use crate::warning;

/// Pause before the store is asked again for a lease while it cannot be read.
const CONFIRM_AGAIN: Duration = Duration::from_millis(500);

/// A turn that holds its lease and has not ended.
pub(crate) struct StoredTurn<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) request: &'a TurnRequest,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
    pub(crate) turn: &'a mut RunningTurn,
    pub(crate) journal: Journal,
}

impl Host for StoredTurn<'_> {
    type Error = StoreError;

    async fn fit_context(&mut self, need: &Need) -> Result<Event, StoreError> {
        let Some(snapshot) = &self.turn.before else {
            return Ok(Event::ContextFit(if self.request.options.truncate {
                self.cut(need)
            } else {
                ContextFit::NothingToCompact
            }));
        };
        let overflow = match self.gateway.measure(self.request, snapshot, self.turn.running.lease, need) {
            Fit::Fits => return Ok(Event::ContextFit(ContextFit::Fits)),
            Fit::Refused(failure) => return Ok(Event::ContextFit(self.leave_out(need, failure))),
            Fit::NeedsCompaction(overflow) => overflow,
        };
        if !self.turn.is_told {
            self.turn.running.durable.wait().await?;
            tell(self.request, self.log, self.turn.started());
            self.turn.is_told = true;
        }
        let found = tokio::select! {
            biased;
            stop = stopped(self.stop) => return Ok(Event::Stop(stop)),
            found = self.gateway.plan_compaction(&overflow) => found?,
        };
        Ok(Event::ContextFit(match found {
            CompactionPlan::Enough => ContextFit::Fits,
            CompactionPlan::Refused(failure) => self.leave_out(need, failure),
            CompactionPlan::Unreachable(failure) => ContextFit::Unreachable(failure),
            CompactionPlan::Compaction(found) => {
                if let Some((compacted, base)) = self.gateway.write_compaction(*found).await? {
                    self.turn.compacted(&compacted, base);
                    let (step, session) = (Step::Compacted(compacted.record.id), self.turn.session.clone());
                    tell(self.request, self.log, TurnEvent::Step { step, session });
                }
                ContextFit::Fits
            }
        }))
    }

    fn call(&self) -> ModelCall {
        let (model, _) = self.gateway.settings.resolve_model(self.request.options.model.as_deref());
        ModelCall {
            model,
            messages: self.turn.context(),
            params: Arc::clone(&self.request.options.params),
            streaming: self.request.options.streaming,
            retries: self.request.identity.upstream_retries(),
        }
    }

    async fn wait(&mut self, shown: &str) -> Result<Option<Stop>, StoreError> {
        tokio::select! {
            biased;
            stop = stopped(self.stop) => return Ok(Some(stop)),
            durable = self.turn.running.durable.wait(), if !self.turn.is_told => {
                durable?;
                self.turn.is_told = true;
                tell(self.request, self.log, self.turn.started());
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
            self.turn.is_told = true;
            tell(self.request, self.log, self.turn.started());
        }
        Ok(())
    }

    async fn show(&mut self, delta: Delta, _: &str) -> Result<ControlFlow<()>, StoreError> {
        self.make_sure_of_the_lease().await?;
        self.log.push(TurnEvent::Delta(Arc::new(delta)));
        self.journal.shown();
        crash::point(crash::SHOWN);
        Ok(ControlFlow::Continue(()))
    }

    fn call_failed(&mut self, failure: &ModelFailure, model: &str) {
        warning::model_call_failed(failure, model, Some(self.turn.session.facts.id));
    }
}

impl StoredTurn<'_> {
    /// Goes on with a part of the context if the request allows it.
    fn leave_out(&mut self, need: &Need, failure: TurnFailure) -> ContextFit {
        if self.request.options.truncate { self.cut(need) } else { ContextFit::Refused(failure) }
    }

    /// Goes on with as much of the context as fits, without its beginning.
    fn cut(&mut self, need: &Need) -> ContextFit {
        let (_, window) = self.gateway.settings.resolve_model(self.request.options.model.as_deref());
        let shown = tokens_of(&self.turn.context());
        let room = match need {
            Need::Threshold => window.map_or(shown, u64::from),
            // The model server refused this length, so its window is smaller than the settings say.
            Need::TooLong(_) => shown / 2,
        };
        self.turn.room = Some(room);
        ContextFit::Fits
    }

    /// Called before a piece is shown. If this process has not renewed its leases in time, it asks the store whether
    /// the turn still holds its lease: the process may have been stopped, and another one may have ended the turn.
    async fn make_sure_of_the_lease(&mut self) -> Result<(), StoreError> {
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

/// Only the listeners of a stream are told how a turn comes along. Who waits for the whole answer is not woken.
fn tell(request: &TurnRequest, log: &TurnLog, event: TurnEvent) {
    if request.options.streaming {
        log.push(event);
    }
}
