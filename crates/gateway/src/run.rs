//! From the lease to the end of a turn: make room, call the model, show what it says, commit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryFutureExt};
use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{Alias, ConversationId, MessageStatus, ModelCall, NewMessage, TurnFailure, TurnState, Utterance};
use herma_store::{Commit, Committed, Lease, MadeTitle, Outcome, Snapshot, StoreError, Version};
use herma_turn::compaction::system_tokens as tokens_of;
use herma_turn::{AllowedTools, Effect, Ending, Event, Machine, Stop};
use herma_wire::chat::assistant_utterance;
use tokio::sync::watch;

use crate::admission::Lead;
use crate::compaction::{self, Fit, Need, Room};
use crate::crash;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::journal::{Journal, record_of_answered, record_of_unanswered};
use crate::log::{Finished, TurnEvent, TurnLog};
use crate::mint;
use crate::request::{Place, TurnRequest};
use crate::running::{End, RunningTurn};
use crate::warning;

/// Pause before the store is asked again for a lease while it cannot be read.
const CONFIRM_AGAIN: Duration = Duration::from_millis(500);

/// A turn that holds its lease.
pub(crate) struct Run<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) request: &'a TurnRequest,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
}

impl Run<'_> {
    /// Runs the turn to its end and tells its listeners. Not cancel-safe: dropped half-way, the turn is given up.
    pub(crate) async fn finish(&mut self, lead: Lead) {
        let mut turn = RunningTurn::of(lead, self.request);
        let held = Held::new(self.gateway, turn.running.lease, turn.session.facts.id);
        crash::point(crash::ADMITTED);
        let event = match self.answer(&mut turn).await {
            Ok(ending) => self.end(turn, ending, held).await,
            Err(error) => failed(lost(error)),
        };
        crash::point(crash::COMMITTED);
        self.log.push(event);
    }

    /// Makes room if the turn needs any, and calls the model; once more, after a compaction, if the model server says that the context is
    /// too long.
    async fn answer(&mut self, turn: &mut RunningTurn) -> Result<Ending, StoreError> {
        let gateway = self.gateway;
        let _at_model = gateway.at_model(Some(turn.session.facts.id));
        if let Some(ending) = self.make_room(turn, &Need::Threshold).await? {
            return Ok(ending);
        }
        let ending = self.call_model(turn).await?;
        let Ending::TooLong(failure) = ending else { return Ok(ending) };
        if let Some(ending) = self.make_room(turn, &Need::TooLong(failure)).await? {
            return Ok(ending);
        }
        self.call_model(turn).await
    }

    /// Compacts the conversation if the turn would not fit otherwise. Says how the turn ends if it cannot go on.
    async fn make_room(&mut self, turn: &mut RunningTurn, need: &Need) -> Result<Option<Ending>, StoreError> {
        let Some(snapshot) = &turn.before else {
            return Ok(match need {
                _ if self.request.truncate => self.cut(turn, need),
                Need::Threshold => None,
                Need::TooLong(failure) => Some(Ending::TooLong(failure.clone())),
            });
        };
        let tight = match self.gateway.measure(self.request, snapshot, turn.running.lease, need) {
            Fit::Fits => return Ok(None),
            Fit::Refused(failure) => return Ok(self.leave_out(turn, need, failure)),
            Fit::Tight(tight) => tight,
        };
        if !turn.is_told {
            turn.running.durable.wait().await?;
            tell(self.request, self.log, turn.started());
            turn.is_told = true;
        }
        let room = tokio::select! {
            biased;
            stop = self.stop.wait_for(Option::is_some) => {
                let why = (*stop.map_err(|_| StoreError::Closed)?).unwrap_or(Stop::Cancel);
                return Ok(Some(ended_by(Event::Stop(why))));
            }
            room = self.gateway.find_room(&tight) => room?,
        };
        match room {
            Room::Enough => Ok(None),
            Room::Refused(failure) => Ok(self.leave_out(turn, need, failure)),
            Room::Unreachable(failure) => Ok(Some(ended_by(Event::Failed(failure)))),
            Room::Found(found) => {
                if let Some((compacted, base)) = self.gateway.take_room(*found).await? {
                    turn.compacted(&compacted, base);
                    let (id, session) = (compacted.record.id, turn.session.clone());
                    tell(self.request, self.log, TurnEvent::Compacted { id, session });
                }
                Ok(None)
            }
        }
    }

    /// Goes on with a part of the context if the request allows it, else ends the turn as refused.
    fn leave_out(&self, turn: &mut RunningTurn, need: &Need, failure: TurnFailure) -> Option<Ending> {
        if self.request.truncate { self.cut(turn, need) } else { Some(Ending::Refused(failure)) }
    }

    /// Goes on with as much of the context as fits, without its beginning.
    fn cut(&self, turn: &mut RunningTurn, need: &Need) -> Option<Ending> {
        let (_, window) = self.gateway.settings.resolve_model(self.request.model.as_deref());
        let shown = tokens_of(&turn.context());
        let room = match need {
            Need::Threshold => window.map_or(shown, u64::from),
            // Whatever was said of the window, this did not fit it.
            Need::TooLong(_) => shown / 2,
        };
        turn.room = Some(room);
        None
    }

    /// Calls the model and shows its answer as it comes. Nothing is shown before the admission is on disk.
    async fn call_model(&mut self, turn: &mut RunningTurn) -> Result<Ending, StoreError> {
        let call = self.call(turn);
        let (model, conversation) = (call.model.clone(), turn.session.facts.id);
        let mut events = std::pin::pin!(self.gateway.upstream.call(call).try_flatten_stream());
        let mut machine = Machine::allowing(AllowedTools::of(&self.request.params));
        let mut journal = Journal::of(self.request);
        loop {
            let event = tokio::select! {
                biased;
                stop = self.stop.wait_for(Option::is_some) => Event::Stop((*stop.map_err(|_| StoreError::Closed)?).unwrap_or(Stop::Cancel)),
                durable = turn.running.durable.wait(), if !turn.is_told => {
                    durable?;
                    turn.is_told = true;
                    tell(self.request, self.log, turn.started());
                    continue;
                }
                due = journal.due() => {
                    due?;
                    journal.write(self.gateway, turn.running.lease, machine.shown(), self.log);
                    continue;
                }
                event = events.next() => match event {
                    Some(Ok(event)) => Event::Model(event),
                    Some(Err(failure)) => Event::Failed(failure),
                    None => Event::Failed(cut_off()),
                },
            };
            if let Event::Failed(failure) = &event {
                warning::model_call_failed(failure, &model, Some(conversation));
            }
            let effect = machine.on(event);
            if !turn.is_told {
                turn.running.durable.wait().await?;
                turn.is_told = true;
                tell(self.request, self.log, turn.started());
            }
            match effect {
                Some(Effect::Show(delta)) => {
                    self.make_sure_of_the_lease(turn).await?;
                    self.log.push(TurnEvent::Delta(Arc::new(delta)));
                    journal.shown();
                    crash::point(crash::SHOWN);
                }
                Some(Effect::End(ending)) => return Ok(ending),
                None => {}
            }
        }
    }

    /// Called before a piece is shown. If this process has not renewed its leases in time, it asks the store whether
    /// the turn still holds its lease: the process may have been stopped, and another one may have ended the turn.
    async fn make_sure_of_the_lease(&self, turn: &mut RunningTurn) -> Result<(), StoreError> {
        let lease = &mut turn.running.lease;
        if !self.request.streaming || self.gateway.store.is_fresh(lease) {
            return Ok(());
        }
        loop {
            match self.gateway.store.confirm(*lease).await {
                Ok(confirmed) => {
                    *lease = confirmed;
                    return Ok(());
                }
                Err(StoreError::Unavailable(why)) => {
                    tracing::warn!(%why, turn = %lease.id, "the lease of a turn could not be confirmed yet; it is tried again");
                    tokio::time::sleep(CONFIRM_AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn call(&self, turn: &RunningTurn) -> ModelCall {
        let (model, _) = self.gateway.settings.resolve_model(self.request.model.as_deref());
        ModelCall {
            model,
            messages: turn.context(),
            params: Arc::clone(&self.request.params),
            streaming: self.request.streaming,
            retries: self.request.identity.upstream_retries(),
        }
    }

    /// Writes the end down, then says what listeners are told.
    async fn end(&self, turn: RunningTurn, ending: Ending, mut held: Held<'_>) -> TurnEvent {
        crash::point(crash::ANSWERED);
        match ending {
            Ending::Answered(answer) => {
                let said = assistant_utterance(&answer, MessageStatus::Complete);
                let outcome = Outcome::Completed {
                    messages: vec![NewMessage { id: turn.answer_id, said }],
                    finish: answer.finish.clone(),
                };
                let record = record_of_answered(self.request, self.log);
                let mut naming = self.gateway.naming(self.request, &turn, &answer);
                let (is_named, title) = (naming.is_settled(), naming.title.take());
                match self.commit(&turn, outcome, Kept { record, title }, &mut held).await {
                    Ok(committed) => {
                        let Some(message) = committed.messages.last().map(Arc::clone) else {
                            return failed(GatewayError::Turn(crate::admission::defect()));
                        };
                        let finished = Finished {
                            turn: turn.running.turn,
                            tenant: turn.running.lease.tenant,
                            started_at: turn.running.started_at,
                            session: Some(turn.session.clone()),
                            answer: *answer,
                            message,
                            compactions: turn.compactions.clone(),
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
                        let Ending::Unanswered { state, failure, .. } = ended_by(Event::Stop(kind.into())) else {
                            return failed(GatewayError::Turn(crate::admission::defect()));
                        };
                        self.end_unanswered(turn, state, failure, answer.content, held).await
                    }
                    Err(error) => failed(lost(error)),
                }
            }
            Ending::Unanswered { state, failure, shown } => {
                self.end_unanswered(turn, state, failure, shown, held).await
            }
            Ending::TooLong(failure) => {
                let why = "there is nothing left to summarise";
                let status = failure.status;
                let failure = TurnFailure { upstream_status: status, ..compaction::exceeded(&failure.message, why) };
                self.take_back(turn, failure, held).await
            }
            Ending::Refused(failure) => self.take_back(turn, failure, held).await,
        }
    }

    /// Takes a refused turn back, as if it had never been asked for.
    async fn take_back(&self, turn: RunningTurn, failure: TurnFailure, mut held: Held<'_>) -> TurnEvent {
        if self.request.is_promised() {
            // Its id was given out, so it cannot have never been.
            return self.end_unanswered(turn, TurnState::Failed, failure, None, held).await;
        }
        match self.gateway.store.retract(turn.running.lease).await {
            Ok(()) => held.is_over(),
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
        mut held: Held<'_>,
    ) -> TurnEvent {
        // Text that no client was shown is not part of what happened.
        let shown = shown.filter(|_| self.request.streaming);
        let partial = shown.map(|text| NewMessage { id: turn.answer_id, said: Utterance::partial_text(&text) });
        let outcome = Outcome::Unanswered { state, failure: failure.clone(), partial };
        let record = record_of_unanswered(self.request, self.log);
        match self.commit(&turn, outcome, Kept { record, title: None }, &mut held).await {
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
        let namespace = match &self.request.place {
            Place::Named { namespace, .. } => *namespace,
            Place::New | Place::Nowhere | Place::After(_) => Namespace::Session,
        };
        self.gateway.cache.put(self.request.principal.tenant, namespace, alias, snapshot);
    }

    async fn commit(
        &self,
        turn: &RunningTurn,
        outcome: Outcome,
        Kept { record, title }: Kept,
        held: &mut Held<'_>,
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
            held.is_over();
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
pub(crate) struct Held<'a> {
    gateway: &'a Gateway,
    lease: Lease,
    conversation: ConversationId,
    over: bool,
}

impl<'a> Held<'a> {
    pub(crate) fn new(gateway: &'a Gateway, lease: Lease, conversation: ConversationId) -> Self {
        Self { gateway, lease, conversation, over: false }
    }

    /// The turn's end is written and the lease given back.
    pub(crate) fn is_over(&mut self) {
        self.over = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.gateway.store.abandon(self.lease);
        }
        self.gateway.live.wake_first(self.conversation);
    }
}

/// Only a stream has something to do with how a turn comes along; who waits for the whole answer is not woken.
fn tell(request: &TurnRequest, log: &TurnLog, event: TurnEvent) {
    if request.streaming {
        log.push(event);
    }
}

/// How a turn ends that an event ends while nothing of its answer was shown.
fn ended_by(event: Event) -> Ending {
    match Machine::default().on(event) {
        Some(Effect::End(ending)) => ending,
        _ => Ending::Refused(crate::admission::defect()),
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

pub(crate) fn cut_off() -> herma_model::ModelFailure {
    let kind = herma_model::generation::ModelFailureKind::CutOff;
    herma_model::ModelFailure::new(kind, "the model server stopped without finishing its answer")
}
