//! Turns that wait for a person: how they are stored, answered and resumed.
//!
//! A parked turn belongs to no process. What is needed to go on with it is stored with it as a [`ParkedRequest`]. The
//! process that gets the last answer resumes the turn, under a new lease. A process that finds a parked turn whose
//! questions are all answered or too old resumes it as well, so an answer is never lost with its process.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use herma_model::alias::Namespace;
use herma_model::{
    Alias, ApprovalChoice, CallId, CreatorKind, OwnCall, Params, Payload, Principal, SessionKey, TenantId,
    TraceContext, TurnId, Usage,
};
use herma_store::{AnswerOutcome, NewResponse, Question, Resumed, Scope, StoreError};
use herma_telemetry::SpanKind;
use herma_wire::client_tools::ClientTools;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::admission::{defect, own_alias};
use crate::error::{Conflict, GatewayError, Missing};
use crate::gateway::{Gateway, Registered};
use crate::live::LiveTurn;
use crate::log::{TurnEvent, TurnLog};
use crate::mint;
use crate::request::{AskWhere, Caller, ConversationRef, ToolOffer, TurnRequest};
use crate::run::{EndTold, Run};
use crate::running::RunningTurn;
use crate::sessions::Origin;
use crate::spans;

/// How often a process looks for parked turns that can go on.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A process that offers no tools looks only every so many times: turns may have been parked before the tools were
/// taken away.
const LOOK_SELDOM: u32 = 30;

/// How often an answer is tried while the turn is not parked yet, and how long.
const TRY_EVERY: Duration = Duration::from_millis(20);
const PARKED_SOON: Duration = Duration::from_secs(5);

/// The route of a resumed turn. Nothing is stored under it: the turn was admitted before.
const RESUMED: &str = "resumed";

/// What a resumed turn needs besides the store's record of it.
pub(crate) struct ResumedWith {
    /// The name to remember the conversation by.
    pub(crate) alias: Alias,
    /// Tokens of the turn's model calls so far.
    pub(crate) usage: Option<Usage>,
    /// The name that the request used for its conversation.
    pub(crate) requested: Option<Arc<str>>,
}

/// What is stored of a request, so that another process can go on with its turn.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ParkedRequest {
    tenant_name: Arc<str>,
    session_key: Option<SessionKey>,
    model: Option<String>,
    params: Vec<(Box<str>, Arc<str>)>,
    #[serde(default)]
    client_tools: ClientTools,
    instructions: Option<Payload>,
    system: Vec<Payload>,
    compact_at: Option<u64>,
    truncate: bool,
    streaming: bool,
    /// Whether the turn can be fetched by its id, so that the pieces of its answer are recorded.
    kept: bool,
    /// How deep the turn is delegated; 0 if it is not.
    depth: u32,
    /// Whether the conversation's tool mode counts.
    #[serde(default)]
    obeys_tool_mode: bool,
    /// Tokens of its model calls so far.
    usage: Option<Usage>,
    /// The name that the request used for its conversation.
    requested: Option<Arc<str>>,
    /// The place of its turn in a trace: `traceparent` and `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<(String, Option<Arc<str>>)>,
}

