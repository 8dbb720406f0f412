//! A running turn as updates, until its end.

use std::sync::Arc;

use herma_gateway::{Finished, GatewayError, Lent, Progress, SessionView, TurnEvent, TurnHandle};
use herma_model::turn::FailureCode;
use herma_model::{ApprovalChoice, FinishReason, Message, MessageId, OwnCall, Step, TurnId};

use herma_store::TurnRecord;
use herma_wire::own_tools::made_calls;

use crate::agent::Agent;
use crate::compactions::{CompactionTeller, Unmade};
use crate::editor_tools::LABEL;
use crate::error::{of_session, request_cancelled};
use crate::in_flight::{StopCause, StopSignal};
use crate::known::OwnWork;
use crate::permissions::{Consent, Permissions};
use crate::provenance::provenance_meta;
use crate::schema::{Error, PromptResponse, SessionInfoUpdate, SessionUpdate, StopReason};
use crate::session::OpenSession;
use crate::speech::Speech;
use crate::tool_calls::{ToolCalls, tool_call_id};

/// Tells the editor of a turn.
pub(crate) struct TurnTeller<'a> {
    agent: &'a Arc<Agent>,
    session: &'a Arc<OpenSession>,
    compactions: CompactionTeller<'a>,
    /// The message that the model says. `None` before the turn has begun.
    speech: Option<Speech>,
    calls: ToolCalls,
    permissions: Permissions,
    /// The turn. `None` before it has begun.
    turn: Option<TurnId>,
    /// Whether it has asked a person. Then it may run under another handle.
    was_parked: bool,
    /// How many further steps the editor knows already. Nothing is told before the last of them.
    known: usize,
    /// The last message that the editor knows of a parked turn. Its calls wait for the person.
    asking: Option<MessageId>,
    /// The turn tells its own compactions. `None` before it has begun.
    work: Option<OwnWork>,
    /// The turn may ask, and go on with the session's tools after that.
    _lent: Lent,
}

impl<'a> TurnTeller<'a> {
    /// Tells of a turn from its beginning. `model` is the one whose window counts.
    pub(crate) fn new(agent: &'a Arc<Agent>, session: &'a Arc<OpenSession>, model: Option<&'a str>) -> Self {
        Self {
            agent,
            session,
            compactions: CompactionTeller { agent, session, model, begun: None },
            speech: None,
            calls: ToolCalls::new(session.cwd.clone(), Arc::clone(&session.editor_tools.board)),
            permissions: Permissions::default(),
            turn: None,
            was_parked: false,
            known: 0,
            asking: None,
            work: None,
            _lent: agent.gateway.lend_tools(session.conversation, Arc::clone(&session.tools)),
        }
    }

    /// The same, of a parked turn whose steps the editor knows.
    pub(crate) fn knowing(mut self, parked: &TurnRecord) -> Self {
        self.turn = Some(parked.id);
        self.was_parked = true;
        self.asking = parked.said().next_back().map(|message| message.id);
        self.work = Some(self.agent.begin_work(self.session));
        self.known = parked.steps.iter().filter(|step| step.compaction().is_none()).count();
        self
    }

    /// Tells the editor of the turn until it ends, asks what the turn asks, and cancels it if the editor wants that.
    pub(crate) async fn follow(
        mut self,
        mut handle: TurnHandle,
        stop: &mut StopSignal,
    ) -> Result<PromptResponse, Error> {
        let mut stopped = None;
        loop {
            let progress = tokio::select! {
                biased;
                cause = stop.stopped_after(stopped) => {
                    stopped = Some(cause);
                    if cause != StopCause::Superseded || self.known > 0 || self.permissions.is_open() {
                        self.permissions.clear();
                        match self.turn.filter(|_| self.was_parked) {
                            Some(turn) => self.cancel_by_id(turn).await,
                            None => handle.cancel(),
                        }
                    }
                    continue;
                }
                progress = handle.progress() => progress,
                (call, consent) = self.permissions.next(&self.agent.editor, &self.session.id), if self.known == 0 => {
                    match consent {
                        Consent::Chosen(choice) => self.answer(&call, choice).await,
                        Consent::Gone => return Err(of_session(&self.session.id, &GatewayError::Draining)),
                    }
                    continue;
                }
            };
            let event = match progress {
                Progress::Compacting(id) => {
                    self.begin_work().await;
                    self.compactions.begun(id).await;
                    continue;
                }
                Progress::Event(event) => event,
            };
            match event {
                TurnEvent::Queued { .. } => {}
                TurnEvent::Started { turn, message, .. } => {
                    self.begin_work().await;
                    self.turn = Some(turn);
                    self.speech = Some(Speech::new(message));
                }
                TurnEvent::Step { step, next, session } => {
                    self.step(&step, &session).await;
                    if step.compaction().is_none() {
                        self.speech = Some(Speech::new(next));
                        self.known = self.known.saturating_sub(1);
                    }
                }
                TurnEvent::Text(run) => {
                    let updates = self.speech.as_mut().map(|speech| speech.text(&run)).unwrap_or_default();
                    self.tell_piece(updates).await;
                }
                TurnEvent::Delta(delta) => {
                    let updates = self.speech.as_mut().map(|speech| speech.delta(&delta)).unwrap_or_default();
                    self.tell_piece(updates).await;
                }
                TurnEvent::Finished(finished) => return Ok(self.finished(&finished).await),
                TurnEvent::Failed(error) => return self.failed(&error, stopped).await,
            }
        }
    }

