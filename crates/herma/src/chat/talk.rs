//! The chat loop: reads a line, and prints the answer while it streams.

use std::sync::Arc;

use herma_gateway::{
    Caller, ConversationRef, Gateway, GatewayError, OnDisconnect, Origin, SessionView, TurnEvent, TurnHandle,
    TurnRequest,
};
use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{Answer, CreatorKind, Delta, Principal, Step};
use herma_wire::chat::simple_user;

use super::conversation::Conversation;
use super::input::{ChatInput, HELP, StdinLines};
use crate::output;
use crate::signals::{Caught, Signals};

/// The origin that is stored with conversations of the terminal.
const ORIGIN: Origin = Origin { creator: CreatorKind::Cli, source: "cli" };

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
                    output::note(&format!("there is no command {word}; /help lists them"))
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
            Ok(turn) => turn,
            Err(error) => {
                self.explain(&error);
                return Ok(ChatState::Continue);
            }
        };
        let mut state = ChatState::Continue;
        let mut printer = AnswerPrinter(false);
        loop {
            match self.next_event(&mut turn, &mut state).await {
                TurnEvent::Queued { .. } => {
                    output::note("(another turn of this conversation is running; waiting for it)");
                }
                TurnEvent::Started { session, .. } => {
                    session.iter().for_each(|session| self.conversation.note_session(&session.facts));
                }
                TurnEvent::Step { step: Step::Compacted(_), session } => output::note(&compacted(&session)),
                // The pieces of this message were printed as deltas.
                TurnEvent::Step { step: Step::Said(_), .. } => {}
                TurnEvent::Delta(delta) => printer.delta(&delta)?,
                TurnEvent::Finished(finished) => {
                    printer.finish(&finished.answer)?;
                    self.gateway.delivered(finished.tenant, finished.turn);
                    return Ok(state);
                }
                TurnEvent::Failed(error) => {
                    printer.end_line()?;
                    self.explain(&error);
                    return Ok(state);
                }
            }
        }
    }

    /// The turn's next event. Ctrl-C cancels the turn; the turn then reports that as an event.
    async fn next_event(&mut self, turn: &mut TurnHandle, state: &mut ChatState) -> TurnEvent {
        loop {
            tokio::select! {
                event = turn.next() => return event,
                caught = self.signals.next() => {
                    if caught == Caught::Terminate {
                        *state = ChatState::Exit;
                    }
                    turn.cancel();
                }
            }
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

/// Prints an answer. True in the middle of a line.
struct AnswerPrinter(bool);

impl AnswerPrinter {
    fn delta(&mut self, delta: &Delta) -> std::io::Result<()> {
        for text in [&delta.content, &delta.refusal].into_iter().flatten() {
            self.text(text)?;
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.0 = true;
        output::piece(text)
    }

    /// Ends the answer. Prints it whole if no piece was printed before.
    fn finish(&mut self, answer: &Answer) -> std::io::Result<()> {
        if !self.0 {
            for text in [&answer.content, &answer.refusal].into_iter().flatten() {
                self.text(text)?;
            }
        }
        self.end_line()?;
        for call in &answer.tool_calls {
            let name = output::printable(&call.name);
            output::note(&format!("(the model wants to call the tool {name}, which the terminal does not have)"));
        }
        Ok(())
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        if std::mem::take(&mut self.0) { output::piece("\n") } else { Ok(()) }
    }
}
