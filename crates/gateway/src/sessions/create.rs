//! Makes a conversation without messages.

use std::sync::Arc;

use herma_model::{Alias, SessionKey, SessionKind};
use herma_store::{ConversationRow, CreateOutcome, Creation, NewConversation};

use super::{Origin, Sessions};
use crate::error::{Conflict, GatewayError, InvalidRequest, KeyProblem};
use crate::mint;

/// A conversation that a caller makes.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The front door that asks for it.
    pub origin: Origin,
    /// The name that the caller chose for it.
    pub alias: Option<Alias>,
    /// Its kind.
    pub kind: SessionKind,
    /// The session it comes from.
    pub parent: Option<Alias>,
    /// Its session key.
    pub session_key: Option<SessionKey>,
    /// Its title.
    pub title: Option<String>,
    /// The client's metadata, a JSON object.
    pub metadata: Option<Arc<str>>,
    /// The directory that the person works in.
    pub cwd: Option<Arc<str>>,
}

impl NewSession {
    /// A person's own conversation, under a session key if there is one.
    pub const fn main(origin: Origin, session_key: Option<SessionKey>) -> Self {
        Self {
            origin,
            alias: None,
            kind: SessionKind::Main,
            parent: None,
            session_key,
            title: None,
            metadata: None,
            cwd: None,
        }
    }
}

impl Sessions<'_> {
    /// Makes a conversation without messages. A branch begins with the messages of its parent. Durable when it returns.
    pub async fn create(&self, new: NewSession) -> Result<ConversationRow, GatewayError> {
        let NewSession { origin, alias, kind, parent, session_key, title, metadata, cwd } = new;
        if session_key.as_ref().is_some_and(|key| !self.scope.keys.allows(key)) {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        // A conversation that does not exist yet has no revision.
        if self.scope.expected.is_some() {
            return Err(GatewayError::Conflict(Conflict::VersionMismatch));
        }
        let creation = Creation { parent, ..self.creation(kind, origin) };
        let (scope, now) = (self.scope.clone(), mint::now());
        let new = NewConversation { scope, alias, creation, session_key, title, metadata, cwd, now };
        Err(match self.store.create(new).await? {
            CreateOutcome::Made(row) => return Ok(*row),
            CreateOutcome::Exists => GatewayError::Conflict(Conflict::Exists),
            CreateOutcome::Reserved => GatewayError::Invalid(InvalidRequest::ReservedId),
            CreateOutcome::NoParent => GatewayError::Invalid(InvalidRequest::NoParent),
            CreateOutcome::Undeclarable(why) => GatewayError::Invalid(InvalidRequest::Undeclarable(why)),
            CreateOutcome::SessionKeyConflict => GatewayError::SessionKey(KeyProblem::Conflict),
        })
    }
}
