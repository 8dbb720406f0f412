//! The commands of the chat.

use anyhow::{Context, anyhow, bail};
use herma_gateway::{CompactionRequest, GatewayError, Missing, NewFork, Sessions, now};
use herma_model::Alias;
use herma_store::{BranchPoint, Change, ListFilter, ListView, Pin, RewindPoint};
use herma_telemetry::Trace;
use herma_wire::resource::title;
use tokio::sync::watch;

use super::clipboard;
use super::conversation::Conversation;
use super::failure;
use super::input::{Command, help};
use super::talk::Talk;
use crate::sessions::explain::explained;
use crate::sessions::{id_prefix, list};
use crate::terminal::Stream;
use crate::{ORIGIN, next_command, output};

/// How many conversations `/sessions` lists.
const LISTED: usize = 20;

impl Talk<'_> {
    /// Carries a command out. What it says is for people, on stderr.
    pub(super) async fn carry_out(&mut self, command: Command, rest: &str) -> anyhow::Result<()> {
        match command {
            Command::Help | Command::Exit => output::note(&help(Stream::Stderr.width())),
            Command::New => {
                self.conversation = Conversation::begin(None, self.conversation.session_key.take());
                self.conversation.introduce();
            }
            Command::Sessions => self.list_sessions().await?,
            Command::Switch => self.switch(rest).await?,
            Command::Branch => self.branch(rest).await?,
            Command::Compact => self.compact().await?,
            Command::Undo => self.undo(rest).await?,
            Command::Title => self.title(rest).await?,
            Command::Model => self.choose_model(rest),
            Command::Copy => match &self.conversation.last_answer {
                Some(answer) if clipboard::copy(answer) => {
                    output::note("(the last answer was given to the terminal's clipboard)");
                }
                Some(_) => output::note("there is no terminal that could copy it"),
                None => output::note("there is no answer yet"),
            },
        }
        Ok(())
    }

    fn sessions(&self) -> Sessions<'_> {
        Sessions::of(&*self.store, &self.principal)
    }

    /// Says what to do about an error. It has the conversation's name or short id, as `/sessions` shows it.
    pub(super) fn explained(&self) -> impl Fn(GatewayError) -> anyhow::Error + use<> {
        let shown = self.conversation.shown_alias();
        move |error| match (&shown, error) {
            (Some(alias), GatewayError::NotFound(Missing::Conversation)) => {
                anyhow!("{alias} is not there any more: it was deleted; /new begins another conversation")
            }
            (Some(alias), error) => explained(alias)(error),
            (None, error) => error.into(),
        }
    }

    /// The conversation that a command works on.
    fn alias(&self) -> anyhow::Result<&Alias> {
        self.conversation.begun().context("nothing was said in this conversation yet")
    }

    async fn list_sessions(&self) -> anyhow::Result<()> {
        let filter =
            ListFilter { user_facing: Some(true), answered: Some(true), limit: LISTED, ..ListFilter::default() };
        let rows = self.sessions().list(filter).await?.rows;
        match rows.is_empty() {
            true => output::note("no conversation has an answer yet"),
            false => output::note(&list::as_table(&rows, now(), ListView::Conversations, Stream::Stderr)),
        }
        Ok(())
    }

    async fn switch(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            bail!("say where to: /switch and a name or an id; /sessions lists them");
        }
        let sessions = self.sessions();
        let Some(alias) = id_prefix::find(&sessions, &Alias::parse(name)?).await? else {
            bail!("no conversation is known by {name}; /sessions lists them");
        };
        let chosen = Conversation::existing(&sessions, alias, None).await?;
        self.conversation = chosen;
        self.conversation.introduce();
        Ok(())
    }

    async fn branch(&mut self, text: &str) -> anyhow::Result<()> {
        let source = self.alias()?.clone();
        let left = self.conversation.name().unwrap_or_default();
        let fork = NewFork {
            origin: ORIGIN,
            source,
            at: BranchPoint::End,
            alias: None,
            title: if text.is_empty() { None } else { Some(title(text).map_err(anyhow::Error::msg)?) },
            metadata: None,
            cwd: None,
        };
        let sessions = self.sessions();
        let row = sessions.branch(fork).await.map_err(self.explained())?;
        let branch = Conversation::existing(&sessions, Alias::parse(row.session.id.as_str())?, None).await?;
        self.conversation = branch;
        let name = self.conversation.name().unwrap_or_default();
        output::note(&format!("this is {name}, a branch of {left}; /switch {left} goes back"));
        Ok(())
    }

    async fn compact(&mut self) -> anyhow::Result<()> {
        let alias = self.alias()?.clone();
        output::note("(making a summary; that can take a while)");
        let (stop, cancelled) = watch::channel(false);
        let request = CompactionRequest {
            principal: self.principal.clone(),
            alias: alias.clone(),
            mode: None,
            model: self.model.clone(),
            expected: None,
            begun: None,
            cancelled: Some(cancelled),
            trace: Trace::none(),
        };
        let model = self.gateway.settings().compaction.model.as_deref().or(self.model.as_deref());
        let (explained, key) = (self.explained(), self.key_setting(model));
        let explained = |error| match error {
            GatewayError::Turn(failed) => anyhow!(failure::explained(&failed, &key)),
            error => explained(error),
        };
        let mut work = std::pin::pin!(self.gateway.compact(request));
        let done = loop {
            tokio::select! {
                done = &mut work => break done.map_err(&explained)?,
                _ = self.signals.next() => drop(stop.send_replace(true)),
            }
        };
        let record = &done.record;
        output::note(&format!(
            "messages {} to {} are now a summary, about {} → {} tokens",
            record.first.0, record.through.0, record.sizes.before, record.sizes.after
        ));
        let name = self.conversation.name().unwrap_or_default();
        let id = record.id.to_string();
        let undo = next_command::with(&["sessions", "undo"], &[], &[&name, &id]);
        output::note(&format!("to take it back: {undo}"));
        self.conversation.note_session(&done.facts);
        self.conversation.tokens = record.sizes.after;
        Ok(())
    }

    async fn undo(&mut self, turns: &str) -> anyhow::Result<()> {
        let alias = self.alias()?.clone();
        let turns: u32 = match turns {
            "" => 1,
            number => number.parse().ok().filter(|turns| *turns > 0).context("/undo takes a number of turns")?,
        };
        let sessions = self.sessions();
        sessions.rewind(&alias, RewindPoint::Turns(turns)).await.map_err(self.explained())?;
        let rewound = Conversation::existing(&sessions, alias, None).await?;
        self.conversation = rewound;
        let what = if turns == 1 { "the last turn is".to_owned() } else { format!("the last {turns} turns are") };
        let name = self.conversation.name().unwrap_or_default();
        let command = next_command::with(&["sessions", "restore"], &[], &[&name]);
        output::note(&format!("{what} taken back; until the next message this gives it back: {command}"));
        Ok(())
    }

    async fn title(&mut self, text: &str) -> anyhow::Result<()> {
        let alias = self.alias()?;
        let row = if text.is_empty() {
            self.sessions().find(alias, Pin::Head).await.map_err(self.explained())?
        } else {
            let title = title(text).map_err(anyhow::Error::msg)?;
            let change = Change { title: Some(Some(title)), ..Change::default() };
            self.sessions().change(alias, change).await.map_err(self.explained())?
        };
        match &row.title {
            Some(title) => output::note(&format!("the title is: {}", output::printable(title))),
            None => output::note("there is no title yet; /title and a text sets one"),
        }
        Ok(())
    }

    fn choose_model(&mut self, name: &str) {
        if !name.is_empty() {
            self.model = Some(name.to_owned());
        }
        let settings = self.gateway.settings();
        let model = settings.resolve_model(self.model.as_deref()).name;
        let others: Vec<&str> = settings.models.names().filter(|other| *other != model).collect();
        let others = if others.is_empty() { String::new() } else { format!("; others: {}", others.join(", ")) };
        output::note(&format!("the model is {}{others}", output::printable(model)));
    }
}
