//! The Store port: the operations that the gateway needs from a database, and their contract suite. It knows no
//! particular database. [`Store`] lists what every implementation guarantees.

pub mod admission;
pub mod approvals;
pub mod commit;
pub mod compaction;
#[cfg(feature = "contract-suite")]
pub mod contract;
pub mod conversations;
pub mod copy;
pub mod erasure;
mod error;
pub mod events;
pub mod history;
pub mod import;
pub mod keys;
pub mod lineage;
pub mod list;
pub mod listing;
pub mod memories;
mod notices;
pub mod outbox;
pub mod readings;
mod receipt;
pub mod rewrite;
pub mod search;
pub mod snapshot;
mod store;
pub mod turns;
pub mod usage;

pub use admission::{
    Admission, AdmitOutcome, ClientConnection, Creation, Durability, Intent, NewResponse, Refusal, RetryIdentity,
    Running, Seen, Target, Ticket, TurnPolicy,
};
pub use approvals::{AnswerOutcome, AskedCall, Grant, Park, PendingApproval, Question, Resumed};
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
pub use erasure::{AskedBy, EraseOutcome, Erasure, ErasureReceipt, Facts, Removed, TenantName};
pub use error::StoreError;
pub use events::{Event, EventPage, EventsFrom, KEPT_EVENTS};
pub use history::{ExpectedHistory, FoundHistory, HistoryEnds, HistoryScope, MOST_RESEMBLING, Resembling};
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
pub use memories::{MemoryFilter, MemoryPage, MemoryQuery, MemoryVersion, NewMemory, Passage, Remembered, Shown};
pub use notices::{Notice, Subscription};
pub use outbox::{
    Backlog, Delivery, DeliveryClaim, DeliveryOutcome, DeliveryTask, ErasedNotDelivered, RecordedMessage, RecordedTurn,
};
pub use readings::{Reading, ReadingClaim, ReadingEnd};
pub use receipt::{Receipt, ReceiptSender, receipt};
pub use rewrite::{Rewrite, RewriteOutcome};
pub use search::{Grouping, Hit, HitMessage, Search, SearchCursor, SearchFilter, SearchPage};
pub use snapshot::{Counted, ExpectedRevision, Extent, Revision, Scope, Snapshot, Version};
pub use store::Store;
pub use turns::{Expired, StatelessOutcome, StatelessTurn, StopOutcome, StreamedPart, StreamedThrough, TurnRecord};
pub use usage::{MOST_DESCENDANTS, Spent};
