//! The suite that every engine must pass: one function for each behaviour. It uses only the port.
//!
//! An engine's tests implement [`Engine`] and call [`crate::contract_suite!`]. The macro makes a test of every
//! behaviour, each on its own database. After each test the invariants of the whole [`World`] are checked.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a failed check is a panic that names its line"
)]
#![expect(missing_docs, reason = "the name of a behaviour says what it is")]

use std::sync::Arc;

use crate::Store;

pub mod appending;
pub mod approving;
pub mod beginning_anew;
pub mod branching;
pub mod branching_apart;
pub mod branching_busy;
pub mod branching_idle;
pub mod committing;
pub mod compacting;
pub mod creating;
pub mod current;
pub mod declaring;
pub mod delegating;
pub mod deleting;
pub mod deleting_families;
pub mod deleting_sources;
pub mod describing;
pub mod ending;
pub mod erasing;
pub mod events;
pub mod events_feed;
pub mod filtering;
pub mod finding;
pub mod fixture;
pub mod histories;
pub mod idempotency;
pub mod importing;
pub mod interrupting;
mod invariants;
pub mod isolation;
pub mod keys;
pub mod leased;
pub mod ledger;
pub mod lineage;
pub mod listing;
pub mod memories;
pub mod notices;
pub mod openings;
pub mod outbox;
pub mod overtaking;
pub mod owners;
pub mod parking;
pub mod pinning;
pub mod queueing;
pub mod quoting;
pub mod readings;
pub mod responses;
pub mod restoring;
pub mod restoring_branches;
pub mod retracting;
pub mod retrying;
pub mod revisions;
pub mod rewinding;
pub mod rewriting;
pub mod rewriting_turns;
pub mod sdk_retries;
pub mod searching;
pub mod searching_pages;
pub mod session_keys;
pub mod spending;
pub mod stopping;
mod suite;
pub mod summaries;
pub mod titles;
pub mod undoing;
pub mod visible_turns;
pub mod visible_turns_again;

pub use fixture::World;

/// A database that can be opened more than once.
pub trait Engine: Send + Sync {
    /// The store that it opens.
    type Store: Store;

    /// Opens another instance on the same database, as another process would.
    fn open(&self) -> impl Future<Output = Arc<Self::Store>> + Send;
}
