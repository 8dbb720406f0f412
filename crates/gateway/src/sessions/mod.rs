//! Conversations without a turn: what a caller can read of them, and change.
//!
//! - [`read`]: rows, messages, what the model is shown, where they come from, what happened to them.
//! - [`create`], [`branch`]: make conversations.
//! - [`change`]: a title, metadata, archived or not; ended and opened again.
//! - [`erase`]: deletes a conversation, or all of a session key.
//! - [`messages`]: pins or removes single messages.
//! - [`rewind`]: goes back to an earlier message, and undoes that.
//! - [`naming`]: which conversation a request names.
//! - [`turns`]: turns that were asked for before, by their id.
//!
//! Every operation is for one principal. A conversation that it may not see does not exist for it. Front doors have no
//! other way to change a conversation: they do not get the store.

mod branch;
mod change;
mod create;
mod erase;
mod messages;
mod naming;
mod read;
mod rewind;
mod turns;

use std::sync::Arc;

use herma_model::{ApiKeyId, CreatorKind, Principal, SessionKind};
use herma_store::{Creation, ExpectedRevision, Scope, Store};

use crate::compaction::Preparations;
use crate::mint;

pub use branch::NewFork;
pub use create::NewSession;
pub use naming::Names;

/// The front door that a request came through, as it is stored with what the request creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Who creates a conversation that is made for it.
    pub creator: CreatorKind,
    /// The front door's name.
    pub source: &'static str,
}

/// The conversations that a principal can see.
pub struct Sessions<'a> {
    store: &'a dyn Store,
    scope: Scope,
    /// The API key that owns what is made.
    owner: Option<ApiKeyId>,
    /// The summaries that this process prepares. `None` in a process that runs no turns.
    preparations: Option<&'a Preparations>,
}

impl<'a> Sessions<'a> {
    /// The conversations of a store that a principal can see, for a process without a gateway.
    pub fn of(store: &'a dyn Store, principal: &Principal) -> Self {
        Self { store, scope: Scope::of(principal), owner: principal.key, preparations: None }
    }

    /// The same, for a process that prepares summaries.
    pub(crate) const fn preparing(mut self, preparations: &'a Preparations) -> Self {
        self.preparations = Some(preparations);
        self
    }

    /// The same, for a request that expects a revision of the conversation. At any other revision it fails with
    /// [`Conflict::VersionMismatch`](crate::Conflict::VersionMismatch) and changes nothing.
    #[must_use]
    pub fn expecting(self, expected: Option<ExpectedRevision>) -> Self {
        Self { scope: self.scope.expecting(expected), ..self }
    }

    /// What the store needs to make a conversation.
    fn creation(&self, kind: SessionKind, origin: Origin) -> Creation {
        Creation {
            conversation: mint::conversation(),
            session: mint::session(),
            kind,
            creator: origin.creator,
            source: Arc::from(origin.source),
            owner: self.owner,
            reason: None,
            parent: None,
            parent_tool_call: None,
            chat: None,
        }
    }
}
