//! Commands that a person types in place of a prompt. They ask no model, and the model is never shown them.

use herma_gateway::{CompactionRequest, GatewayError};
use herma_store::{Change, ConversationRow, ListFilter};
use herma_telemetry::Trace;
use tokio::sync::watch;
use uuid::Uuid;

use crate::agent::Agent;
use crate::compactions::{CompactionTeller, Unmade};
use crate::content::{chunk, text_block};
use crate::error::{of_gateway, of_session};
use crate::in_flight::StopSignal;
use crate::provenance::provenance_meta;
use crate::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ConfigOptionUpdate, ContentBlock, Error,
    SessionUpdate, UnstructuredCommandInput,
};
use crate::session::{OpenSession, id_of};

/// How many conversations `/sessions` shows.
const LISTED: usize = 20;

/// The commands: name, what they do, and what may follow.
const COMMANDS: [(&str, &str, Option<&str>); 6] = [
    ("compact", "Summarise the earlier messages, so that the context gets shorter", None),
    ("branch", "Make a branch of this session; you stay here", Some("title of the branch")),
    ("sessions", "List the sessions that were used last", None),
    ("model", "Show the models, or choose one for this session", Some("name of a model")),
    ("title", "Show the title of this session, or set it", Some("new title")),
    ("help", "List these commands", None),
];

/// The update that tells the editor of the commands.
pub(crate) fn available() -> SessionUpdate {
    let command = |(name, description, hint): (&str, &str, Option<&str>)| {
        let input = hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(name, description).input(input)
    };
    let commands = COMMANDS.into_iter().map(command).collect();
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

/// A command, and what follows its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    name: &'static str,
    rest: String,
}

impl Command {
    /// The command that a prompt is. `None` if the prompt is for the model.
    pub(crate) fn of(prompt: &[ContentBlock]) -> Option<Self> {
        let [ContentBlock::Text(text)] = prompt else { return None };
        let typed = text.text.trim().strip_prefix('/')?;
        let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let (name, ..) = COMMANDS.into_iter().find(|(name, ..)| *name == word)?;
        Some(Self { name, rest: rest.trim().to_owned() })
    }
}

impl Agent {
    /// Carries out a command, and shows its outcome as a message that is not stored. One that is stopped shows nothing.
    pub(crate) async fn command(
        &self,
        session: &OpenSession,
        row: &ConversationRow,
        command: Command,
        stop: &mut StopSignal,
    ) -> Result<(), Error> {
        let Command { name, rest } = command;
        let text = match name {
            "compact" => match self.compact(session, row, stop).await? {
                Some(text) => text,
                None => return Ok(()),
            },
            "branch" => {
                let title = (!rest.is_empty()).then_some(rest);
                let made = self.branch(&session.id, session.alias.clone(), title, None).await?;
                format!("The branch is {}. You are still in this session.", id_of(made.facts.id))
            }
            "sessions" => self.recent().await?,
            "model" => self.model(session, row, &rest).await?,
            "title" => self.title(session, row, rest).await?,
            _ => help(),
        };
        let id = format!("cmd_{}", Uuid::now_v7().simple());
        let shown = SessionUpdate::AgentMessageChunk(chunk(&id, text_block(&text)));
        self.editor.update(&session.id, shown).await;
        Ok(())
    }

    /// Compacts the conversation. `None` if that was stopped.
    async fn compact(
        &self,
        session: &OpenSession,
        row: &ConversationRow,
        stop: &mut StopSignal,
    ) -> Result<Option<String>, Error> {
        let model = row.editor.model.as_deref();
        let (begun, mut begins) = watch::channel(None);
        let (cancel, cancelled) = watch::channel(false);
        let request = CompactionRequest {
            principal: self.principal.clone(),
            alias: session.alias.clone(),
            mode: None,
            model: model.map(str::to_owned),
            expected: None,
            begun: Some(begun),
            cancelled: Some(cancelled),
            trace: Trace::none(),
        };
        let _work = self.begin_work(session);
        let mut teller = CompactionTeller { agent: self, session, model, begun: None };
        let compacting = self.gateway.compact(request);
        tokio::pin!(compacting);
        let mut stopped = None;
        let outcome = loop {
            let id = tokio::select! {
                biased;
                cause = stop.stopped_after(stopped) => {
                    stopped = Some(cause);
                    cancel.send_replace(true);
                    continue;
                }
                Ok(()) = begins.changed() => *begins.borrow_and_update(),
                outcome = &mut compacting => break outcome,
            };
            if let Some(id) = id {
                teller.begun(id).await;
            }
        };
        match outcome {
            Ok(compacted) => {
                let provenance = provenance_meta(&session.id, &compacted.facts, &compacted.facts.head);
                teller.made(compacted.record.id, provenance).await;
                let sizes = compacted.record.sizes;
                Ok(Some(format!("Compacted: about {} tokens became {}.", sizes.before, sizes.after)))
            }
            Err(_) if stopped.is_some() => {
                teller.unmade(Unmade::Cancelled).await;
                Ok(None)
            }
            Err(error) => {
                teller.unmade(Unmade::Failed).await;
                match &error {
                    GatewayError::Conflict(_) => Ok(Some(format!("Nothing was changed: {error}."))),
                    error => Err(of_session(&session.id, error)),
                }
            }
        }
    }

    async fn recent(&self) -> Result<String, Error> {
        let filter = ListFilter { user_facing: Some(true), limit: LISTED, ..ListFilter::default() };
        let page = self.sessions().list(filter).await.map_err(|error| of_gateway(&error))?;
        let line = |row: &ConversationRow| {
            format!("- {}: {}", id_of(row.facts.id), row.title.as_deref().unwrap_or("(no title)"))
        };
        Ok(page.rows.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    async fn model(&self, session: &OpenSession, row: &ConversationRow, name: &str) -> Result<String, Error> {
        let models = self.models().await;
        if name.is_empty() {
            let default = &self.gateway.settings().default_model;
            let current = row.editor.model.as_deref().unwrap_or(default);
            return Ok(format!("The model is {current}. There are: {}.", models.join(", ")));
        }
        if !models.iter().any(|model| model == name) {
            return Ok(format!("There is no such model. There are: {}.", models.join(", ")));
        }
        let row = self.choose_model(session, name).await?;
        let options = ConfigOptionUpdate::new(self.options(&row).await);
        self.editor.update(&session.id, SessionUpdate::ConfigOptionUpdate(options)).await;
        Ok(format!("The model is now {name}."))
    }

    async fn title(&self, session: &OpenSession, row: &ConversationRow, title: String) -> Result<String, Error> {
        if title.is_empty() {
            return Ok(match &row.title {
                Some(title) => format!("The title is: {title}"),
                None => "This session has no title.".to_owned(),
            });
        }
        self.change(session, Change { title: Some(Some(title)), ..Change::default() }).await?;
        self.tell_title(session).await;
        Ok("The title was set.".to_owned())
    }
}

fn help() -> String {
    COMMANDS.into_iter().map(|(name, what, _)| format!("- /{name}: {what}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_commands_are_commands() {
        let of = |text: &str| Command::of(&[text_block(text)]).map(|command| (command.name, command.rest));
        assert_eq!(of("/help"), Some(("help", String::new())));
        assert_eq!(of(" /title  A trip to Oslo \n"), Some(("title", "A trip to Oslo".to_owned())));
        for text in ["/helpful", "/etc/passwd", "help", "/", "a /help"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
