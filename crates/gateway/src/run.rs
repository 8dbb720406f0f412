//! From the lease to the end of a turn: call the model, show what it says, commit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryFutureExt};
use herma_model::turn::FailureCode;
use herma_model::{
    ConversationId, MessageStatus, ModelCall, NewMessage, Payload, TurnFailure, TurnState, Unanswered, Utterance,
};
use herma_store::{Commit, Committed, Lease, Outcome, Snapshot, StoreError};
use herma_turn::{Effect, Ending, Event, Machine, Stop, Transcript, build};
use herma_wire::chat::assistant_utterance;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::Lead;
use crate::crash;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::log::{Finished, SessionView, TurnEvent, TurnLog};
use crate::mint;
use crate::request::TurnRequest;

/// How often what was shown is written down while a turn runs.
const JOURNAL_EVERY: Duration = Duration::from_millis(250);

/// A turn that holds its lease.
pub(crate) struct Run<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) request: &'a TurnRequest,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
}

impl Run<'_> {
    /// Runs the turn to its end and tells its listeners. Not cancel-safe: dropped half-way, the turn is given up.
    pub(crate) async fn finish(&mut self, lead: Lead) {
        let mut turn = Turn::of(lead, self.request);
        let held = Held::new(self.gateway, &turn);
        crash::point(crash::ADMITTED);
        let event = match self.answer(&mut turn).await {
            Ok(ending) => self.end(turn, ending, held).await,
            Err(error) => failed(error.into()),
        };
        crash::point(crash::COMMITTED);
        self.log.push(event);
    }

    /// Calls the model and shows its answer as it comes. Nothing is shown before the admission is on disk.
    async fn answer(&mut self, turn: &mut Turn) -> Result<Ending, StoreError> {
        let call = self.call(turn);
        let mut events = std::pin::pin!(self.gateway.upstream.call(call).try_flatten_stream());
        let mut machine = Machine::default();
        let mut journal = Journal::new(self.request.streaming);
        let mut started = false;
        loop {
            let event = tokio::select! {
                biased;
                stop = self.stop.wait_for(Option::is_some) => Event::Stop((*stop.map_err(|_| StoreError::Closed)?).unwrap_or(Stop::Cancel)),
                durable = turn.running.durable.wait(), if !started => {
                    durable?;
                    started = true;
                    tell_started(self.request, self.log, turn);
                    continue;
                }
                () = journal.due() => {
                    journal.write(self.gateway, turn, machine.shown());
                    continue;
                }
                event = events.next() => match event {
                    Some(Ok(event)) => Event::Model(event),
                    Some(Err(failure)) => Event::Failed(failure),
                    None => Event::Failed(cut_off()),
                },
            };
            let effect = machine.on(event);
            if !started {
                turn.running.durable.wait().await?;
                started = true;
                tell_started(self.request, self.log, turn);
            }
            match effect {
                Some(Effect::Show(delta)) => {
                    self.log.push(TurnEvent::Delta(Arc::new(delta)));
                    journal.shown();
                    crash::point(crash::SHOWN);
                }
                Some(Effect::End(ending)) => return Ok(ending),
                None => {}
            }
        }
    }

    fn call(&self, turn: &Turn) -> ModelCall {
        let (model, _) = self.gateway.settings.resolve_model(self.request.model.as_deref());
        ModelCall {
            model,
            messages: turn.context(),
            params: Arc::clone(&self.request.params),
            streaming: self.request.streaming,
        }
    }

    /// Writes the end down, then says what listeners are told.
    async fn end(&self, mut turn: Turn, ending: Ending, mut held: Held<'_>) -> TurnEvent {
        crash::point(crash::ANSWERED);
        match ending {
            Ending::Answered(answer) => {
                let said = assistant_utterance(&answer, MessageStatus::Complete);
                let outcome = Outcome::Completed {
                    messages: vec![NewMessage { id: mint::message(), said }],
                    finish: answer.finish.clone(),
                };
                match self.commit(&turn, outcome, &mut held).await {
                    Ok(committed) => {
                        let finished = Finished {
                            turn: turn.running.turn,
                            tenant: turn.running.lease.tenant,
                            started_at: turn.running.started_at,
                            session: turn.session.clone(),
                            answer: *answer,
                        };
                        turn.remember(self.gateway, self.request, &committed, None);
                        TurnEvent::Finished(Arc::new(finished))
                    }
                    Err(StoreError::StopRequested) => {
                        let failure = TurnFailure::new(FailureCode::Interrupted, "another turn interrupted this one");
                        self.end_unanswered(turn, TurnState::Interrupted, failure, answer.content, held).await
                    }
                    Err(error) => failed(lost(error)),
                }
            }
            Ending::Unanswered { state, failure, shown } => {
                self.end_unanswered(turn, state, failure, shown, held).await
            }
            Ending::Refused(failure) => {
                match self.gateway.store.retract(turn.running.lease).await {
                    Ok(()) => held.is_over(),
                    Err(error) => tracing::warn!(%error, "a refused turn could not be taken back"),
                }
                failed(GatewayError::Turn(failure))
            }
        }
    }

    async fn end_unanswered(
        &self,
        mut turn: Turn,
        state: TurnState,
        failure: TurnFailure,
        shown: Option<String>,
        mut held: Held<'_>,
    ) -> TurnEvent {
        // Text that no client was shown is not part of what happened.
        let shown = shown.filter(|_| self.request.streaming);
        let partial = shown.map(|text| NewMessage { id: mint::message(), said: Utterance::partial_text(&text) });
        let outcome = Outcome::Unanswered { state, failure: failure.clone(), partial };
        match self.commit(&turn, outcome, &mut held).await {
            Ok(committed) => {
                turn.remember(self.gateway, self.request, &committed, Some(state));
                failed(GatewayError::Turn(failure))
            }
            Err(error) => failed(lost(error)),
        }
    }

    async fn commit(&self, turn: &Turn, outcome: Outcome, held: &mut Held<'_>) -> Result<Committed, StoreError> {
        let commit = Commit {
            lease: turn.running.lease,
            session: turn.session.facts.head.id.clone(),
            outcome,
            system: turn.new_system.clone(),
            now: mint::now(),
        };
        let committed = self.gateway.store.commit(commit).await;
        if committed.is_ok() {
            held.is_over();
        }
        committed
    }
}

