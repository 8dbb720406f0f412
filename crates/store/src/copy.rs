//! Taking a conversation out of a store, and having it again in another one, or in the same one after it was deleted: the same ids, names,
//! kinds and places, not a new conversation that says the same.

use herma_model::copy::{Copied, CopiedConversation, CopiedSource, Piece};
use herma_model::{ConversationId, TenantId, Timestamp};
use tokio::sync::mpsc;

use crate::error::StoreError;

/// A conversation that is being taken out, all at one version.
#[derive(Debug)]
pub struct Copying {
    /// Whether branches inherit from it.
    pub is_inherited: bool,
    /// Its pieces, of a branch those of what it inherits first. After an error there is no more. Few are ever held, and nothing is read on until they
    /// are taken.
    pub pieces: mpsc::Receiver<Result<Piece, StoreError>>,
}

/// A conversation that is to be there again.
#[derive(Debug, Clone)]
pub struct Restoration {
    /// Whose it becomes.
    pub tenant: TenantId,
    /// What it inherits, from the first source to the last; what is not among it must be in the store.
    pub inherited: Vec<Copied<CopiedSource>>,
    /// The conversation.
    pub conversation: Copied<CopiedConversation>,
    /// Whether it is meant.
    pub intent: RestoreIntent,
    /// The clock.
    pub now: Timestamp,
}

/// Whether a restoration is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreIntent {
    /// It is done if it can be.
    Restore,
    /// It is only found out what would come of it.
    Rehearse,
}

/// What came of having a conversation again. Only `Made` changed anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// It is there again.
    Made,
    /// It was there, just so.
    AlreadyHere,
    /// It was there and is not the same: something has happened to it here or there since. It stays as it is here.
    Differs,
    /// This id or name is another conversation's here.
    Taken(String),
    /// It is a branch, and what it inherits of this conversation neither came with it nor is here.
    NoSource(ConversationId),
    /// It is a branch, and what it inherits of this conversation is not the same here.
    OtherSource(ConversationId),
    /// Its pieces do not fit together.
    Broken(String),
}
