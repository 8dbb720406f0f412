//! A turn of a conversation, from its lease to its commit.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{Alias, ConversationId, MessageStatus, NewMessage, Step, TurnFailure, TurnState, Utterance};
use herma_store::{Commit, Committed, Lease, MadeTitle, Snapshot, StoreError, TurnOutcome, Version};
use herma_turn::{AllowedTools, Ending, Stop};
use herma_wire::chat::assistant_utterance;
use tokio::sync::watch;

use crate::admission::AdmittedTurn;
use crate::compaction;
use crate::crash;
use crate::driver::drive;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::journal::{Journal, record_of_answered, record_of_unanswered};
use crate::log::{Finished, SessionView, TurnEvent, TurnLog};
use crate::mint;
use crate::request::{ConversationRef, TurnRequest};
use crate::running::{End, RunningTurn};
use crate::stored_turn::StoredTurn;

/// A turn that holds its lease.
pub(crate) struct Run<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) request: &'a TurnRequest,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
}

impl Run<'_> {
    /// Runs the turn to its end and tells its listeners. Not cancel-safe: dropped half-way, the turn is given up.
    pub(crate) async fn finish(&mut self, admitted: AdmittedTurn) {
        let mut turn = RunningTurn::of(admitted, self.request);
        let guard = LeaseGuard::new(self.gateway, turn.running.lease, turn.session.facts.id);
        crash::point(crash::ADMITTED);
        let event = match self.answer(&mut turn).await {
            Ok(ending) => self.end(turn, ending, guard).await,
            Err(error) => failed(lost(error)),
        };
        crash::point(crash::COMMITTED);
        self.log.push(event);
    }

    async fn answer(&mut self, turn: &mut RunningTurn) -> Result<Ending, StoreError> {
        let gateway = self.gateway;
        let _at_model = gateway.at_model(Some(turn.session.facts.id));
        let allowed = AllowedTools::of(&self.request.options.params);
        let journal = Journal::of(self.request);
        let mut host = StoredTurn { gateway, request: self.request, log: self.log, stop: self.stop, turn, journal };
        drive(&*gateway.upstream, allowed, &mut host).await
    }

    /// Writes the end down, then says what listeners are told.
    async fn end(&self, turn: RunningTurn, ending: Ending, mut guard: LeaseGuard<'_>) -> TurnEvent {
        crash::point(crash::ANSWERED);
        match ending {
            Ending::Answered(answer) => {
                let said = assistant_utterance(&answer, MessageStatus::Complete);
                let outcome = TurnOutcome::Completed {
                    messages: vec![NewMessage { id: turn.answer_id, said }],
                    finish: answer.finish.clone(),
                };
                let record = record_of_answered(self.request, self.log);
                let mut naming = self.gateway.naming(self.request, &turn, &answer);
                let (is_named, title) = (naming.is_settled(), naming.title.take());
                match self.commit(&turn, outcome, Kept { record, title }, &mut guard).await {
                    Ok(committed) => {
                        let Some(message) = committed.messages.last().map(Arc::clone) else {
                            return failed(GatewayError::Turn(crate::admission::defect()));
                        };
                        let mut steps = turn.steps.clone();
                        steps.extend(committed.messages.iter().cloned().map(Step::Said));
                        let finished = Finished {
                            turn: turn.running.turn,
                            tenant: turn.running.lease.tenant,
                            started_at: turn.running.started_at,
                            session: Some(SessionView { revision: Some(committed.revision), ..turn.session.clone() }),
                            answer: *answer,
                            steps,
                            message,
                        };
                        let end = End::Answered(finished.answer.finish.usage);
                        let (alias, seen) = (turn.alias.clone(), turn.running.version);
                        let mut snapshot = turn.into_snapshot(&committed, end);
                        snapshot.untitled &= !is_named;
                        compaction::prepare(self.gateway, self.request, &snapshot);
                        naming.ask(self.gateway);
                        self.keep(&alias, snapshot, seen);
                        TurnEvent::Finished(Arc::new(finished))
                    }
                    Err(StoreError::StopRequested(kind)) => {
                        let ending = Ending::stopped(kind.into(), answer.content);
                        Box::pin(self.end(turn, ending, guard)).await
                    }
                    Err(error) => failed(lost(error)),
                }
            }
            Ending::Unanswered { state, failure, shown } => {
                self.end_unanswered(turn, state, failure, shown, guard).await
            }
            Ending::TooLong(failure) => {
                let why = "there is nothing left to summarise";
                let status = failure.status;
                let failure = TurnFailure { upstream_status: status, ..compaction::exceeded(&failure.message, why) };
                self.take_back(turn, failure, guard).await
            }
            Ending::Refused(failure) => self.take_back(turn, failure, guard).await,
        }
    }

    /// Takes a refused turn back, as if it had never been asked for.
    async fn take_back(&self, turn: RunningTurn, failure: TurnFailure, mut guard: LeaseGuard<'_>) -> TurnEvent {
        if self.request.is_visible_while_queued() {
            // Its id was given out, so it cannot have never been.
            return self.end_unanswered(turn, TurnState::Failed, failure, None, guard).await;
        }
        match self.gateway.store.retract(turn.running.lease).await {
            Ok(()) => guard.is_over(),
            Err(error) => tracing::warn!(%error, "a refused turn could not be taken back"),
        }
        failed(GatewayError::Turn(failure))
    }

    async fn end_unanswered(
        &self,
        turn: RunningTurn,
        state: TurnState,
        failure: TurnFailure,
        shown: Option<String>,
        mut guard: LeaseGuard<'_>,
    ) -> TurnEvent {
        // Text that no client was shown is not part of what happened.
        let shown = shown.filter(|_| self.request.options.streaming);
        let partial = shown.map(|text| NewMessage { id: turn.answer_id, said: Utterance::partial_text(&text) });
        let outcome = TurnOutcome::Unanswered { state, failure: failure.clone(), partial };
        let record = record_of_unanswered(self.request, self.log);
        match self.commit(&turn, outcome, Kept { record, title: None }, &mut guard).await {
            Ok(committed) => {
                let (alias, seen) = (turn.alias.clone(), turn.running.version);
                self.keep(&alias, turn.into_snapshot(&committed, End::Unanswered(state)), seen);
                failed(GatewayError::Turn(failure))
            }
            Err(error) => failed(lost(error)),
        }
    }

    /// Keeps the conversation in memory as it is now, unless something but this turn's end has changed it since it was
    /// at this version.
    fn keep(&self, alias: &Alias, snapshot: Snapshot, seen: Version) {
        if snapshot.version != Version(seen.0 + 1) {
            return;
        }
        let namespace = match &self.request.destination.conversation {
            ConversationRef::Named { namespace, .. } => *namespace,
            ConversationRef::New | ConversationRef::Stateless | ConversationRef::After(_) => Namespace::Session,
        };
        self.gateway.cache.put(self.request.caller.principal.tenant, namespace, alias, snapshot);
    }

    async fn commit(
        &self,
        turn: &RunningTurn,
        outcome: TurnOutcome,
        Kept { record, title }: Kept,
        guard: &mut LeaseGuard<'_>,
    ) -> Result<Committed, StoreError> {
        let commit = Commit {
            lease: turn.running.lease,
            session: turn.session.facts.head.id.clone(),
            outcome,
            system: turn.new_system.clone(),
            record,
            title,
            now: mint::now(),
        };
        let committed = self.gateway.store.commit(commit).await;
        if committed.is_ok() {
            guard.is_over();
        }
        committed
    }
}