/// A lease in use. However its use ends, a panic included, the next turn can go on.
struct Held<'a> {
    gateway: &'a Gateway,
    lease: Lease,
    conversation: ConversationId,
    over: bool,
}

impl<'a> Held<'a> {
    fn new(gateway: &'a Gateway, turn: &Turn) -> Self {
        Self { gateway, lease: turn.running.lease, conversation: turn.session.facts.id, over: false }
    }

    /// The turn's end is written and the lease given back.
    fn is_over(&mut self) {
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

/// Only a stream has something to do with it; who waits for the whole answer is not woken.
fn tell_started(request: &TurnRequest, log: &TurnLog, turn: &Turn) {
    if request.streaming {
        log.push(turn.started());
    }
}

fn failed(error: GatewayError) -> TurnEvent {
    TurnEvent::Failed(Arc::new(error))
}

/// A turn that could not be committed: to its client it was interrupted, or the store failed.
fn lost(error: StoreError) -> GatewayError {
    match error {
        StoreError::Fenced | StoreError::StopRequested => {
            GatewayError::Turn(TurnFailure::new(FailureCode::Interrupted, "another turn took this conversation over"))
        }
        other => GatewayError::Store(other),
    }
}

fn cut_off() -> herma_model::ModelFailure {
    let kind = herma_model::generation::ModelFailureKind::CutOff;
    herma_model::ModelFailure::new(kind, "the model server stopped without finishing its answer")
}

/// A running turn and its conversation.
struct Turn {
    running: herma_store::Running,
    alias: herma_model::Alias,
    session: SessionView,
    before: Option<Snapshot>,
    new_system: Option<Arc<[Payload]>>,
}

impl Turn {
    fn of(lead: Lead, request: &TurnRequest) -> Self {
        let Lead { running, mut before, alias } = lead;
        if let Some(snapshot) = &mut before {
            snapshot.messages.extend(running.messages.iter().cloned());
        }
        let session = SessionView {
            facts: Arc::clone(&running.facts),
            requested: request.alias.as_ref().map(|alias| Arc::from(alias.as_str())),
            resolution: running.resolution,
            rotated: false,
        };
        let new_system = (!request.system.is_empty()).then(|| Arc::from(request.system.as_slice()));
        Self { running, alias, session, before, new_system }
    }

    fn started(&self) -> TurnEvent {
        TurnEvent::Started {
            turn: self.running.turn,
            started_at: self.running.started_at,
            session: self.session.clone(),
        }
    }

    fn context(&self) -> Vec<Payload> {
        let nobody = std::collections::HashMap::new();
        let running = Some(self.running.turn);
        match &self.before {
            Some(snapshot) => {
                let system = self.new_system.as_ref().unwrap_or(&snapshot.system);
                build(system, Transcript { messages: &snapshot.messages, unanswered: &snapshot.unanswered }, running)
            }
            None => {
                let system = self.new_system.as_deref().unwrap_or(&[]);
                build(system, Transcript { messages: &self.running.messages, unanswered: &nobody }, running)
            }
        }
    }

    /// Keeps the conversation in memory as it is now.
    fn remember(
        &mut self,
        gateway: &Gateway,
        request: &TurnRequest,
        committed: &Committed,
        unanswered: Option<TurnState>,
    ) {
        let mut snapshot = self.before.take().unwrap_or_else(|| Snapshot {
            facts: Arc::clone(&self.running.facts),
            version: committed.version,
            system: Arc::from([]),
            messages: std::mem::take(&mut self.running.messages),
            unanswered: std::collections::HashMap::new(),
            ended: false,
        });
        snapshot.facts = Arc::clone(&self.running.facts);
        snapshot.version = committed.version;
        if let Some(system) = self.new_system.take() {
            snapshot.system = system;
        }
        snapshot.messages.extend(committed.messages.iter().cloned());
        match unanswered {
            Some(state) => {
                snapshot.unanswered.insert(self.running.turn, Unanswered { state, attempt: self.running.attempt });
            }
            None => {
                snapshot.unanswered.remove(&self.running.turn);
            }
        }
        gateway.cache.put(request.principal.tenant, request.namespace, &self.alias, snapshot);
    }
}

/// Writes what was shown down, now and then.
struct Journal {
    streaming: bool,
    written: usize,
    due: Option<Instant>,
}

impl Journal {
    const fn new(streaming: bool) -> Self {
        Self { streaming, written: 0, due: None }
    }

    fn shown(&mut self) {
        if self.streaming && self.due.is_none() {
            self.due = Some(Instant::now() + JOURNAL_EVERY);
        }
    }

    async fn due(&self) {
        match self.due {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn write(&mut self, gateway: &Gateway, turn: &Turn, shown: &str) {
        self.due = None;
        if let Some(new) = shown.get(self.written..).filter(|new| !new.is_empty()) {
            gateway.store.journal(turn.running.lease, new.to_owned());
            self.written = shown.len();
        }
    }
}
