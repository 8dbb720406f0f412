//! The Store port: what the gateway needs of a database, and nothing about any one of them.
//!
//! Whoever implements [`Store`] promises:
//!
//! - **Tenancy.** For a [`Scope`], rows of other tenants and conversations whose session key it may not use do not exist.
//! - **One head, one running turn.** [`Store::admit`] gives a conversation's lease to one turn at a time, with a
//!   [`herma_model::Fence`] above every earlier one. A write under an older fence changes nothing.
//! - **Whole or not at all.** Each operation is one transaction. A refusal leaves nothing behind.
//! - **History is what the lease saw.** A caller says which version it has read; if that is not the version at the
//!   moment the lease is taken, the answer is [`AdmitOutcome::Stale`] and nothing has happened.
//! - **A compaction is one step.** The summary, the end of the old session, the new one with its names, the head and the ledger's row are
//!   written together, on the base that the caller planned with, by the turn that holds the lease or while none is running.
//! - **A branch copies nothing.** It refers to what it inherits: every reading of it begins with what was said in its source up to the
//!   turn it comes from, and nothing that happens in either is noticed by the other.
//! - **What a session is, it stays.** Kind, origin kind, creator, reason and typed parent are written when it is made and changed by
//!   nothing. A parent that is deleted stays readable by name, and a session that takes that name later is never taken for it.
//! - **What is deleted is gone.** No name, turn or key leads to it. What branches inherit of it goes with the last of them.
//! - **A place is given once.** Where a message was taken out of what was said, a gap stays; what is inherited is never taken out.
//! - **What is brought in twice is there once.** It is known by where it comes from. It overwrites no later change here.
//! - **What changes is told.** Whatever changes what a conversation is tells so in its own transaction; [`Store::events`] has it once, in order.
//! - **What was taken out comes back the same.** A restored conversation has its ids, names, kinds, places and ledger, and shows what it showed.
//! - **Nothing said is missed.** [`Store::search`] finds a message from the moment it is written, and never one that was deleted.
//! - **Dead owners are found at once.** The next admission takes their lease over and records the turn as interrupted.
//! - **No change is missed.** A caller that subscribes to a [`Notice`] and then reads is told of every later change.

pub mod admission;
pub mod commit;
pub mod compaction;
#[cfg(feature = "contract-suite")]
pub mod contract;
pub mod conversations;
pub mod copy;
mod error;
pub mod events;
pub mod import;
pub mod keys;
pub mod lineage;
pub mod list;
pub mod listing;
mod notices;
mod receipt;
pub mod rewrite;
pub mod search;
pub mod snapshot;
mod store;
pub mod turns;

pub use admission::{
    Admission, AdmitOutcome, ClientConnection, Creation, Durability, Intent, NewResponse, Refusal, RetryIdentity,
    Running, Seen, Target, Ticket, TurnPolicy,
};
pub use commit::{Append, Commit, Committed, Lease, StreamedOutput, TurnOutcome};
pub use compaction::{
    Authority, CompactOutcome, Compacted, FailedCompaction, LedgerPage, NewCompaction, PinOutcome, Undo, UndoOutcome,
    UndoRefusal,
};
pub use conversations::{
    BranchOutcome, BranchPoint, Change, Children, CreateOutcome, DeleteOutcome, EndOutcome, MadeTitle, NewBranch,
    NewConversation, Rewind, RewindOutcome, RewindPoint,
};
pub use copy::{Copying, Restoration, RestoreIntent, RestoreOutcome};
pub use error::StoreError;
pub use events::{Event, EventPage, EventsFrom, KEPT_EVENTS};
pub use import::{
    Arrival, Fate, Import, ImportOutcome, ImportedCompaction, ImportedConversation, ImportedEntry, ImportedMessage,
    ImportedSession, Leaving,
};
pub use keys::{ApiKeyRow, KeyHash, NewApiKey};
pub use lineage::{
    LineageCursor, LineageEdge, LineageNode, LineageOutcome, LineagePage, LineagePlace, LineageRange, LineageSide,
};
pub use list::{Archived, Cursor, InvalidCursor, ListFilter, ListOrder, ListView, Page};
pub use listing::{ConversationRow, Entry, MessagePage, MessageRange, Order, Pin};
pub use notices::{Notice, Subscription};
pub use receipt::{Receipt, ReceiptSender, receipt};
pub use rewrite::{Rewrite, RewriteOutcome};
pub use search::{Grouping, Hit, HitMessage, Search, SearchCursor, SearchFilter, SearchPage};
pub use snapshot::{Counted, ExpectedRevision, Extent, Revision, Scope, Snapshot, Version};
pub use store::Store;
pub use turns::{Expired, StatelessOutcome, StatelessTurn, StopOutcome, StreamedPart, StreamedThrough, TurnRecord};
