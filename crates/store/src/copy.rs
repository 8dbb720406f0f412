//! Copying a conversation out of a store, and restoring it in another store, or in the same one after it was deleted.
//! The restored conversation has the same ids, names, kinds and places.

use herma_model::copy::{Copied, CopiedConversation, CopiedSource, Piece};
use herma_model::{ConversationId, TenantId, Timestamp};
use tokio::sync::mpsc;

use crate::error::StoreError;

/// A conversation that is being copied out, all at one version.
#[derive(Debug)]
pub struct Copying {
    /// Whether branches inherit from it.
    pub is_inherited: bool,
    /// Its pieces. For a branch, the inherited pieces come first. An error is the last item. Few pieces are buffered:
    /// the store reads on only when they are taken.
    pub pieces: mpsc::Receiver<Result<Piece, StoreError>>,
}

/// A request to restore a conversation.
#[derive(Debug, Clone)]
pub struct Restoration {
    /// The tenant that will own it.
    pub tenant: TenantId,
    /// What it inherits, from the first source to the last. Sources that are missing here must be in the store.
    pub inherited: Vec<Copied<CopiedSource>>,
    /// The conversation.
    pub conversation: Copied<CopiedConversation>,
    /// Whether to restore it or only to check.
    pub intent: RestoreIntent,
    /// The clock.
    pub now: Timestamp,
}

/// Whether to restore a conversation or only to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreIntent {
    /// Restore it if possible.
    Restore,
    /// Only find out what the outcome would be.
    Rehearse,
}

/// The outcome of a restoration. Only `Made` changed anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// It was restored.
    Made,
    /// It exists and is the same.
    AlreadyHere,
    /// It exists and is different: it was changed here, or where it was copied, since. The store keeps its own.
    Differs,
    /// Another conversation here has this id or name.
    Taken(String),
    /// It is a branch. The part that it inherits from this conversation is neither in the copy nor in the store.
    NoSource(ConversationId),
    /// It is a branch. The part that it inherits from this conversation is different in the store.
    OtherSource(ConversationId),
    /// Its pieces do not fit together.
    Broken(String),
}
