//! The calls of one message, from their storing to their results.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use herma_model::{Answer, CallEnd, MessageStatus, NewMessage, OwnCall, Step, Usage, Utterance};
use herma_store::{Append, AskedCall, Park, StoreError};
use herma_telemetry::{Span, SpanKind, Trace};
use herma_turn::{Event, Stop, ToolRound, ToolsRan};
use herma_wire::chat::client_utterance;
use tokio::time::Instant;

use super::offer::Offered;
use super::plan::{PlannedCall, Then};
use super::session::CallRef;
use super::wording::{self, Settled};
use crate::answer::{client_answer, wants_json, whole_answer};
use crate::driver::stopped;
use crate::journal::{record_of_answered, record_so_far};
use crate::parked::ParkedRequest;
use crate::request::AskWhere;
use crate::stored_turn::StoredTurn;
use crate::{crash, mint};

/// Characters of a result that the model sees however small its context window is.
const LEAST_OUTPUT: usize = 500;

/// A call that has ended.
struct Ended {
    planned: PlannedCall,
    settled: Settled,
    duration: Duration,
    old_text: Option<Arc<str>>,
}

impl StoredTurn<'_> {
    /// Takes care of the calls of one message. Not cancel-safe: the turn has to know what was made.
    pub(crate) async fn take_care_of(&mut self, round: ToolRound) -> Result<Event, StoreError> {
        match round {
            ToolRound::New(answer) => self.new_round(*answer).await,
            ToolRound::Stored => self.stored_round().await,
        }
    }

    /// Stores the message, then makes its calls or asks about them.
    async fn new_round(&mut self, answer: Answer) -> Result<Event, StoreError> {
        let calls = self.plan(&answer).await?;
        let own: Vec<_> = calls.iter().map(|planned| planned.call.clone()).collect();
        let calls_client = answer.tool_calls.len() > own.len();
        let asks = calls.iter().any(|planned| planned.call.asks);
        let asks_in_answer = asks && matches!(self.request.options.approvals, AskWhere::InAnswer(_));
        let tools = &self.request.options.client_tools;
        let mut said = client_utterance(&answer, MessageStatus::Complete, tools).with_own_calls(&own);
        if calls_client || asks_in_answer {
            said = self.with_shown_digest(said, &answer);
        }
        let record = record_so_far(self.request, self.log);
        if let Some(stop) = self.append(said, answer.finish.usage, record).await? {
            return Ok(Event::Stop(stop));
        }
        self.turn.last_finish = Some(answer.finish);
        self.tell_last_step();
        self.journal.next_message(self.log);
        crash::point(crash::CALLS_STORED);
        if asks_in_answer {
            return Ok(Event::ToolsRan(ToolsRan::EndsTurn));
        }
        if asks {
            return self.park(&calls).await;
        }
        self.make(calls, calls_client).await
    }

    /// Goes on with the last stored message, about whose calls a person has decided.
    async fn stored_round(&mut self) -> Result<Event, StoreError> {
        let calls = std::mem::take(&mut self.decided);
        let calls_client = self.turn.last_said().is_some_and(|message| {
            message.turn == self.turn.running.turn && message.said.own_calls().len() < message.said.calls.len()
        });
        self.make(calls, calls_client).await
    }

    /// Makes calls at the same time and stores each result when it comes.
    async fn make(&mut self, calls: Vec<PlannedCall>, calls_client: bool) -> Result<Event, StoreError> {
        let most = self.most_output(calls.len());
        let mut running = FuturesUnordered::new();
        for planned in calls {
            running.push(self.carry_out(planned, most));
        }
        loop {
            let ended = tokio::select! {
                biased;
                stop = stopped(self.stop) => return Ok(Event::Stop(stop)),
                ended = running.next() => match ended {
                    Some(ended) => ended,
                    None => break,
                },
            };
            crash::point(crash::CALL_MADE);
            let result = result_message(&ended);
            let record = record_of_answered(self.request, self.log);
            if let Some(stop) = self.append(result.clone(), None, record).await? {
                // It is known how the call ended, so that is written with the end of the turn.
                let id = self.turn.next_id();
                self.turn.unwritten.push(NewMessage { id, said: result });
                return Ok(Event::Stop(stop));
            }
            self.tell_last_step();
            crash::point(crash::RESULT_STORED);
        }
        Ok(Event::ToolsRan(if calls_client { ToolsRan::EndsTurn } else { ToolsRan::Settled }))
    }

    /// Carries a call out, and measures how long that takes. It borrows nothing of the turn: results of other calls
    /// are stored meanwhile.
    fn carry_out(&self, planned: PlannedCall, most: usize) -> impl Future<Output = Ended> + Send + use<> {
        let gateway = Arc::clone(self.gateway);
        let mut span = self.tool_span(&planned);
        let context = self.call_context(&planned, span.trace().clone());
        let message = self.turn.last_said().map_or_else(|| self.turn.next_id(), |message| message.id);
        let place = CallRef { message, call: Arc::clone(&planned.call.id) };
        async move {
            let (began, mut old_text) = (Instant::now(), None);
            let settled = match &planned.then {
                Then::Make(Offered::Server(tool)) => wording::settled(
                    gateway.toolbox.call_in(tool, &planned.arguments, context.trace.passed_on().as_ref()).await,
                    most,
                ),
                Then::Make(Offered::BuiltIn(tool)) => {
                    wording::settled(tool.call(&gateway, &context, &planned.arguments).await, most)
                }
                Then::Make(Offered::Session(tool, session)) => {
                    let ended = session.call(place, tool, &planned.arguments).await;
                    old_text = ended.old_text;
                    wording::settled(ended.end, most)
                }
                // A round with questions is parked or ends its turn, so no question comes here.
                Then::Ask => wording::denied("it was not allowed"),
                Then::Settle(settled) => settled.clone(),
            };
            span.set("herma.tool.status", || settled.0.as_str());
            drop(span);
            Ended { planned, settled, duration: began.elapsed(), old_text }
        }
    }

    /// The span of a call that is made. A call that is not made has none: its name may be the model's own words.
    fn tool_span(&self, planned: &PlannedCall) -> Span {
        let trace = &self.request.trace;
        if !matches!(planned.then, Then::Make(_)) {
            return Trace::none().begin(SpanKind::Internal, || "");
        }
        let (OwnCall { tool, server, id, .. }, operation) = (&planned.call, "execute_tool");
        let mut span = trace.begin(SpanKind::Internal, || format!("{operation} {tool}"));
        span.set("gen_ai.operation.name", || operation);
        span.set("gen_ai.tool.name", || tool.to_string());
        span.set("gen_ai.tool.call.id", || id.to_string());
        span.set("herma.tool.server", || server.to_string());
        span
    }

    /// Most characters of each of so many results: what the operator set, but never more than a part of the context
    /// window, so that a turn with large results goes on.
    pub(super) fn most_output(&self, results: usize) -> usize {
        let most = self.gateway.settings.tools.max_output;
        let Some(window) = self.model().window.and_then(|tokens| usize::try_from(tokens).ok()) else { return most };
        most.min((window / results.max(1)).max(LEAST_OUTPUT))
    }

    /// Parks the turn until people have answered.
    async fn park(&mut self, calls: &[PlannedCall]) -> Result<Event, StoreError> {
        let asked = calls.iter().filter(|planned| planned.call.asks).map(|planned| AskedCall {
            call: planned.call.clone(),
            name: Arc::clone(&planned.name),
            arguments: Arc::clone(&planned.arguments),
        });
        let park = Park {
            lease: self.turn.running.lease,
            request: ParkedRequest::of(self.request, self.turn).to_json(),
            asks: asked.collect(),
            now: mint::now(),
        };
        match self.gateway.store.park(park).await {
            Ok(()) => {
                crash::point(crash::PARKED);
                Ok(Event::ToolsRan(ToolsRan::Parked))
            }
            Err(StoreError::StopRequested(kind)) => {
                let results = calls.iter().map(|planned| planned.call.not_allowed_yet(None));
                let results = self.turn.next_ids().zip(results).map(|(id, said)| NewMessage { id, said });
                self.turn.unwritten = results.collect();
                Ok(Event::Stop(kind.into()))
            }
            Err(error) => Err(error),
        }
    }

    /// Appends one message. `Some` if the turn was asked to stop, and nothing was written.
    async fn append(
        &mut self,
        said: Utterance,
        usage: Option<Usage>,
        record: Option<String>,
    ) -> Result<Option<Stop>, StoreError> {
        let append = Append {
            lease: self.turn.running.lease,
            session: self.turn.session.facts.head.id.clone(),
            messages: vec![NewMessage { id: self.turn.next_id(), said }],
            usage,
            cost: self.gateway.settings.cost(&self.model(), usage),
            record,
            recall: self.turn.unstored_recall(),
            now: mint::now(),
        };
        match self.gateway.store.append(append).await {
            Ok(committed) => {
                self.turn.appended(&committed, usage);
                Ok(None)
            }
            Err(StoreError::StopRequested(kind)) => Ok(Some(kind.into())),
            Err(error) => Err(error),
        }
    }

    fn tell_last_step(&self) {
        if let Some(step) = self.turn.steps.last() {
            self.tell_step(step.clone());
        }
    }

    /// Notes what the client is shown of the whole turn, if this message ends it.
    fn with_shown_digest(&self, said: Utterance, answer: &Answer) -> Utterance {
        let earlier = self.turn.steps.iter().filter_map(Step::model_message);
        let last = client_answer(&said, answer.finish.clone());
        let whole = whole_answer(earlier, last, None, wants_json(&self.request.options.params));
        let tools = &self.request.options.client_tools;
        said.with_shown_digest(client_utterance(&whole, MessageStatus::Complete, tools).digest)
    }
}

/// The result of a call as a message.
fn result_message(ended: &Ended) -> Utterance {
    let Ended { planned, settled: (status, text), duration, old_text } = ended;
    let earlier = planned.is_earlier.then(|| planned.earlier_call());
    let end = CallEnd {
        status: *status,
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        answer: planned.answer,
        call: earlier,
        old_text: old_text.clone(),
    };
    Utterance::tool_result(&planned.call.id, text, &end)
}
