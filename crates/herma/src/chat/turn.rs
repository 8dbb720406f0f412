//! One turn of the chat: sends a message, and shows what comes of it.

use std::io;

use herma_gateway::{
    AskWhere, Caller, Conflict, ConversationRef, Finished, GatewayError, OnDisconnect, SessionView, Sessions,
    TurnEvent, TurnHandle, TurnRequest, session_object,
};
use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{CallEnd, Digest, OwnCall, Step, TurnId, Utterance};
use herma_store::Pin;
use herma_wire::chat::{self, Head, completion_id, shown_text, simple_user};

use super::approval::{self, Consent};
use super::conversation;
use super::failure;
use super::printer::AnswerPrinter;
use super::spinner::{Spinner, TURN_EVERY};
use super::talk::{AnswerFormat, Talk};
use crate::signals::Caught;
use crate::{ORIGIN, output, setup, tool_lines};

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    Answered,
    /// It got no answer. The reason was printed.
    Failed,
    /// A person pressed Ctrl-C.
    Cancelled,
    /// The system asked the process to end.
    Terminated,
}

/// A turn while it runs.
struct RunningTurn {
    handle: TurnHandle,
    /// Known from its beginning on.
    id: Option<TurnId>,
    /// Whether it has asked the person.
    was_parked: bool,
    /// The calls of the last message, with their arguments.
    calls: Vec<(OwnCall, String)>,
    printer: AnswerPrinter,
    spinner: Spinner,
    /// Whether the system asked the process to end.
    is_terminated: bool,
}

impl RunningTurn {
    /// The tool of a result with a colon. Empty if the last message made only one call.
    fn name_of(&self, result: &Utterance, end: &CallEnd) -> String {
        if let Some(earlier) = &end.call {
            return format!("{}: ", tool_lines::name(&earlier.server, &earlier.tool));
        }
        let own = self.calls.iter().map(|(own, _)| own).find(|own| result.calls.contains(&own.id));
        own.filter(|_| self.calls.len() > 1)
            .map_or_else(String::new, |own| format!("{}: ", tool_lines::name(&own.server, &own.tool)))
    }

    fn outcome(&self, otherwise: TurnOutcome) -> TurnOutcome {
        if self.is_terminated { TurnOutcome::Terminated } else { otherwise }
    }
}

