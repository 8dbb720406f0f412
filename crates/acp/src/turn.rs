//! A running turn as updates, until its end.

use std::sync::Arc;

use herma_gateway::{Finished, GatewayError, Progress, SessionView, TurnEvent, TurnHandle};
use herma_model::turn::FailureCode;
use herma_model::{FinishReason, Step};

use crate::agent::Agent;
use crate::compactions::{CompactionTeller, Unmade};
use crate::error::{of_session, request_cancelled};
use crate::in_flight::{StopCause, StopSignal};
use crate::schema::{Error, PromptResponse, SessionInfoUpdate, SessionUpdate, StopReason};
use crate::session::OpenSession;
use crate::speech::Speech;
use crate::tool_calls::ToolCalls;

/// Tells the editor of a turn.
pub(crate) struct TurnTeller<'a> {
    pub(crate) agent: &'a Arc<Agent>,
    pub(crate) session: &'a OpenSession,
    pub(crate) compactions: CompactionTeller<'a>,
    /// The message that the model says. `None` before the turn has begun.
    pub(crate) speech: Option<Speech>,
    pub(crate) calls: ToolCalls,
}

impl TurnTeller<'_> {
    /// Tells the editor of the turn until it ends, and cancels it if the editor wants that.
    pub(crate) async fn follow(
        mut self,
        mut handle: TurnHandle,
        stop: &mut StopSignal,
    ) -> Result<PromptResponse, Error> {
        loop {
            let progress = tokio::select! {
                biased;
                _ = stop.stopped(), if stop.cause().is_none() => {
                    handle.cancel();
                    continue;
                }
                progress = handle.progress() => progress,
            };
            let event = match progress {
                Progress::Compacting(id) => {
                    self.compactions.begun(id).await;
                    continue;
                }
                Progress::Event(event) => event,
            };
            match event {
                TurnEvent::Queued { .. } => {}
                TurnEvent::Started { message, .. } => self.speech = Some(Speech::new(message)),
                TurnEvent::Step { step, next, session } => {
                    self.step(&step, &session).await;
                    if step.compaction().is_none() {
                        self.speech = Some(Speech::new(next));
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
                TurnEvent::Failed(error) => return self.failed(&error, stop.cause()).await,
            }
        }
    }

    async fn tell_piece(&mut self, updates: Vec<SessionUpdate>) {
        self.compactions.unmade(Unmade::Failed).await;
        self.agent.editor.updates(&self.session.id, updates).await;
    }

    async fn step(&mut self, step: &Step, session: &SessionView) {
        if let Step::Compacted(id) = step {
            return self.compactions.made(*id, &session.facts).await;
        }
        self.compactions.unmade(Unmade::Failed).await;
        if let (Step::Said(message), Some(speech)) = (step, &mut self.speech) {
            let updates = speech.rest(&message.said);
            self.agent.editor.updates(&self.session.id, updates).await;
        }
        let calls = self.calls.step(step);
        self.agent.editor.updates(&self.session.id, calls).await;
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
            Some(StopCause::Cancelled) | None if is_cancelled => Ok(PromptResponse::new(StopReason::Cancelled)),
            _ => Err(of_session(&self.session.id, error)),
        }
    }
}

impl Agent {
    /// Tells the editor the conversation's title, if it is new.
    pub(crate) async fn tell_title(&self, session: &OpenSession) {
        let Ok(row) = self.find(&session.id).await else { return };
        if session.is_new_title(row.title.as_deref()) {
            let info = SessionInfoUpdate::new().title(row.title);
            self.editor.update(&session.id, SessionUpdate::SessionInfoUpdate(info)).await;
        }
    }
}