    /// The turn has begun. What other processes did before it is told first.
    async fn begin_work(&mut self) {
        if self.work.is_none() {
            if let Err(error) = self.agent.tell_news().await {
                tracing::debug!(%error, "the events could not be read");
            }
            self.work = Some(self.agent.begin_work(self.session));
        }
    }

    /// Hands the person's answer to the turn.
    async fn answer(&self, call: &OwnCall, choice: ApprovalChoice) {
        let Some(turn) = self.turn else { return };
        let Agent { gateway, principal, .. } = &**self.agent;
        if let Err(error) = gateway.answer_call(principal, turn, &call.id, choice).await {
            tracing::debug!(%error, "an answer of the editor came too late");
        }
    }

    /// Cancels a turn that has asked a person. It may go on under another handle, so its handle cannot cancel it.
    async fn cancel_by_id(&self, turn: TurnId) {
        if let Err(error) = self.agent.gateway.cancel(&self.agent.principal, turn).await {
            tracing::warn!(%error, %turn, "a turn could not be cancelled");
        }
    }

    async fn tell(&self, updates: Vec<SessionUpdate>) {
        if self.known == 0 {
            self.agent.editor.updates(&self.session.id, updates).await;
        }
    }

    async fn tell_piece(&mut self, updates: Vec<SessionUpdate>) {
        self.compactions.unmade(Unmade::Failed).await;
        self.tell(updates).await;
    }

    async fn step(&mut self, step: &Step, session: &SessionView) {
        if let Step::Compacted(id) = step {
            if self.known == 0 {
                let facts = &session.facts;
                let provenance = provenance_meta(&self.session.id, facts, &facts.head);
                self.compactions.made(*id, provenance).await;
            }
            return;
        }
        self.compactions.unmade(Unmade::Failed).await;
        if let (Step::Said(message), Some(speech)) = (step, &mut self.speech) {
            let updates = speech.rest(&message.said);
            self.tell(updates).await;
        }
        if let Step::Said(message) = step
            && (self.known == 0 || self.asking == Some(message.id))
        {
            self.prepare_questions(message).await;
        }
        let calls = self.calls.step(step);
        self.tell(calls.clone()).await;
        let late = self.calls.sent(&calls);
        self.tell(late).await;
        match step {
            Step::Said(message) => {
                self.permissions.clear();
                for (call, shown) in self.calls.asked(message) {
                    self.was_parked = true;
                    self.permissions.add(call, shown);
                }
            }
            Step::Answered(call, _) => self.permissions.remove(&call.id),
            Step::ToolResult(message) => message.said.calls.iter().for_each(|call| self.permissions.remove(call)),
            Step::Compacted(_) => {}
        }
    }

    /// Finds out what the calls would change that the person is asked about.
    async fn prepare_questions(&self, message: &Message) {
        for call in made_calls(&message.said).iter().filter(|call| call.own.asks && &*call.own.server == LABEL) {
            let id = tool_call_id(message.id, &call.own.id);
            self.session.editor_tools.prepare(&id, &call.own.tool, &call.arguments).await;
        }
    }

    async fn finished(mut self, finished: &Finished) -> PromptResponse {
        self.compactions.unmade(Unmade::Failed).await;
        let mut speech = self.speech.take().unwrap_or_else(|| Speech::new(finished.message.id));
        self.agent.editor.updates(&self.session.id, speech.rest(&finished.message.said)).await;
        self.compactions.usage().await;
        self.agent.tell_title(self.session).await;
        self.agent.gateway.delivered(finished.tenant, finished.turn);
        PromptResponse::new(self.stop_reason(finished))
    }

    fn stop_reason(&self, finished: &Finished) -> StopReason {
        let calls = finished.steps.iter().filter(|step| step.model_message().is_some()).count();
        let most = usize::try_from(self.agent.gateway.settings().tools.max_rounds).unwrap_or(usize::MAX);
        match finished.answer.finish.reason {
            FinishReason::Length => StopReason::MaxTokens,
            FinishReason::ContentFilter => StopReason::Refusal,
            FinishReason::Stop | FinishReason::ToolCalls if calls > 1 && calls >= most => StopReason::MaxTurnRequests,
            FinishReason::Stop | FinishReason::ToolCalls => StopReason::EndTurn,
        }
    }

    async fn failed(mut self, error: &GatewayError, stopped: Option<StopCause>) -> Result<PromptResponse, Error> {
        let is_cancelled = matches!(
            error,
            GatewayError::Turn(failure) | GatewayError::CutOff(failure) if failure.code == FailureCode::Cancelled
        );
        self.compactions.unmade(if is_cancelled { Unmade::Cancelled } else { Unmade::Failed }).await;
        match stopped {
            Some(StopCause::NotWanted) if is_cancelled => Err(request_cancelled()),
            Some(StopCause::Cancelled | StopCause::Superseded) | None if is_cancelled => {
                Ok(PromptResponse::new(StopReason::Cancelled))
            }
            _ => Err(of_session(&self.session.id, error)),
        }
    }
}

impl Agent {
    /// Tells the editor the conversation's title, if it is new.
    pub(crate) async fn tell_title(&self, session: &OpenSession) {
        let mut told = session.known.told.lock().await;
        let Ok(row) = self.find(&session.id).await else { return };
        if told.is_new_title(row.title.as_deref()) {
            let info = SessionInfoUpdate::new().title(row.title);
            self.editor.update(&session.id, SessionUpdate::SessionInfoUpdate(info)).await;
        }
    }
}