impl Talk<'_> {
    /// Sends a message and prints the answer. A failure is printed in one line.
    pub(super) async fn say(&mut self, text: &str) -> anyhow::Result<TurnOutcome> {
        if let Some(quiet) = &self.quiet {
            quiet.mark_pastes();
        }
        let handle = match self.gateway.submit(self.request(text)) {
            Ok(handle) => handle,
            Err(error) => return Ok(self.explain(&error)),
        };
        let new = herma_model::tokens::estimate(text);
        let mut turn = RunningTurn {
            handle,
            id: None,
            was_parked: false,
            calls: Vec::new(),
            printer: AnswerPrinter::new(self.format == AnswerFormat::Json),
            spinner: Spinner::new(self.conversation.tokens + u64::from(new)),
            is_terminated: false,
        };
        loop {
            match self.next_event(&mut turn).await {
                TurnEvent::Queued { .. } => {
                    output::note("(another turn of this conversation is running; waiting for it)");
                }
                TurnEvent::Started { turn: id, session, .. } => {
                    turn.id = Some(id);
                    session.iter().for_each(|session| self.conversation.note_session(&session.facts));
                }
                TurnEvent::Step { step, session, .. } => self.step(&mut turn, &step, &session).await?,
                TurnEvent::Text(run) => turn.printer.text(run.whole())?,
                TurnEvent::Delta(delta) => turn.printer.delta(&delta)?,
                TurnEvent::Finished(finished) => {
                    self.finish(&mut turn, &finished).await?;
                    return Ok(turn.outcome(TurnOutcome::Answered));
                }
                TurnEvent::Failed(error) => {
                    turn.printer.end_line()?;
                    return Ok(turn.outcome(self.explain(&error)));
                }
            }
        }
    }

    /// Shows the rest of an answer, and remembers it.
    async fn finish(&mut self, turn: &mut RunningTurn, finished: &Finished) -> anyhow::Result<()> {
        match self.format {
            AnswerFormat::Text => turn.printer.finish(finished)?,
            AnswerFormat::Json => self.print_completion(finished)?,
        }
        for call in &finished.answer.tool_calls {
            let name = output::printable(&call.name);
            output::note(&format!("(the model wants to call the tool {name}, which the terminal does not have)"));
        }
        self.gateway.delivered(finished.tenant, finished.turn);
        finished.session.iter().for_each(|session| self.conversation.note_session(&session.facts));
        self.conversation.last_answer = shown_text(&finished.message.said);
        self.conversation.tokens = match (&finished.answer.finish.usage, finished.steps.len()) {
            (Some(usage), 0 | 1) => usage.input + usage.output,
            // The usage is that of all model calls of the turn.
            _ => self.tokens_now().await,
        };
        Ok(())
    }

    async fn tokens_now(&self) -> u64 {
        let Some(alias) = &self.conversation.alias else { return 0 };
        let snapshot = Sessions::of(&*self.store, &self.principal).snapshot(alias, Pin::Head).await;
        snapshot.map_or(self.conversation.tokens, |snapshot| conversation::tokens(&snapshot))
    }

    /// Prints the answer as a chat completion object, as over HTTP.
    fn print_completion(&self, finished: &Finished) -> io::Result<()> {
        let asked = self.gateway.settings().resolve_model(self.model.as_deref()).name;
        let id = completion_id(finished.turn);
        let model = finished.answer.finish.model.as_deref().unwrap_or(asked);
        let head = Head { id: &id, created: finished.started_at.seconds(), model };
        let json = chat::completion(&head, &finished.answer, finished.session.as_ref().map(session_object).as_ref());
        output::answer(&String::from_utf8_lossy(&json))
    }

    /// Prints a step of a turn. Asks the person if the step has calls that need it.
    async fn step(&mut self, turn: &mut RunningTurn, step: &Step, session: &SessionView) -> anyhow::Result<()> {
        match step {
            Step::Compacted(_) => {
                turn.printer.end_line()?;
                output::note(&compacted(session));
            }
            Step::Said(message) => {
                turn.printer.end_message(&message.said)?;
                turn.calls = tool_lines::calls(&message.said);
                for (own, arguments) in &turn.calls {
                    output::dim(&format!("→ {}", tool_lines::call(own, arguments)));
                }
                self.ask_about_calls(turn).await?;
            }
            // The person who answered sits here.
            Step::Answered(..) => {}
            Step::ToolResult(message) => {
                turn.printer.end_line()?;
                if let Some(end) = message.said.call_end() {
                    output::dim(&format!(
                        "← {}{}",
                        turn.name_of(&message.said, &end),
                        tool_lines::result(&message.said, &end)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Asks about the calls of the last message that need it, one after the other.
    async fn ask_about_calls(&mut self, turn: &mut RunningTurn) -> anyhow::Result<()> {
        let asked: Vec<_> = turn.calls.iter().filter(|(own, _)| own.asks).cloned().collect();
        let Some(id) = turn.id.filter(|_| !asked.is_empty()) else { return Ok(()) };
        turn.was_parked = true;
        for (own, arguments) in asked {
            let call = tool_lines::call(&own, &arguments);
            let choice = match approval::ask(self.quiet.as_ref(), &mut self.signals, &call).await? {
                Consent::Chosen(choice) => choice,
                Consent::Interrupted(caught) => {
                    self.interrupt(turn, caught).await;
                    return Ok(());
                }
            };
            if let Err(error) = self.gateway.answer_call(&self.principal, id, &own.id, choice).await {
                output::note(&format!("(the answer came too late: {error})"));
            }
        }
        Ok(())
    }

    /// The turn's next event. Ctrl-C cancels the turn; the turn then reports that as an event. A sign turns while
    /// nothing of a message has come.
    async fn next_event(&mut self, turn: &mut RunningTurn) -> TurnEvent {
        let mut ticks = tokio::time::interval(TURN_EVERY);
        loop {
            tokio::select! {
                biased;
                event = turn.handle.next() => {
                    turn.spinner.clear();
                    return event;
                }
                caught = self.signals.next() => self.interrupt(turn, caught).await,
                _ = ticks.tick(), if !turn.printer.has_begun() => turn.spinner.turn(),
            }
        }
    }

    /// Cancels the turn. After a question the turn goes on under another handle, so that it is cancelled by its id.
    async fn interrupt(&self, turn: &mut RunningTurn, caught: Caught) {
        turn.spinner.clear();
        turn.is_terminated |= caught == Caught::Terminate;
        turn.handle.cancel();
        if let Some(id) = turn.id.filter(|_| turn.was_parked)
            && let Err(error) = self.gateway.cancel(&self.principal, id).await
        {
            output::note(&format!("(the answer could not be cancelled: {error})"));
        }
    }

    fn request(&self, text: &str) -> TurnRequest {
        let conversation = &self.conversation;
        let target = match conversation.alias.clone() {
            Some(alias) => ConversationRef::Named { alias, namespace: Namespace::Session, must_exist: false },
            None => ConversationRef::New,
        };
        let (principal, session_key) = (self.principal.clone(), conversation.session_key.clone());
        let mut request = TurnRequest::new(Caller { principal, session_key, origin: ORIGIN }, target, ORIGIN.source);
        request.input.messages = vec![simple_user(text)];
        request.input.indices = vec![0];
        // If a first question failed, the same words are its next attempt. Other words begin another conversation.
        let Digest(words) = Digest::of_fields([text.as_bytes()]);
        request.identity.body = words;
        request.options.model.clone_from(&self.model);
        request.options.streaming = true;
        // No person can be asked at a pipe. Calls that need an approval are denied there, and the result says so.
        request.options.approvals = if self.can_ask { AskWhere::ByTurn } else { AskWhere::Nowhere };
        request.options.on_disconnect = OnDisconnect::Cancel;
        request
    }

    /// The setting that has the key of a model's server.
    pub(super) fn key_setting(&self, model: Option<&str>) -> String {
        setup::key_setting(&self.others, self.gateway.settings().resolve_model(model).server)
    }

    /// Prints why there is no answer. A cancelled turn is not a failure.
    fn explain(&mut self, error: &GatewayError) -> TurnOutcome {
        if matches!(error, GatewayError::Turn(failure) if failure.code == FailureCode::Cancelled) {
            output::note("(cancelled)");
            return TurnOutcome::Cancelled;
        }
        self.conversation.is_ended |= matches!(error, GatewayError::Conflict(Conflict::Ended));
        let text = match error {
            GatewayError::Turn(failure) | GatewayError::CutOff(failure) => {
                failure::explained(failure, &self.key_setting(self.model.as_deref()))
            }
            error => format!("{:#}", self.explained()(error.clone())),
        };
        let text = output::printable(&text);
        output::note(&format!("error: {}", text.split_whitespace().collect::<Vec<_>>().join(" ")));
        TurnOutcome::Failed
    }
}

/// The message about a compaction. Older names still lead to the conversation.
fn compacted(session: &SessionView) -> String {
    match session.rotated {
        true => format!("(the conversation was compacted; it goes on in {})", session.facts.head.id),
        false => "(the conversation was compacted)".to_owned(),
    }
}
