//! Conversations as things of their own: made, described and deleted without a turn.

use std::sync::Arc;

use herma_model::{Alias, ConversationId, SessionKey, Timestamp, TurnId};

use crate::admission::Creation;
use crate::listing::ConversationRow;
use crate::snapshot::Scope;

/// A conversation in which nothing was said yet.
#[derive(Debug, Clone)]
pub struct NewConversation {
    /// Whose it is.
    pub scope: Scope,
    /// The name the client chose, which becomes the first session's id.
    pub alias: Option<Alias>,
    /// What to make.
    pub creation: Creation,
    /// Its session key.
    pub session_key: Option<SessionKey>,
    /// What the client attaches, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
    /// The clock.
    pub now: Timestamp,
}

/// What came of making a conversation. Only `Made` changed anything.
#[derive(Debug, Clone)]
pub enum CreateOutcome {
    /// It is there.
    Made(Box<ConversationRow>),
    /// The name leads somewhere already, perhaps where the caller cannot go.
    Exists,
    /// The name is of a form that only Herma gives.
    Reserved,
}

/// What is to be different about a conversation. What is absent stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// What the client attaches from now on, as a JSON object. Opaque.
    pub metadata: Option<Arc<str>>,
}

/// What came of deleting a conversation. Only `Deleted` changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone.
    Deleted(ConversationId),
    /// This turn runs or waits in it.
    Busy(TurnId),
    /// The name leads nowhere the caller can go.
    NotFound,
}
