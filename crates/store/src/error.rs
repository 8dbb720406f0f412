//! How a store can fail. A wrong request of a caller is a refusal, not an error.

use herma_model::StopKind;

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The lease was lost: another turn holds a newer fence. The caller's turn is over.
    #[error("the conversation's lease was lost to another turn")]
    Fenced,
    /// The turn was asked to stop. It may only be committed without an answer.
    #[error("the turn was asked to stop")]
    StopRequested(StopKind),
    /// The conversation is not at the revision that the caller expects. Nothing was done.
    #[error("the conversation is not at the expected revision")]
    VersionMismatch,
    /// The database cannot read or write now (disk full, locked, missing). A later retry may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The file or database is not a Herma store, or it is damaged. Nothing was changed.
    #[error("{0}")]
    Unusable(String),
    /// The database refused the operation, or cannot say what is on disk. A retry does not help.
    #[error("the store failed: {0}")]
    Failed(String),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}
