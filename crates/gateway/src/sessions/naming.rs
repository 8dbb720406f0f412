//! Which conversation a request names. It may use several names.

use std::time::Duration;

use herma_model::alias::Namespace;
use herma_model::{Alias, ChatId, ConversationId, ResponseId, SessionKey, SessionKind};
use herma_store::{HistoryScope, Pin, Resembling};

use super::Sessions;
use crate::admission::own_alias;
use crate::error::{Field, GatewayError, InvalidRequest};
use crate::request::{ConversationRef, Destination};

/// How often, and how many times, a helper looks for the conversation of its chat.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const MOST_LOOKS: usize = 20;

/// A name, and the field that has it.
#[derive(Debug, Clone)]
struct Named {
    alias: Alias,
    field: Field,
}

impl Named {
    /// Whether an unknown name is refused rather than made.
    fn must_exist(&self) -> bool {
        matches!(self.field, Field::KnownSession | Field::PreviousResponse)
    }
}

/// The names that a request gives its conversation.
#[derive(Debug, Clone, Default)]
pub struct Names {
    names: Vec<Named>,
    previous: Option<ResponseId>,
    /// A response id of another program. It is a name of the conversation that was imported from there.
    imported: Option<Alias>,
    /// The session key whose current conversation is meant.
    current: Option<SessionKey>,
}

impl Names {
    /// Whether the request names no conversation.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.previous.is_none() && self.imported.is_none() && self.current.is_none()
    }

    /// Adds a name. The first name is used; the others must agree. A [`Field::KnownSession`] must exist.
    pub fn add(&mut self, field: Field, alias: Alias) {
        self.names.push(Named { alias, field });
    }

    /// Names the conversation of a session key that was used last.
    pub fn add_current(&mut self, session_key: SessionKey) {
        self.current = Some(session_key);
    }

    /// Sets the response to continue, by its id. Fails if the id does not have the form of one.
    pub fn go_on_from(&mut self, response: &str) -> Result<(), GatewayError> {
        self.previous = response.parse().ok();
        if self.previous.is_none() {
            let alias = Alias::parse(response).ok().filter(|alias| alias.as_str().starts_with(ResponseId::PREFIX));
            self.imported = Some(alias.ok_or(GatewayError::previous_not_found())?);
        }
        Ok(())
    }
}

impl Sessions<'_> {
    /// Where the names of a request lead. Several must lead to the same conversation. Cancel-safe.
    pub async fn resolve(&self, mut names: Names) -> Result<ConversationRef, GatewayError> {
        if let Some(alias) = names.imported.take() {
            if self.store.conversation(&self.scope, &alias, Pin::Head).await?.is_none() {
                return Err(GatewayError::previous_not_found());
            }
            names.add(Field::PreviousResponse, alias);
        }
        if let Some(session_key) = names.current.take() {
            if names.is_empty() {
                return Ok(ConversationRef::current(&session_key));
            }
            let current = self.current(&session_key).await?;
            let current = current.ok_or(GatewayError::Invalid(InvalidRequest::NamesDisagree(Field::Conversation)))?;
            names.add(Field::Conversation, own_alias(&current.to_string())?);
        }
        if names.names.len() + usize::from(names.previous.is_some()) > 1 {
            self.check_agreement(&names).await?;
        }
        Ok(match (names.previous, names.names.into_iter().next()) {
            (Some(previous), _) => ConversationRef::After(previous),
            (None, None) => ConversationRef::New,
            (None, Some(named)) => {
                let must_exist = named.must_exist();
                ConversationRef::Named { alias: named.alias, namespace: Namespace::Session, must_exist }
            }
        })
    }

    /// The conversation of a session key that a person used last and that has not ended. Cancel-safe.
    pub async fn current(&self, session_key: &SessionKey) -> Result<Option<ConversationId>, GatewayError> {
        Ok(self.store.current(&self.scope, session_key).await?)
    }

    /// Where a request of this kind goes. A helper's request does not change the conversation that it names, or that
    /// came under its chat: it gets a conversation of its own, with that one as its parent. Cancel-safe.
    pub async fn destination(
        &self,
        place: ConversationRef,
        kind: SessionKind,
        chat: Option<ChatId>,
        session_key: Option<&SessionKey>,
    ) -> Result<Destination, GatewayError> {
        if kind == SessionKind::Main || place == ConversationRef::Stateless {
            return Ok(Destination { kind, chat, ..Destination::from(place) });
        }
        if place == ConversationRef::ByHistory {
            let Some(chat) = chat else { return Ok(Destination { kind, ..Destination::from(place) }) };
            let parent = self.chat_of_helper(chat, session_key).await?;
            return Ok(Destination { kind, parent, ..Destination::from(ConversationRef::New) });
        }
        let mut parent = match (place.is_current(), session_key) {
            (true, Some(session_key)) => {
                let current = self.current(session_key).await?;
                current.map(|current| own_alias(&current.to_string())).transpose()?
            }
            _ => place.name().and_then(|name| Alias::parse(&name).ok()),
        };
        if let Some(name) = &parent
            && self.store.conversation(&self.scope, name, Pin::Head).await?.is_none()
        {
            parent = None;
        }
        Ok(Destination { kind, parent, ..Destination::from(ConversationRef::New) })
    }

    /// The conversation that was last used under a helper's chat. Front ends ask for a title at the same time as the
    /// first question, and the request for the title may be faster. So a chat that has no conversation yet is waited
    /// for.
    async fn chat_of_helper(
        &self,
        chat: ChatId,
        session_key: Option<&SessionKey>,
    ) -> Result<Option<Alias>, GatewayError> {
        for _ in 0..MOST_LOOKS {
            if let Some(found) = self.last_of_chat(chat, session_key).await? {
                return Ok(Some(found));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(None)
    }

    /// The conversation that was last used under a chat.
    async fn last_of_chat(
        &self,
        chat: ChatId,
        session_key: Option<&SessionKey>,
    ) -> Result<Option<Alias>, GatewayError> {
        let kind = SessionKind::Main;
        let within = HistoryScope { session_key: session_key.cloned(), chat: Some(chat), kind };
        let found = self.store.find_resembling(&self.scope, within, Resembling::Chat).await?;
        found.first().map(|conversation| own_alias(&conversation.to_string())).transpose()
    }

    async fn check_agreement(&self, names: &Names) -> Result<(), GatewayError> {
        let disagree = |field| GatewayError::Invalid(InvalidRequest::NamesDisagree(field));
        let mut target: Option<NameTarget<'_>> = None;
        for named in &names.names {
            let found = self.store.conversation(&self.scope, &named.alias, Pin::Head).await?;
            if found.is_none() && named.must_exist() {
                return Err(GatewayError::unknown());
            }
            let found = found.map_or(NameTarget::Unknown(&named.alias), |row| NameTarget::Conversation(row.facts.id));
            if target.is_some_and(|target| target != found) {
                return Err(disagree(named.field));
            }
            target = Some(found);
        }
        if let (Some(previous), Some(target)) = (names.previous, target) {
            let turn = self.store.turn(&self.scope, previous.turn()).await?;
            if turn.is_some_and(|turn| target != NameTarget::Conversation(turn.facts.id)) {
                return Err(disagree(Field::PreviousResponse));
            }
        }
        Ok(())
    }
}

/// Where a name leads. Two different unknown names would make two conversations, so they disagree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameTarget<'a> {
    Conversation(ConversationId),
    Unknown(&'a Alias),
}
