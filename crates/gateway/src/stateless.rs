//! Stateless turns: they belong to no conversation, and their clients carry the history themselves.
//!
//! No message is stored, only what a turn cost and how it ended. A repeated request finds its turn in the memory of
//! this process, while the turn runs and for a while after.

mod remembered;

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use herma_model::{
    Answer, Message, MessageId, MessageStatus, ModelCall, ModelFailure, Payload, Seq, SessionId, Step, Timestamp,
    TurnFailure, TurnId, TurnState,
};
use herma_store::{Scope, StatelessOutcome, StatelessTurn};
use herma_turn::{AllowedTools, CallPlace, Ending, Stop, ToolRules, Transcript, build, truncated};
use herma_upstream::ModelServer;
use herma_wire::chat::client_utterance;
use tokio::sync::watch;

use crate::access::KeyTurn;
use crate::admission::{check_window, defect, retry_identity};
use crate::compaction;
use crate::driver::{Host, drive, stopped};
use crate::error::{Conflict, GatewayError, KeyProblem};
use crate::gateway::Gateway;
use crate::history::KnownPart;
use crate::input::Input;
use crate::log::{Finished, TurnEvent, TurnLog};
use crate::mint;
use crate::models::ResolvedModel;
use crate::request::TurnRequest;
use crate::spans::{Purpose, Traced};
use crate::tools::without_idle_fields;
use crate::warning;

pub(crate) use remembered::{Recognised, StatelessTurns};

/// A stateless turn.
pub(crate) struct Stateless<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) request: &'a TurnRequest,
    pub(crate) turn: TurnId,
    /// How it counts for its API key, if the key has a limit. Given back before the listeners are told the end.
    pub(crate) key_turn: &'a mut Option<KeyTurn>,
    pub(crate) log: &'a Arc<TurnLog>,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
}

impl<'a> Stateless<'a> {
    /// Runs the turn and tells its listeners. If the request repeats a turn, its listeners get the events of that turn.
    pub(crate) async fn run(&mut self) {
        let identity = retry_identity(self.request, mint::conversation(), None);
        let client = &self.request.identity.client;
        let recognised =
            self.gateway.stateless.recognise(&identity, client, self.key_turn.as_ref(), self.turn, self.log);
        let end = match recognised {
            Recognised::Same(earlier) => {
                if let Some(key_turn) = self.key_turn {
                    key_turn.joined();
                }
                return earlier.repeat_to(self.log).await;
            }
            Recognised::Mismatch => TurnEvent::Failed(Arc::new(GatewayError::Conflict(Conflict::IdempotencyMismatch))),
            Recognised::Refused(refusal) => TurnEvent::Failed(Arc::new(refusal)),
            Recognised::New(remembered) => {
                let end = self.answer().await.unwrap_or_else(|error| TurnEvent::Failed(Arc::new(error)));
                remembered.ended(matches!(end, TurnEvent::Finished(_)));
                end
            }
        };
        *self.key_turn = None;
        self.log.push(end);
    }

    async fn answer(&mut self) -> Result<TurnEvent, GatewayError> {
        let scope = Scope::of(&self.request.caller.principal);
        if self.request.caller.session_key.as_ref().is_some_and(|key| !scope.keys.allows(key)) {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        let input = Input::of(self.request, None, &KnownPart::ByAlignment)
            .unwrap_or_else(|| Err(GatewayError::Turn(defect())))?;
        check_window(self.gateway, self.request, None, &input)?;
        let started_at = mint::now();
        let message = MessageId::answered(self.turn, 1, 0);
        if self.request.options.streaming {
            self.log.push(TurnEvent::Started { turn: self.turn, started_at, session: None, message });
        }
        let ending = self.call_model(started_at).await;
        self.end(ending, started_at, message)
    }

    async fn call_model(&mut self, started_at: Timestamp) -> Ending {
        let model = self.model();
        let _at_model = self.gateway.at_model(model.server, None);
        // A call of Herma's own tools has to be stored before it is made, so a stateless turn is offered none.
        let rules = ToolRules::of_client(AllowedTools::of(&self.request.options.params));
        let server = self.gateway.server_of(&model);
        let Ok(ending) = drive(server, rules, &mut StatelessHost { stateless: self, started_at }).await;
        ending
    }

    fn model(&self) -> ResolvedModel<'a> {
        self.gateway.settings.resolve_model(self.request.options.model.as_deref())
    }

