//! The chat loop: reads a line, and prints the answer while it streams.

use std::sync::Arc;

use herma_gateway::{
    AskWhere, Caller, ConversationRef, Gateway, GatewayError, OnDisconnect, SessionView, TurnEvent, TurnHandle,
    TurnRequest,
};
use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{CallEnd, OwnCall, Principal, Step, TurnId, Utterance};
use herma_wire::chat::simple_user;

use super::approval::{self, Consent};
use super::conversation::Conversation;
use super::input::{ChatInput, HELP, StdinLines};
use super::printer::AnswerPrinter;
use crate::signals::{Caught, Signals};
use crate::{ORIGIN, output, tool_lines};

/// The state of a chat in the terminal.
pub(super) struct Talk<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) principal: Principal,
    pub(super) model: Option<String>,
    pub(super) conversation: Conversation,
    pub(super) lines: StdinLines,
    pub(super) signals: Signals,
    /// Whether a message got no answer.
    pub(super) failed: bool,
}

/// Whether the chat goes on.
#[derive(Debug, PartialEq, Eq)]
enum ChatState {
    Continue,
    Exit,
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
    /// What happens to the chat after it.
    state: ChatState,
}

impl RunningTurn {
    fn new(handle: TurnHandle) -> Self {
        let printer = AnswerPrinter::default();
        Self { handle, id: None, was_parked: false, calls: Vec::new(), printer, state: ChatState::Continue }
    }

    /// The tool of a result with a colon. Empty if the last message made only one call.
    fn name_of(&self, result: &Utterance, end: &CallEnd) -> String {
        if let Some(earlier) = &end.call {
            return format!("{}: ", tool_lines::name(&earlier.server, &earlier.tool));
        }
        let own = self.calls.iter().map(|(own, _)| own).find(|own| result.calls.contains(&own.id));
        own.filter(|_| self.calls.len() > 1)
            .map_or_else(String::new, |own| format!("{}: ", tool_lines::name(&own.server, &own.tool)))
    }
}

impl Talk<'_> {
    /// Chats until the input ends or the user leaves.
    pub(super) async fn run(&mut self) -> anyhow::Result<()> {
        while let Some(line) = self.next_line().await? {
            match ChatInput::read(&line) {
                ChatInput::Empty => {}
                ChatInput::Exit => break,
                ChatInput::Help => output::note(HELP),
                ChatInput::NewConversation => self.conversation.begin_new(),
                ChatInput::UnknownCommand(word) => {
                    output::note(&format!("there is no command {word}; /help lists them"));
                }
                ChatInput::Message(text) => {
                    if self.say(text).await? == ChatState::Exit {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The next line. `None` at the end of the input or after a second Ctrl-C.
    async fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        self.lines.prompt();
        let mut interrupted = false;
        loop {
            tokio::select! {
                line = self.lines.next() => {
                    let line = line?;
                    if line.is_none() && self.lines.is_terminal {
                        // After Ctrl-D the cursor still stands behind the prompt.
                        output::note("");
                    }
                    return Ok(line);
                }
                caught = self.signals.next() => match caught {
                    Caught::Interrupt if !interrupted => {
                        interrupted = true;
                        output::note("\n(Ctrl-C once more, Ctrl-D or /exit ends the conversation)");
                        self.lines.prompt();
                    }
                    Caught::Interrupt | Caught::Terminate => return Ok(None),
                },
            }
        }
    }

    /// Sends a message and prints the answer. A failure is printed in one line, and the chat goes on.
    async fn say(&mut self, text: &str) -> anyhow::Result<ChatState> {
        let mut turn = match self.gateway.submit(self.request(text)) {
            Ok(handle) => RunningTurn::new(handle),
            Err(error) => {
                self.explain(&error);
                return Ok(ChatState::Continue);
            }
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
                    turn.printer.finish(&finished)?;
                    for call in &finished.answer.tool_calls {
                        let name = output::printable(&call.name);
                        output::note(&format!(
                            "(the model wants to call the tool {name}, which the terminal does not have)"
                        ));
                    }
                    self.gateway.delivered(finished.tenant, finished.turn);
                    return Ok(turn.state);
                }
                TurnEvent::Failed(error) => {
                    turn.printer.end_line()?;
                    self.explain(&error);
                    return Ok(turn.state);
                }
            }
        }
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
            let choice = match approval::ask(&mut self.lines, &mut self.signals, &call).await? {
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

    /// The turn's next event. Ctrl-C cancels the turn; the turn then reports that as an event.
    async fn next_event(&mut self, turn: &mut RunningTurn) -> TurnEvent {
        loop {
            tokio::select! {
                event = turn.handle.next() => return event,
                caught = self.signals.next() => self.interrupt(turn, caught).await,
            }
        }
    }

    /// Cancels the turn. After a question the turn goes on under another handle, so that it is cancelled by its id.
    async fn interrupt(&self, turn: &mut RunningTurn, caught: Caught) {
        if caught == Caught::Terminate {
            turn.state = ChatState::Exit;
        }
        turn.handle.cancel();
        if let Some(id) = turn.id.filter(|_| turn.was_parked)
            && let Err(error) = self.gateway.cancel(&self.principal, id).await
        {
            output::note(&format!("(the answer could not be cancelled: {error})"));
        }
    }

    /// Prints in one line why there is no answer. A cancelled turn is not a failure.
    fn explain(&mut self, error: &GatewayError) {
        if matches!(error, GatewayError::Turn(failure) if failure.code == FailureCode::Cancelled) {
            return output::note("(cancelled)");
        }
        self.failed = true;
        let text = output::printable(&error.to_string());
        output::note(&format!("error: {}", text.split_whitespace().collect::<Vec<_>>().join(" ")));
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
        request.options.model.clone_from(&self.model);
        request.options.streaming = true;
        // Nobody can be asked at a pipe. Calls that need an approval are denied there, and the result says so.
        request.options.approvals = if self.lines.is_terminal { AskWhere::ByTurn } else { AskWhere::Nowhere };
        request.options.on_disconnect = OnDisconnect::Cancel;
        request
    }
}

/// The message about a compaction. Older names still lead to the conversation.
fn compacted(session: &SessionView) -> String {
    match session.rotated {
        true => format!("(the conversation was compacted; it goes on in {})", session.facts.head.id),
        false => "(the conversation was compacted)".to_owned(),
    }
}
