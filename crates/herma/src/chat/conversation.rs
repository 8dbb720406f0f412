//! The conversation that the terminal is in.

use std::sync::Arc;

use anyhow::bail;
use herma_gateway::{GatewayError, Sessions};
use herma_model::{Alias, ConversationFacts, SessionKey};
use herma_store::{Pin, Snapshot};

use crate::sessions::id_prefix;
use crate::{excerpt, output};

/// How many messages of an existing conversation are printed at the start.
const SHOWN_MESSAGES: usize = 2;

/// The conversation of the next message.
pub(super) struct Conversation {
    /// A name of the conversation. `None` before the first message of a conversation without a name.
    pub(super) alias: Option<Alias>,
    /// The session key. New conversations get it too.
    pub(super) session_key: Option<SessionKey>,
    old: Option<Snapshot>,
}

impl Conversation {
    /// Finds the requested conversation. An unknown name that people may choose begins a new one.
    pub(super) async fn choose(
        sessions: &Sessions<'_>,
        asked: Option<Alias>,
        session_key: Option<SessionKey>,
    ) -> anyhow::Result<Self> {
        let Some(alias) = asked else { return Ok(Self { alias: None, session_key, old: None }) };
        let alias = by_short_id(sessions, &alias).await.unwrap_or(alias);
        let old = match sessions.snapshot(&alias, Pin::Head).await {
            Ok(old) => old,
            Err(GatewayError::NotFound(_)) if alias.may_be_created() => {
                return Ok(Self { alias: Some(alias), session_key, old: None });
            }
            Err(GatewayError::NotFound(_)) => bail!(
                "no conversation is known by {alias}; check the id, --data and --store, or leave out --session for a \
                 new conversation"
            ),
            Err(error) => return Err(error.into()),
        };
        let stored = &old.facts.session_key;
        if let (Some(stored), Some(asked)) = (stored, &session_key)
            && stored != asked
        {
            bail!("{alias} belongs to the session key {stored}, not {asked}; leave out --session-key to go on with it");
        }
        let session_key = stored.clone().or(session_key);
        Ok(Self { alias: Some(alias), session_key, old: Some(old) })
    }

    /// Prints which conversation this is, with its last messages.
    pub(super) fn introduce(&self) {
        match (&self.old, &self.alias) {
            (Some(old), _) => {
                let id = &old.facts.head.id;
                output::note(&format!("continuing {id}; to continue it later: herma chat --session {id}"));
                let messages = &old.messages;
                for message in &messages[messages.len().saturating_sub(SHOWN_MESSAGES)..] {
                    output::note(&format!("  {}", excerpt::of(message)));
                }
            }
            (None, Some(name)) => {
                output::note(&format!("a new conversation; to continue it later: herma chat --session {name}"));
            }
            (None, None) => output::note("a new conversation; its id comes with the first answer"),
        }
    }

    /// Remembers the session of a sent message, and prints its id if it is new.
    pub(super) fn note_session(&mut self, facts: &Arc<ConversationFacts>) {
        if self.alias.is_none() {
            let id = &facts.head.id;
            self.alias = Alias::parse(id.as_str()).ok();
            output::note(&format!("this is {id}; to continue it later: herma chat --session {id}"));
        }
        if self.session_key.is_none() {
            self.session_key.clone_from(&facts.session_key);
        }
    }

    /// Begins a new conversation under the same session key.
    pub(super) fn begin_new(&mut self) {
        *self = Self { alias: None, session_key: self.session_key.take(), old: None };
        self.introduce();
    }
}

/// The conversation with this short id. `None` if the text is no short id or no conversation has it.
async fn by_short_id(sessions: &Sessions<'_>, typed: &Alias) -> Option<Alias> {
    if id_prefix::is_short_id(typed) { id_prefix::complete(sessions, typed).await.ok() } else { None }
}
