//! The port itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herma_model::alias::Namespace;
use herma_model::{
    Alias, ApiKeyId, Compaction, CompactionId, ConversationId, EndReason, Message, MessageId, Principal, StopKind,
    TenantId, Timestamp, TurnFailure, TurnId,
};
use tokio::sync::watch;

use crate::admission::{Admission, AdmitOutcome};
use crate::commit::{Append, Commit, Committed, Lease, StreamedOutput};
use crate::compaction::{CompactOutcome, FailedCompaction, LedgerPage, NewCompaction, PinOutcome, Undo, UndoOutcome};
use crate::conversations::{
    BranchOutcome, Change, Children, CreateOutcome, DeleteOutcome, EndOutcome, MadeTitle, NewBranch, NewConversation,
    Rewind, RewindOutcome,
};
use crate::copy::{Copying, Restoration, RestoreOutcome};
use crate::error::StoreError;
use crate::events::{EventPage, EventsFrom};
use crate::import::{Import, ImportOutcome};
use crate::keys::{ApiKeyRow, KeyHash, NewApiKey};
use crate::lineage::{LineageOutcome, LineageRange};
use crate::list::{ListFilter, Page};
use crate::listing::{ConversationRow, MessagePage, MessageRange, Pin};
use crate::notices::{Notice, Subscription};
use crate::receipt::Receipt;
use crate::rewrite::{Rewrite, RewriteOutcome};
use crate::search::{Search, SearchPage};
use crate::snapshot::{Extent, Scope, Snapshot};
use crate::turns::{Expired, StatelessTurn, StopOutcome, StreamedPart, StreamedThrough, TurnRecord};