    /// What the model is shown: the messages of the request.
    fn context(&self, now: Timestamp) -> Vec<Payload> {
        let said = self.request.input.messages.iter().zip(0..);
        let messages: Vec<_> = said.map(|(said, nth)| Arc::new(self.message(nth, said.clone(), now))).collect();
        let system = match &self.request.input.instructions {
            Some(instructions) => std::slice::from_ref(instructions),
            None => self.request.input.system.as_slice(),
        };
        let (unanswered, begun_anew) = (HashMap::new(), HashMap::new());
        let (unanswered, begun_anew) = (&unanswered, &begun_anew);
        let transcript =
            Transcript { base: None, messages: &messages, rewound: &[], whole: true, unanswered, begun_anew };
        let context = build(system, transcript, Some(self.turn));
        match self.model().window.filter(|_| self.request.options.truncate) {
            Some(window) => truncated(context, system.len(), u64::from(window)),
            None => context,
        }
    }

    fn message(&self, nth: usize, said: herma_model::Utterance, now: Timestamp) -> Message {
        Message {
            id: MessageId::brought(self.turn, 1, nth),
            seq: Seq(i64::try_from(nth).unwrap_or(i64::MAX)),
            session: SessionId::from_name(""),
            turn: self.turn,
            attempt: 1,
            created_at: now,
            said,
        }
    }

    /// Notes how the turn ended, and returns its last event. Nothing is noted of a refused turn.
    fn end(&self, ending: Ending, started_at: Timestamp, message: MessageId) -> Result<TurnEvent, GatewayError> {
        match ending {
            Ending::Answered(answer) => {
                self.note(started_at, StatelessOutcome::Completed(answer.finish.clone()));
                Ok(TurnEvent::Finished(Arc::new(self.finished(*answer, started_at, message))))
            }
            Ending::Unanswered { state, failure, .. } => Err(self.failed(started_at, state, failure)),
            Ending::TooLong(failure) => {
                let why = "the gateway keeps nothing of this request that it could summarise";
                let status = failure.status;
                let exceeded = compaction::exceeded(&failure.message, why);
                Err(GatewayError::Turn(TurnFailure { upstream_status: status, ..exceeded }))
            }
            Ending::Refused(failure) => Err(GatewayError::Turn(failure)),
            Ending::AfterLastStep | Ending::Parked => Err(GatewayError::Turn(defect())),
        }
    }

    fn finished(&self, answer: Answer, started_at: Timestamp, id: MessageId) -> Finished {
        let tools = &self.request.options.client_tools;
        let said = client_utterance(&answer, MessageStatus::Complete, tools);
        let message = Arc::new(Message { id, ..self.message(self.request.input.messages.len(), said, mint::now()) });
        Finished {
            turn: self.turn,
            tenant: self.request.caller.principal.tenant,
            started_at,
            session: None,
            answer,
            steps: vec![Step::Said(Arc::clone(&message))],
            message,
        }
    }

    fn failed(&self, started_at: Timestamp, state: TurnState, failure: TurnFailure) -> GatewayError {
        self.note(started_at, StatelessOutcome::Unanswered { state, failure: failure.clone() });
        GatewayError::Turn(failure)
    }

    fn note(&self, started_at: Timestamp, outcome: StatelessOutcome) {
        self.gateway.store.note_stateless(StatelessTurn {
            tenant: self.request.caller.principal.tenant,
            id: self.turn,
            api: self.request.identity.route,
            outcome,
            started_at,
            ended_at: mint::now(),
        });
    }
}

/// The driver's host for a stateless turn.
struct StatelessHost<'a, 'b> {
    stateless: &'a mut Stateless<'b>,
    started_at: Timestamp,
}

impl Host for StatelessHost<'_, '_> {
    type Error = Infallible;

    fn call(&self, _: CallPlace) -> ModelCall {
        let request = self.stateless.request;
        ModelCall {
            model: self.stateless.model().name.to_owned(),
            messages: self.stateless.context(self.started_at),
            params: without_idle_fields(&request.options.params),
            streaming: request.options.streaming,
            retries: request.identity.upstream_retries(),
            trace: None,
        }
    }

    async fn wait(&mut self, _: &str) -> Result<Option<Stop>, Infallible> {
        Ok(Some(stopped(self.stateless.stop).await))
    }

    async fn may_show(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    async fn show(&mut self, pieces: Vec<TurnEvent>, _: &str) -> Result<ControlFlow<()>, Infallible> {
        self.stateless.log.push_all(pieces);
        Ok(ControlFlow::Continue(()))
    }

    fn call_failed(&mut self, failure: &ModelFailure, server: &dyn ModelServer, model: &str) {
        self.stateless.gateway.counters.model_failed(failure);
        warning::model_call_failed(failure, server, model, &self.traced());
    }

    fn traced(&self) -> Traced<'_> {
        Traced { trace: &self.stateless.request.trace, conversation: None, purpose: Purpose::Turn }
    }
}
