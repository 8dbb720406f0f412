//! The chat loop at a terminal: reads a text, and answers it or carries a command out.

use std::sync::Arc;

use herma_gateway::{Gateway, Sessions};
use herma_model::Principal;
use herma_store::{ConversationRow, ListFilter, Store};

use super::completion::{ChatWords, KnownConversation};
use super::conversation::Conversation;
use super::editor::{ChatEditor, Typed};
use super::input::{ChatInput, Command};
use super::quiet::QuietTerminal;
use super::turn::TurnOutcome;
use crate::output;
use crate::sessions::id_prefix::short_id;
use crate::setup::OtherServer;
use crate::signals::{Caught, Signals};

/// How many conversations the tab key knows.
const COMPLETED: usize = 50;

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerFormat {
    /// Their text, while it streams.
    Text,
    /// As chat completion objects.
    Json,
}

/// The state of a chat.
pub(super) struct Talk<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) store: Arc<dyn Store>,
    pub(super) principal: Principal,
    pub(super) model: Option<String>,
    pub(super) conversation: Conversation,
    pub(super) signals: Signals,
    pub(super) format: AnswerFormat,
    /// Whether a person can be asked whether a call may be made.
    pub(super) can_ask: bool,
    /// The model servers of `[models]`, to say which setting has the key of one.
    pub(super) others: Vec<OtherServer>,
    /// The terminal while no prompt is open. `None` if stdin is no terminal, or a simple one.
    pub(super) quiet: Option<QuietTerminal>,
}

impl Talk<'_> {
    /// Chats until the person leaves.
    pub(super) async fn run(&mut self, editor: &mut ChatEditor) -> anyhow::Result<()> {
        loop {
            editor.complete_with(self.words().await);
            let Some(text) = self.next_text(editor).await? else { return Ok(()) };
            match ChatInput::read(&text) {
                ChatInput::Empty => {}
                ChatInput::Command(Command::Exit, _) => return Ok(()),
                ChatInput::Command(command, rest) => {
                    if let Err(error) = self.carry_out(command, rest).await {
                        output::note(&format!("error: {error:#}"));
                    } else if command == Command::New
                        && !rest.is_empty()
                        && self.say(rest).await? == TurnOutcome::Terminated
                    {
                        return Ok(());
                    }
                }
                ChatInput::Superfluous(word) => output::note(&format!(
                    "{word} takes no text behind it, so nothing was done; to send the line as a message, begin it \
                     with a space"
                )),
                ChatInput::UnknownCommand(word) => {
                    output::note(&format!("there is no command {word}; /help lists them"));
                }
                ChatInput::Message(text) => {
                    if self.say(text).await? == TurnOutcome::Terminated {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The next text. `None` at the end of the input, or if Ctrl-C is pressed again and no text would be lost.
    async fn next_text(&mut self, editor: &mut ChatEditor) -> anyhow::Result<Option<String>> {
        let mut may_leave = false;
        loop {
            let typed = tokio::select! {
                typed = editor.next() => typed?,
                caught = self.signals.next() => match caught {
                    Caught::Interrupt => Typed::Interrupt,
                    Caught::Terminate => {
                        // The cursor still stands behind the prompt.
                        output::note("");
                        return Ok(None);
                    }
                },
            };
            match typed {
                Typed::Text(text) => return Ok(Some(text)),
                Typed::Interrupt if may_leave => return Ok(None),
                Typed::Interrupt | Typed::Cleared => {
                    may_leave = true;
                    output::note("(Ctrl-C once more, Ctrl-D or /exit leaves the chat)");
                }
                Typed::End => return Ok(None),
            }
        }
    }

    /// What the tab key completes now. Without a list it completes commands only.
    async fn words(&self) -> ChatWords {
        let filter =
            ListFilter { user_facing: Some(true), answered: Some(true), limit: COMPLETED, ..ListFilter::default() };
        let rows = Sessions::of(&*self.store, &self.principal).list(filter).await.map_or(Vec::new(), |page| page.rows);
        let known = |row: &ConversationRow| KnownConversation {
            name: row.facts.name().map_or_else(|| short_id(row.facts.id), output::printable),
            title: row.title.as_deref().map(output::printable).unwrap_or_default(),
        };
        let models = self.gateway.settings().models.names().map(str::to_owned);
        ChatWords { conversations: rows.iter().map(known).collect(), models: models.collect() }
    }
}