/// A database that keeps conversations. See the crate's documentation for what it promises.
///
/// Operations that write are not cancelled by dropping their future: once asked for, they happen or fail as a whole.
/// Reads are cancel-safe.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The tenant of this name, made if it is new.
    async fn ensure_tenant(&self, name: &str, now: Timestamp) -> Result<TenantId, StoreError>;

    /// Stores a key.
    async fn create_key(&self, key: NewApiKey) -> Result<(), StoreError>;

    /// All keys of all tenants, oldest first; for the operator's terminal.
    async fn keys(&self) -> Result<Vec<ApiKeyRow>, StoreError>;

    /// Revokes a key; `false` if there is none that is still valid.
    async fn revoke_key(&self, id: ApiKeyId, now: Timestamp) -> Result<bool, StoreError>;

    /// Whom a valid key stands for. The one look-up without a tenant: it is what yields one.
    async fn principal_of(&self, hash: KeyHash) -> Result<Option<Principal>, StoreError>;

    /// Reads the conversation that a name leads to, all at one version. `None` if it leads nowhere, if the compaction that
    /// [`Extent::Without`] names is not the one the head stands on, or if the turn that [`Extent::At`] names is no completed one of it.
    async fn open(
        &self,
        scope: &Scope,
        alias: &Alias,
        namespace: Namespace,
        extent: Extent,
    ) -> Result<Option<Snapshot>, StoreError>;

    /// Asks for the lease of a conversation. Answers when every process can see the decision; the [`crate::Receipt`] says when it is also
    /// on disk.
    async fn admit(&self, admission: Admission) -> Result<AdmitOutcome, StoreError>;

    /// Writes steps of a turn that goes on. Durable when it returns, so that what has effects outside can follow.
    ///
    /// It tries again like [`Store::commit`], and has the same errors: a turn that was asked to stop appends nothing.
    async fn append(&self, append: Append) -> Result<Committed, StoreError>;

    /// Ends a turn. Durable when it returns.
    ///
    /// While the database is locked or away this tries again. So it ends only when the commit is written, the lease is
    /// lost, trying again cannot help, or the store is closed. [`Store::retract`] does the same.
    ///
    /// [`StoreError::Fenced`] if the lease was lost, [`StoreError::StopRequested`] if the turn was asked to stop and wants to
    /// complete all the same.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;

    /// Gives up a turn whose end could not be written: it is recorded as interrupted soon, at the latest by whoever comes next.
    fn abandon(&self, lease: Lease);

    /// Takes back a turn that was refused after its admission, with all it wrote and the conversation if it made one.
    async fn retract(&self, lease: Lease) -> Result<(), StoreError>;

    /// Gives up a place in the queue. A turn whose id was promised ends for the given reason, any other is forgotten. Nothing happens
    /// if the turn does not wait.
    async fn withdraw(&self, scope: &Scope, turn: TurnId, why: TurnFailure, now: Timestamp) -> Result<(), StoreError>;

    /// Calls a turn off, whoever runs it. One that waits ends here; one that runs is asked to end, and ended if it was asked longer
    /// than `grace` ago.
    async fn stop(
        &self,
        scope: &Scope,
        turn: TurnId,
        grace: Duration,
        now: Timestamp,
    ) -> Result<StopOutcome, StoreError>;

    /// Adds what was shown to the journal of a running turn, so that a crash keeps it. Written soon, not waited for.
    /// The receipt says when it is committed, or [`StoreError::Fenced`] if the lease was lost. While the database is
    /// locked it stays open.
    fn journal(&self, lease: Lease, shown: StreamedOutput) -> Receipt;

    /// Whether no other process can have taken the lease over since it was given or confirmed. Compares clocks and
    /// reads nothing.
    fn is_fresh(&self, lease: &Lease) -> bool;

    /// Asks the database whether the turn still holds its lease: [`StoreError::Fenced`] if not. The lease that comes
    /// back is fresh if this process has renewed its leases lately. Cancel-safe.
    async fn confirm(&self, lease: Lease) -> Result<Lease, StoreError>;

    /// Notes that a turn's answer was written to its end. Written soon, not waited for.
    fn mark_delivered(&self, tenant: TenantId, turn: TurnId);

    /// Notes how a turn of no conversation ended. Written soon, not waited for.
    fn note_stateless(&self, turn: StatelessTurn);

    /// One turn and its outcome. `None` if there is none for this scope.
    async fn turn(&self, scope: &Scope, id: TurnId) -> Result<Option<TurnRecord>, StoreError>;

    /// What a running turn has shown since a place in its journal. `None` if it has appended since,
    /// does not run in that attempt, or does not exist for this scope: then [`Store::turn`] says how it stands.
    async fn streamed_since(
        &self,
        scope: &Scope,
        turn: TurnId,
        since: StreamedThrough,
    ) -> Result<Option<StreamedPart>, StoreError>;

    /// Has a turn no longer be fetched as a response; `false` if it could not be anyway. What was said stays.
    async fn forget_response(&self, scope: &Scope, turn: TurnId) -> Result<bool, StoreError>;

    /// Has responses no longer be fetched that ended before a moment, of whatever tenant, some at a time. What was said stays.
    async fn expire_responses(&self, before: Timestamp) -> Result<Expired, StoreError>;

    /// Which of this process' turns somebody asked to stop, and how; also those that somebody else has ended.
    async fn stop_requests(&self) -> Result<Vec<(TurnId, StopKind)>, StoreError>;

    /// Subscribes to one notice. It comes within a moment of the change, whichever process made it. What is only
    /// watched here costs other processes nothing, and a store without subscriptions watches nothing.
    fn subscribe(&self, notice: Notice) -> Subscription;

    /// Makes a conversation without a turn. Durable when it returns.
    async fn create(&self, conversation: NewConversation) -> Result<CreateOutcome, StoreError>;

    /// Makes a branch without a turn: at the end of what was said in the conversation a name leads to, or at any message of it, whatever
    /// session that lies in. Taken before a compaction it has what was said there, taken after it the summary. The source, busy or ended
    /// or not, never notices. Durable when it returns.
    async fn branch(&self, branch: NewBranch) -> Result<BranchOutcome, StoreError>;

    /// Changes what a client says about the conversation a name leads to. `None` if it leads nowhere. Its version stays: what was read of
    /// it is what it still says. Durable when it returns.
    async fn update(
        &self,
        scope: &Scope,
        alias: &Alias,
        change: Change,
        now: Timestamp,
    ) -> Result<Option<ConversationRow>, StoreError>;

    /// Gives a conversation a title that was made for it, if it still has none and nobody has taken it away; `false` if not, and nothing has
    /// changed. Its version stays. Durable when it returns.
    async fn make_title(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        title: MadeTitle,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Ends the conversation a name leads to: it takes no turns until it is opened again. Durable when it returns.
    async fn end(
        &self,
        scope: &Scope,
        alias: &Alias,
        reason: EndReason,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError>;

    /// Opens an ended conversation again. Durable when it returns.
    async fn reopen(&self, scope: &Scope, alias: &Alias, now: Timestamp) -> Result<EndOutcome, StoreError>;

    /// Deletes the conversation a name leads to, with all its names, turns and responses: those that a client chose are free again, the others
    /// lead nowhere. What branches inherit of it stays as it is, for them alone, unless they are to go as well. Durable when it returns.
    async fn delete(
        &self,
        scope: &Scope,
        alias: &Alias,
        children: Children,
        now: Timestamp,
    ) -> Result<DeleteOutcome, StoreError>;

    /// The conversation a name leads to, described at its head or at the very session that has this name.
    async fn conversation(&self, scope: &Scope, alias: &Alias, pin: Pin)
    -> Result<Option<ConversationRow>, StoreError>;

    /// A page of conversations, or of their sessions. It reads no more than a bounded number of rows, however much a filter leaves out.
    async fn conversations(&self, scope: &Scope, filter: ListFilter) -> Result<Page<ConversationRow>, StoreError>;

    /// Part of the graph around the conversation a name leads to: the sessions it comes from, its own, and what came from them.
    async fn lineage(&self, scope: &Scope, alias: &Alias, range: LineageRange) -> Result<LineageOutcome, StoreError>;

    /// Part of the full view of the conversation a name leads to. `None` if it leads nowhere.
    async fn messages(
        &self,
        scope: &Scope,
        alias: &Alias,
        range: MessageRange,
    ) -> Result<Option<MessagePage>, StoreError>;

    /// One message of that full view; summaries are not found. `None` if the name leads nowhere or nothing of this id was said there.
    async fn message(&self, scope: &Scope, alias: &Alias, id: MessageId) -> Result<Option<Arc<Message>>, StoreError>;

    /// What was said or is a title and has what is wanted, best first. A title that only repeats first words is found where they were said.
    async fn search(&self, scope: &Scope, search: Search) -> Result<SearchPage, StoreError>;

    /// Brings the index of the search up to date with what is stored now. It comes to be so by itself, and nothing is missed until then; after much was
    /// written at once, searching is quicker for it.
    async fn index_all(&self) -> Result<(), StoreError>;

    /// Takes a message out of what was said, or puts what is left of it in its place. Durable when it returns. What a summary says of it
    /// stays, and a summary cannot be rewritten.
    async fn rewrite(&self, rewrite: Rewrite) -> Result<RewriteOutcome, StoreError>;

    /// Ends the model's view of a conversation at an earlier place. The full view keeps everything. Durable when it
    /// returns.
    async fn rewind(&self, rewind: Rewind) -> Result<RewindOutcome, StoreError>;

    /// Gives the model back what was rewound since the last turn. Durable when it returns.
    async fn restore_rewound(&self, scope: &Scope, alias: &Alias, now: Timestamp) -> Result<RewindOutcome, StoreError>;

    /// Puts a summary in place of what is old, and moves the head if that is the mode. Durable when it returns.
    ///
    /// [`StoreError::Fenced`] if it was to happen under a lease that was lost.
    async fn compact(&self, compaction: NewCompaction) -> Result<CompactOutcome, StoreError>;

    /// Gives the model back what the head's last compaction took away. Durable when it returns.
    async fn undo(&self, undo: Undo) -> Result<UndoOutcome, StoreError>;

    /// Notes in the ledger that a compaction came to nothing. Written soon, not waited for.
    fn record_failed(&self, failed: FailedCompaction);

    /// Part of the ledger of the conversation a name leads to, newest first. `None` if it leads nowhere.
    async fn compactions(
        &self,
        scope: &Scope,
        alias: &Alias,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Option<LedgerPage>, StoreError>;

    /// One row of that ledger. `None` if the name leads nowhere or the conversation has no such row.
    async fn compaction(
        &self,
        scope: &Scope,
        alias: &Alias,
        id: CompactionId,
    ) -> Result<Option<Compaction>, StoreError>;

    /// Has every compaction keep a message word for word, or no longer. A tool call and its results go together.
    async fn pin(
        &self,
        scope: &Scope,
        alias: &Alias,
        message: MessageId,
        pinned: bool,
    ) -> Result<PinOutcome, StoreError>;

    /// Messages of a conversation that are pinned, in order.
    async fn pinned(&self, tenant: TenantId, conversation: ConversationId) -> Result<Vec<Arc<Message>>, StoreError>;

    /// Brings in conversations that were held with another program, or what is new in them. Durable when it returns.
    async fn import(&self, import: Import) -> Result<ImportOutcome, StoreError>;

    /// Part of what has happened to the tenant's conversations that the caller may see, whichever process did it. The newest
    /// [`crate::KEPT_EVENTS`] are kept.
    async fn events(&self, scope: &Scope, from: EventsFrom, limit: usize) -> Result<EventPage, StoreError>;

    /// Changes soon after there are more events, whichever process told them, while somebody holds a receiver.
    fn watch_events(&self) -> watch::Receiver<i64>;

    /// Takes a copy of the conversation a name leads to. `None` if it leads nowhere. Turns that wait are not part of it; one that runs is as if it had been
    /// cut off.
    async fn copy_out(&self, scope: &Scope, alias: &Alias) -> Result<Option<Copying>, StoreError>;

    /// Has a conversation again that was copied out. Durable when it returns.
    async fn restore(&self, restoration: Restoration) -> Result<RestoreOutcome, StoreError>;

    /// Whether the store can be written now: writes a little, durably.
    async fn check(&self) -> Result<(), StoreError>;

    /// Finishes what was asked for and lets go of the database.
    async fn close(&self);
}
