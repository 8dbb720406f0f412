//! The conversation that the terminal is in.

use std::sync::Arc;

use anyhow::bail;
use herma_gateway::{GatewayError, Sessions};
use herma_model::{Alias, ConversationFacts, Role, SessionKey};
use herma_store::{ListFilter, Pin, Snapshot};
use herma_wire::chat::shown_text;

use crate::sessions::explain;
use crate::sessions::id_prefix::{self, short_id};
use crate::terminal::Stream;
use crate::text_width::shortened;
use crate::{excerpt, next_command, output, short_id};

/// How many messages of an existing conversation are printed at the start.
const SHOWN_MESSAGES: usize = 2;

/// The conversation of the next message.
#[derive(Default)]
pub(super) struct Conversation {
    /// A name of the conversation. `None` before the first message of a conversation without a name.
    pub(super) alias: Option<Alias>,
    /// The session key. New conversations get it too.
    pub(super) session_key: Option<SessionKey>,
    /// What is known of it. `None` before its first message.
    facts: Option<Arc<ConversationFacts>>,
    /// About how many tokens the model reads before the next message.
    pub(super) tokens: u64,
    /// The text of its last answer.
    pub(super) last_answer: Option<String>,
    /// Whether it takes no messages until it is opened again, as far as is known.
    pub(super) is_ended: bool,
    /// One line for each of its last messages.
    last_messages: Vec<String>,
}

impl Conversation {
    /// A conversation that begins with its first message, under this name if there is one.
    pub(super) fn begin(alias: Option<Alias>, session_key: Option<SessionKey>) -> Self {
        Self { alias, session_key, ..Self::default() }
    }

