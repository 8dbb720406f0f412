//! Which conversation the terminal talks in.

use std::sync::Arc;

use anyhow::bail;
use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationFacts, Principal, SessionKey};
use herma_store::{Extent, Scope, Snapshot, Store};

use crate::sessions::beginning;
use crate::{excerpt, output};

/// How many messages of an old conversation are shown.
const SHOWN: usize = 2;

/// The conversation of the next message.
pub(super) struct Conversation {
    /// What leads to it; nothing before the first message of one that has no name.
    pub(super) alias: Option<Alias>,
    /// The key that new conversations get, too.
    pub(super) session_key: Option<SessionKey>,
    old: Option<Snapshot>,
}

impl Conversation {
    /// Finds what was asked for. A name that a person can choose and that leads nowhere will begin a conversation.
    pub(super) async fn choose(
        store: &dyn Store,
        principal: &Principal,
        asked: Option<Alias>,
        session_key: Option<SessionKey>,
    ) -> anyhow::Result<Self> {
        let Some(alias) = asked else { return Ok(Self { alias: None, session_key, old: None }) };
        let scope = Scope::of(principal);
        let alias = by_short_id(store, &scope, &alias).await.unwrap_or(alias);
        let old = store.open(&scope, &alias, Namespace::Session, Extent::View).await?;
        let Some(snapshot) = &old else {
            if !alias.may_be_created() {
                bail!(
                    "no conversation is known by {alias}; check the id, --data and --store, or leave out --session for a new \
                     conversation"
                );
            }
            return Ok(Self { alias: Some(alias), session_key, old });
        };
        let stored = &snapshot.facts.session_key;
        if let (Some(stored), Some(asked)) = (stored, &session_key)
            && stored != asked
        {
            bail!("{alias} belongs to the session key {stored}, not {asked}; leave out --session-key to go on with it");
        }
        let session_key = stored.clone().or(session_key);
        Ok(Self { alias: Some(alias), session_key, old })
    }

    /// Says at the start which conversation this is, and how it went on last.
    pub(super) fn introduce(&self) {
        match (&self.old, &self.alias) {
            (Some(old), _) => {
                let id = &old.facts.head.id;
                output::note(&format!("continuing {id}; to continue it later: herma chat --session {id}"));
                let messages = &old.messages;
                for message in &messages[messages.len().saturating_sub(SHOWN)..] {
                    output::note(&format!("  {}", excerpt::of(message)));
                }
            }
            (None, Some(name)) => {
                output::note(&format!("a new conversation; to continue it later: herma chat --session {name}"));
            }
            (None, None) => output::note("a new conversation; its id comes with the first answer"),
        }
    }

    /// Takes note of where a message went, and tells it if that is news.
    pub(super) fn went_to(&mut self, facts: &Arc<ConversationFacts>) {
        if self.alias.is_none() {
            let id = &facts.head.id;
            self.alias = Alias::parse(id.as_str()).ok();
            output::note(&format!("this is {id}; to continue it later: herma chat --session {id}"));
        }
        if self.session_key.is_none() {
            self.session_key.clone_from(&facts.session_key);
        }
    }

    /// Begins afresh under the same key.
    pub(super) fn renew(&mut self) {
        *self = Self { alias: None, session_key: self.session_key.take(), old: None };
        self.introduce();
    }
}

/// The conversation whose short id this is. Any other word is a name, also a new one.
async fn by_short_id(store: &dyn Store, scope: &Scope, typed: &Alias) -> Option<Alias> {
    if beginning::is_short_id(typed) { beginning::complete(store, scope, typed).await.ok() } else { None }
}