impl ParkedRequest {
    pub(crate) fn of(request: &TurnRequest, turn: &RunningTurn) -> Self {
        let options = &request.options;
        Self {
            tenant_name: Arc::clone(&request.caller.principal.tenant_name),
            session_key: request.caller.session_key.clone(),
            model: options.model.clone(),
            params: options.params.0.clone(),
            client_tools: ClientTools::clone(&options.client_tools),
            instructions: request.input.instructions.clone(),
            system: request.input.system.clone(),
            compact_at: options.compact_at,
            truncate: options.truncate,
            streaming: options.streaming,
            kept: options.response.as_ref().is_some_and(|response| response.kept),
            depth: match options.tools {
                ToolOffer::Delegated { depth } => depth,
                ToolOffer::AsConfigured | ToolOffer::Off => 0,
            },
            obeys_tool_mode: options.obeys_tool_mode,
            usage: turn.usage,
            requested: turn.session.requested.clone(),
            trace: request.trace.context().map(|context| (context.to_parent(), context.state.clone())),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The request again, for the rest of its turn.
    fn into_request(self, tenant: TenantId, alias: Alias) -> (TurnRequest, Option<Usage>) {
        let principal = Principal::operator(tenant, self.tenant_name);
        let origin = Origin { creator: CreatorKind::Api, source: RESUMED };
        let caller = Caller { principal, session_key: self.session_key, origin };
        let conversation = ConversationRef::Named { alias, namespace: Namespace::Session, must_exist: true };
        let mut request = TurnRequest::new(caller, conversation, RESUMED);
        request.input.instructions = self.instructions;
        request.input.system = self.system;
        let options = &mut request.options;
        options.model = self.model;
        options.params = Arc::new(Params(self.params));
        options.client_tools = Arc::new(self.client_tools);
        options.compact_at = self.compact_at;
        options.truncate = self.truncate;
        options.streaming = self.streaming;
        options.response =
            self.kept.then(|| NewResponse { echo: Arc::from(""), kept: true, visible_while_queued: true });
        options.tools = match self.depth {
            0 => ToolOffer::AsConfigured,
            depth => ToolOffer::Delegated { depth },
        };
        options.approvals = AskWhere::ByTurn;
        options.obeys_tool_mode = self.obeys_tool_mode;
        (request, self.usage)
    }
}

impl Gateway {
    /// Writes a person's answer to a question of a parked turn. The last answer resumes the turn. Returns the call that
    /// was answered.
    pub async fn answer(
        self: &Arc<Self>,
        principal: &Principal,
        turn: TurnId,
        question: Question,
        choice: ApprovalChoice,
    ) -> Result<OwnCall, GatewayError> {
        let scope = Scope::of(principal);
        match self.store.answer(&scope, turn, question, choice, mint::now()).await? {
            AnswerOutcome::NotFound => Err(GatewayError::NotFound(Missing::Turn)),
            AnswerOutcome::NothingAsked => Err(GatewayError::Conflict(Conflict::NoApprovalPending)),
            AnswerOutcome::Answered(call) => Ok(call),
            AnswerOutcome::Complete(call) => {
                if let Err(error) = self.resume(turn).await {
                    tracing::warn!(%error, %turn, "a parked turn could not be resumed yet; it is tried again");
                }
                Ok(call)
            }
        }
    }

    /// The same, about one call. A turn tells its question before it is parked, so this waits until it is.
    pub async fn answer_call(
        self: &Arc<Self>,
        principal: &Principal,
        turn: TurnId,
        call: &CallId,
        choice: ApprovalChoice,
    ) -> Result<(), GatewayError> {
        let began = tokio::time::Instant::now();
        loop {
            match self.answer(principal, turn, Question::Call(call.clone()), choice).await {
                Err(GatewayError::NotFound(_)) if began.elapsed() < PARKED_SOON => tokio::time::sleep(TRY_EVERY).await,
                answered => return answered.map(|_| ()),
            }
        }
    }

    /// Goes on with a parked turn, unless another process does.
    async fn resume(self: &Arc<Self>, turn: TurnId) -> Result<(), StoreError> {
        if self.is_draining() {
            return Ok(());
        }
        let Some(resumed) = self.store.resume(turn, mint::now()).await? else { return Ok(()) };
        let gateway = Arc::clone(self);
        tokio::spawn(async move { gateway.go_on(resumed).await });
        Ok(())
    }

    async fn go_on(self: &Arc<Self>, resumed: Resumed) {
        let (lease, turn) = (resumed.running.lease, resumed.running.turn);
        let Ok(parked) = serde_json::from_str::<ParkedRequest>(&resumed.request) else {
            tracing::error!(%turn, "the stored request of a parked turn cannot be read; the turn is given up");
            return self.store.abandon(lease);
        };
        let Ok(alias) = own_alias(&resumed.running.facts.id.to_string()) else { return self.store.abandon(lease) };
        let (requested, attempt) = (parked.requested.clone(), resumed.running.attempt);
        let caller = parked.trace.as_ref();
        let caller = caller.and_then(|(parent, state)| TraceContext::parse(parent, state.as_deref()));
        let mut span = self.settings.tracer.begin(caller, SpanKind::Internal, spans::TURN);
        spans::of_turn(&mut span, turn, Some(resumed.running.facts.id));
        span.set("herma.turn.resumed", || true);
        let (mut request, usage) = parked.into_request(lease.tenant, alias.clone());
        request.trace = span.trace().clone();
        request.options.session_tools = self.lent_tools.of(resumed.running.facts.id);
        let log = Arc::new(TurnLog::default());
        let (stop, mut stopped) = watch::channel(None);
        let registered = Registered::new(self, turn, LiveTurn { log: Arc::clone(&log), stop });
        self.live.tell_resumed();
        // A resumed turn goes before new ones: it may exceed the limit of live turns.
        let place = self.place();
        let mut run = Run { gateway: self, request: &request, log: &log, stop: &mut stopped, key_turn: &mut None };
        let going_on = run.resume(resumed, ResumedWith { alias, usage, requested: requested.clone() });
        let ended = AssertUnwindSafe(going_on).catch_unwind().await;
        drop((registered, place));
        spans::turn_ended(&mut span, log.last().as_ref());
        drop(span);
        match ended {
            Ok(Some(EndTold)) => {}
            Ok(None) => self.follow_parked(&request.caller.principal, requested, (turn, attempt), &log).await,
            Err(_) => log.push(TurnEvent::Failed(Arc::new(GatewayError::Turn(defect())))),
        }
    }

    /// Denies questions that were asked too long ago, and resumes turns whose questions are all answered.
    ///
    /// `seen` has those of the last look. A turn is resumed at the second look: the process that got the last answer
    /// goes first, because it may lend tools to the turn.
    async fn look_after_parked_turns(self: &Arc<Self>, seen: &mut HashSet<TurnId>) -> Result<(), StoreError> {
        let now = mint::now();
        let asked_before = now.minus(self.settings.tools.approval_timeout);
        let complete: HashSet<TurnId> = self.store.parked_turns(asked_before, now).await?.into_iter().collect();
        let again: Vec<TurnId> = complete.intersection(seen).copied().collect();
        *seen = complete;
        for turn in again {
            self.resume(turn).await?;
        }
        Ok(())
    }
}

/// Looks after parked turns now and then, as long as the gateway lives.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let gateway = Arc::downgrade(gateway);
    tokio::spawn(async move {
        let mut seen = HashSet::new();
        for round in 1_u32.. {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(gateway) = gateway.upgrade() else { return };
            let offers_nothing = gateway.settings.tools.offer_nothing() && gateway.lent_tools.is_empty();
            if offers_nothing && seen.is_empty() && round % LOOK_SELDOM != 0 {
                continue;
            }
            if let Err(error) = gateway.look_after_parked_turns(&mut seen).await {
                tracing::warn!(%error, "parked turns could not be looked after");
            }
        }
    });
}