    /// Finds the named conversation. A short id and the beginning of an id name one too. An unknown name that people
    /// may choose begins a new one, unless it looks like a mistyped id.
    pub(super) async fn choose(
        sessions: &Sessions<'_>,
        typed: Alias,
        session_key: Option<SessionKey>,
    ) -> anyhow::Result<Self> {
        match sessions.snapshot(&typed, Pin::Head).await {
            Ok(old) => Self::continued(typed, &old, session_key),
            Err(GatewayError::NotFound(_)) => match id_prefix::find_own(sessions, &typed).await? {
                Some(alias) => Self::existing(sessions, alias, session_key).await,
                None if may_begin(&typed) => Ok(Self::begin(Some(typed), session_key)),
                None => bail!(
                    "no conversation is known by {typed}; check the id, --data and --store; for a new conversation, \
                     leave out --session, or choose a name that does not look like an id"
                ),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The conversation that was used last, of this session key if there is one. `begin` is the command that
    /// begins one.
    pub(super) async fn last_used(
        sessions: &Sessions<'_>,
        session_key: Option<SessionKey>,
        begin: &str,
    ) -> anyhow::Result<Self> {
        let filter =
            ListFilter { user_facing: Some(true), session_key: session_key.clone(), limit: 1, ..ListFilter::default() };
        let Some(row) = sessions.list(filter).await?.rows.into_iter().next() else {
            bail!("there is no conversation to continue; to begin one: {begin}");
        };
        Self::existing(sessions, Alias::parse(&row.facts.id.to_string())?, session_key).await
    }

    /// A conversation that exists.
    pub(super) async fn existing(
        sessions: &Sessions<'_>,
        alias: Alias,
        session_key: Option<SessionKey>,
    ) -> anyhow::Result<Self> {
        let old = sessions.snapshot(&alias, Pin::Head).await?;
        Self::continued(alias, &old, session_key)
    }

    fn continued(alias: Alias, old: &Snapshot, session_key: Option<SessionKey>) -> anyhow::Result<Self> {
        let stored = &old.facts.session_key;
        if let (Some(stored), Some(asked)) = (stored, &session_key)
            && stored != asked
        {
            bail!("{alias} belongs to the session key {stored}, not {asked}; leave out --session-key to go on with it");
        }
        let messages = &old.messages;
        let last = &messages[messages.len().saturating_sub(SHOWN_MESSAGES)..];
        let answered = messages.iter().rev().find(|message| message.said.role == Role::Assistant);
        Ok(Self {
            alias: Some(alias),
            session_key: stored.clone().or(session_key),
            facts: Some(Arc::clone(&old.facts)),
            tokens: tokens(old),
            last_answer: answered.and_then(|message| shown_text(&message.said)),
            is_ended: old.ended,
            last_messages: last.iter().map(|message| excerpt::of(message)).collect(),
        })
    }

    /// Prints which conversation this is, with its last messages.
    pub(super) fn introduce(&self) {
        match self.name() {
            Some(name) if self.facts.is_some() => {
                output::note(&format!("continuing {name}"));
                let width = Stream::Stderr.width().unwrap_or(usize::MAX);
                let fitted = |message: &String| shortened(&format!("  {message}"), width);
                self.last_messages.iter().for_each(|message| output::dim(&fitted(message)));
                if let Some(alias) = self.shown_alias().filter(|_| self.is_ended) {
                    output::note(&explain::ended(&alias));
                }
            }
            Some(name) => output::note(&format!("a new conversation, {name}")),
            None => output::note("a new conversation"),
        }
    }

    /// Prints that a chosen name is new: an existing one may have been meant.
    pub(super) fn introduce_new_name(&self) {
        if let Some(name) = self.name().filter(|_| self.facts.is_none()) {
            output::dim(&format!("a new conversation, {name}"));
        }
    }

    /// Remembers the session of a sent message.
    pub(super) fn note_session(&mut self, facts: &Arc<ConversationFacts>) {
        if self.alias.is_none() {
            self.alias = Alias::parse(facts.head.id.as_str()).ok();
        }
        if self.session_key.is_none() {
            self.session_key.clone_from(&facts.session_key);
        }
        self.facts = Some(Arc::clone(facts));
        self.is_ended = false;
    }

    /// The name that it is known by. `None` before its first message.
    pub(super) fn begun(&self) -> Option<&Alias> {
        self.alias.as_ref().filter(|_| self.facts.is_some())
    }

    /// The name or short id that lists show, for messages about it.
    pub(super) fn shown_alias(&self) -> Option<Alias> {
        let shown = self.name().and_then(|name| Alias::parse(&name).ok());
        shown.or_else(|| self.alias.clone())
    }

    /// What people call it: the name that was chosen, else its short id. `None` before its first message.
    pub(super) fn name(&self) -> Option<String> {
        match &self.facts {
            Some(facts) => Some(facts.name().map_or_else(|| short_id(facts.id), output::printable)),
            None => self.alias.as_ref().map(|alias| output::printable(alias.as_str())),
        }
    }

    /// The command that continues it with the same model. `None` before its first message, and if it is ended.
    pub(super) fn continue_command(&self, model: Option<&str>) -> Option<String> {
        let name = self.facts.as_ref().filter(|_| !self.is_ended).and_then(|_| self.name())?;
        let flags = [("--session", Some(name.as_str())), ("--model", model)];
        Some(next_command::with(&["chat"], &given(flags), &[]))
    }
}

/// The command that begins a conversation as the last command line would have.
pub(super) fn begin_command(session_key: Option<&SessionKey>, model: Option<&str>) -> String {
    let flags = [("--session-key", session_key.map(SessionKey::as_str)), ("--model", model)];
    next_command::with(&["chat"], &given(flags), &[])
}

fn given<'a, const N: usize>(flags: [(&'a str, Option<&'a str>); N]) -> Vec<(&'a str, &'a str)> {
    flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Whether a name that leads nowhere begins a conversation.
pub(super) fn may_begin(typed: &Alias) -> bool {
    typed.may_be_created() && !short_id::looks_like_one_of_a_conversation(typed.as_str())
}

/// About how many tokens the model's view has: what the model server counted, and what came after it.
pub(super) fn tokens(of: &Snapshot) -> u64 {
    let counted = of.counted.as_ref();
    let is_new = |seq| counted.is_none_or(|counted| seq > counted.through);
    let new = of.messages.iter().filter(|message| is_new(message.seq));
    counted.map_or(0, |counted| counted.tokens) + new.map(|message| u64::from(message.said.tokens)).sum::<u64>()
}