/// What is kept of a turn besides its outcome.
struct Kept {
    /// In what pieces its answer was shown.
    record: Option<String>,
    /// What its conversation is called from now on.
    title: Option<MadeTitle>,
}

/// A lease in use. However its use ends, a panic included, the next turn can go on.
pub(crate) struct LeaseGuard<'a> {
    gateway: &'a Gateway,
    lease: Lease,
    conversation: ConversationId,
    over: bool,
}

impl<'a> LeaseGuard<'a> {
    pub(crate) fn new(gateway: &'a Gateway, lease: Lease, conversation: ConversationId) -> Self {
        Self { gateway, lease, conversation, over: false }
    }

    /// The turn's end is written and the lease given back.
    pub(crate) fn is_over(&mut self) {
        self.over = true;
    }
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.gateway.store.abandon(self.lease);
        }
        self.gateway.live.wake_first(self.conversation);
    }
}

fn failed(error: GatewayError) -> TurnEvent {
    TurnEvent::Failed(Arc::new(error))
}

/// A turn that could not be committed: to its client it was interrupted, or the store failed.
pub(crate) fn lost(error: StoreError) -> GatewayError {
    match error {
        StoreError::Fenced | StoreError::StopRequested(_) => {
            GatewayError::Turn(TurnFailure::new(FailureCode::Interrupted, "another turn took this conversation over"))
        }
        other => GatewayError::Store(other),
    }
}
