//! `session/prompt`: a turn, or a command.

use std::sync::Arc;

use herma_gateway::{AskWhere, Caller, ConversationRef, MemoryUse, TurnRequest};
use herma_model::TraceContext;
use herma_model::alias::Namespace;
use herma_store::ConversationRow;
use herma_telemetry::SpanKind;
use serde_json::Value;

use crate::agent::{Agent, Answered, Handled, ORIGIN};
use crate::commands::Command;
use crate::content::user_message;
use crate::error::{bad_params, of_session, request_cancelled};
use crate::in_flight::{Place, StopCause};
use crate::schema::{ContentBlock, Error, Meta, PromptRequest, PromptResponse, StopReason, method};
use crate::session::OpenSession;
use crate::turn::TurnTeller;

impl Agent {
    /// Answers a prompt. Prompts of one session are answered one after the other.
    pub(crate) async fn prompt(self: &Arc<Self>, request: PromptRequest, place: &mut Place) -> Handled {
        self.in_flight.supersede(&request.session_id);
        let mut waiting = place.stop.clone();
        tokio::select! {
            biased;
            cause = waiting.stopped() => return stopped(cause),
            () = place.turn_comes() => {}
        }
        let (session, row) = self.opened(&request.session_id).await?;
        if let Some(command) = Command::of(&request.prompt) {
            self.command(&session, &row, command, &mut place.stop).await?;
            return match place.stop.cause() {
                Some(cause) => stopped(cause),
                None => Ok(Answered::new(&PromptResponse::new(StopReason::EndTurn))),
            };
        }
        let mut turn = self.turn_request(&session, &row, &request.prompt)?;
        // It ends with this function.
        let span =
            self.gateway.settings().tracer.begin(caller(request.meta.as_ref()), SpanKind::Server, method::PROMPT);
        turn.trace = span.trace().clone();
        turn.options.memory = memory_use(request.meta.as_ref())?;
        self.deny_parked_turn(&session, &row).await?;
        if let Some(cause) = place.stop.cause() {
            return stopped(cause);
        }
        let handle = self.gateway.submit(turn).map_err(|error| of_session(&session.id, &error))?;
        let model = row.editor.model.as_deref();
        let teller = TurnTeller::new(self, &session, model);
        let response = teller.follow(handle, &mut place.stop).await?;
        Ok(Answered::new(&response))
    }

    fn turn_request(
        &self,
        session: &OpenSession,
        row: &ConversationRow,
        prompt: &[ContentBlock],
    ) -> Result<TurnRequest, Error> {
        let (principal, session_key) = (self.principal.clone(), session.session_key.clone());
        let caller = Caller { principal, session_key, origin: ORIGIN };
        let alias = session.alias.clone();
        let to = ConversationRef::Named { alias, namespace: Namespace::Session, must_exist: true };
        let mut turn = TurnRequest::new(caller, to, ORIGIN.source);
        turn.input.messages = vec![user_message(prompt)?];
        turn.input.indices = vec![0];
        turn.options.model = row.editor.model.as_deref().map(str::to_owned);
        turn.options.streaming = true;
        turn.options.obeys_tool_mode = true;
        turn.options.approvals = AskWhere::ByTurn;
        turn.options.session_tools = Some(Arc::clone(&session.tools));
        Ok(turn)
    }
}

/// The editor's place in its trace, by `_meta.traceparent` and `_meta.tracestate`. A malformed one is ignored.
fn caller(meta: Option<&Meta>) -> Option<TraceContext> {
    let text = |name| meta.and_then(|meta| meta.get(name)).and_then(Value::as_str);
    TraceContext::parse(text("traceparent")?, text("tracestate"))
}

/// How the turn uses long-term memory, by `_meta.hermes.memory`.
fn memory_use(meta: Option<&Meta>) -> Result<MemoryUse, Error> {
    let said = meta.and_then(|meta| meta.get("hermes")).and_then(|hermes| hermes.get("memory"));
    match said {
        None | Some(Value::Null) => Ok(MemoryUse::AsUsual),
        Some(Value::Bool(false)) => Ok(MemoryUse::Off),
        Some(Value::Bool(true)) => Ok(MemoryUse::On),
        Some(_) => Err(bad_params("_meta.hermes.memory is neither true nor false")),
    }
}

/// The answer to a prompt that was stopped before it began.
fn stopped(cause: StopCause) -> Handled {
    match cause {
        StopCause::Cancelled => Ok(Answered::new(&PromptResponse::new(StopReason::Cancelled))),
        StopCause::NotWanted | StopCause::Superseded => Err(request_cancelled()),
    }
}
