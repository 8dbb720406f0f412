//! The [`Store`] trait.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herma_model::alias::Namespace;
use herma_model::{
    Alias, ApiKeyId, ApprovalChoice, ChildAnswer, Compaction, CompactionId, ConversationId, Cost, EndReason, ErasureId,
    Memory, MemoryId, Message, MessageId, Principal, Recall, Seq, SessionKey, StopKind, TenantId, Timestamp,
    TurnFailure, TurnId, Usage,
};
use tokio::sync::watch;

use crate::admission::{Admission, AdmitOutcome};
use crate::approvals::{AnswerOutcome, Grant, Park, Question, Resumed};
use crate::commit::{Append, Commit, Committed, Lease, StreamedOutput};
use crate::compaction::{CompactOutcome, FailedCompaction, LedgerPage, NewCompaction, PinOutcome, Undo, UndoOutcome};
use crate::conversations::{
    BranchOutcome, Change, Children, CreateOutcome, DeleteOutcome, EndOutcome, MadeTitle, NewBranch, NewConversation,
    Rewind, RewindOutcome,
};
use crate::copy::{Copying, Restoration, RestoreOutcome};
use crate::erasure::{AskedBy, EraseOutcome, Erasure, ErasureReceipt, Facts};
use crate::error::StoreError;
use crate::events::{EventPage, EventsFrom};
use crate::history::{FoundHistory, HistoryEnds, HistoryScope, Resembling};
use crate::import::{Import, ImportOutcome};
use crate::keys::{ApiKeyRow, KeyHash, NewApiKey};
use crate::lineage::{LineageOutcome, LineageRange};
use crate::list::{ListFilter, Page};
use crate::listing::{ConversationRow, MessagePage, MessageRange, Pin};
use crate::memories::{MemoryFilter, MemoryPage, MemoryQuery, NewMemory, Remembered};
use crate::notices::{Notice, Subscription};
use crate::outbox::{Backlog, Delivery, DeliveryClaim, DeliveryOutcome, ErasedNotDelivered};
use crate::readings::{Reading, ReadingEnd};
use crate::receipt::Receipt;
use crate::rewrite::{Rewrite, RewriteOutcome};
use crate::search::{Search, SearchPage};
use crate::snapshot::{Extent, Scope, Snapshot};
use crate::turns::{Expired, StatelessTurn, StopOutcome, StreamedPart, StreamedThrough, TurnRecord};
use crate::usage::Spent;

/// A database that stores conversations.
///
/// Every implementation guarantees:
///
/// - **Tenancy.** A [`Scope`] cannot reach rows of other tenants, or conversations whose session key it may not use.
/// - **One head, one running turn.** [`Store::admit`] gives a conversation's lease to one turn at a time, with a
///   [`herma_model::Fence`] above every earlier one. A write under an older fence changes nothing.
/// - **All or nothing.** Each operation is one transaction. A refusal changes nothing.
/// - **The lease confirms the history.** A caller says which version it has read. If the conversation is at another
///   version when the lease is taken, the answer is [`AdmitOutcome::Stale`] and nothing has changed.
/// - **A compaction is one step.** One transaction writes the summary, ends the old session, makes the new one with its
///   names, moves the head and adds the ledger's row. It needs the base that the caller planned with. Only the turn
///   that holds the lease may do it, or any caller while no turn runs.
/// - **A branch copies nothing.** A read of a branch begins with the messages of its source, up to the turn where the
///   branch begins. Later changes in one are not visible in the other.
/// - **Provenance never changes.** Kind, origin kind, creator, reason and typed parent of a session are written once,
///   when it is made. If the parent is deleted, its name stays readable. A later session with that name is never
///   mistaken for the parent.
/// - **Deleted means gone.** No name, turn or key leads to a deleted conversation. The part that branches inherit is
///   removed with the last of these branches.
/// - **A place is used once.** A deleted message leaves a gap. A message that a branch inherits cannot be deleted.
/// - **A second import adds nothing twice.** Imported rows are recognised by their origin. An import never overwrites
///   later changes made here.
/// - **Every change has an event.** A change of a conversation writes its event in the same transaction.
///   [`Store::events`] returns each event once, in order.
/// - **A restored conversation is the same.** It has the same ids, names, kinds, places and ledger, and shows the same
///   messages.
/// - **Search is complete.** [`Store::search`] finds a message as soon as it is written, and never a deleted one.
/// - **Memory stays with its key.** [`Store::remember`] finds nothing about another session key or of another tenant.
/// - **What was said is handed over with its answer.** After [`Store::use_outbox`], the transaction that ends a
///   completed turn also writes its row of the outbox. What is erased is not delivered, and its erasure is.
/// - **Dead owners are found at once.** If the process of a running turn has died, the next admission takes the lease
///   over and records the turn as interrupted.
/// - **A parked turn belongs to no process.** It stays the running turn of its conversation, through the end of every
///   process, until it is resumed, cancelled or interrupted, or its conversation is deleted.
/// - **No change is missed.** A caller that subscribes to a [`Notice`] and then reads gets a notice for every later
///   change.
///
/// Dropping the future of a write does not cancel it: the write happens or fails as a whole. Reads are cancel-safe.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the tenant of this name. Makes it if it is new.
    async fn ensure_tenant(&self, name: &str, now: Timestamp) -> Result<TenantId, StoreError>;

    /// The names of all tenants, oldest first; for the operator's terminal.
    async fn tenants(&self) -> Result<Vec<Arc<str>>, StoreError>;

    /// The tenant of this name, if there is one.
    async fn find_tenant(&self, name: &str) -> Result<Option<TenantId>, StoreError>;

    /// Stores a key.
    async fn create_key(&self, key: NewApiKey) -> Result<(), StoreError>;

    /// All keys of all tenants, oldest first; for the operator's terminal.
    async fn keys(&self) -> Result<Vec<ApiKeyRow>, StoreError>;

    /// Revokes a key; `false` if no valid key has this id.
    async fn revoke_key(&self, id: ApiKeyId, now: Timestamp) -> Result<bool, StoreError>;

    /// The principal of a key that is not revoked. It may have expired. Only this look-up takes no tenant, because it
    /// yields one.
    async fn principal_of(&self, hash: KeyHash) -> Result<Option<Principal>, StoreError>;

    /// Reads the conversation that a name leads to, all at one version.
    ///
    /// `None` if the name leads nowhere. `None` also if [`Extent::Without`] does not name the head's base, or if
    /// [`Extent::At`] does not name a completed turn of this conversation.
    async fn open(
        &self,
        scope: &Scope,
        alias: &Alias,
        namespace: Namespace,
        extent: Extent,
    ) -> Result<Option<Snapshot>, StoreError>;

    /// The current conversation of a session key: of its user-facing ones that have not ended, the one that was used
    /// last. Made, spoken to and asked are uses; a change of its title, of its metadata or of the archive is none.
    /// `None` if there is none. [`Namespace::Current`] leads to the same one.
    async fn current(&self, scope: &Scope, session_key: &SessionKey) -> Result<Option<ConversationId>, StoreError>;

    /// Finds the conversation that a history continues. The first of the ends that any conversation knows counts. Of
    /// several conversations, one that ends there counts, then the newest. Provisional and deleted ones are not found.
    /// Of conversations with the same history, only the newest few are compared.
    async fn find_history(
        &self,
        scope: &Scope,
        within: HistoryScope,
        ends: HistoryEnds,
    ) -> Result<Option<FoundHistory>, StoreError>;

    /// Finds conversations that may have a part of a history, the last used first, at most
    /// [`crate::MOST_RESEMBLING`].
    async fn find_resembling(
        &self,
        scope: &Scope,
        within: HistoryScope,
        wanted: Resembling,
    ) -> Result<Vec<ConversationId>, StoreError>;

    /// Asks for the lease of a conversation. Answers when every process can see the decision. The [`crate::Receipt`]
    /// resolves when the decision is on disk.
    async fn admit(&self, admission: Admission) -> Result<AdmitOutcome, StoreError>;

    /// Writes steps of a running turn. Durable when it returns, so that effects outside the store can follow.
    ///
    /// Retries like [`Store::commit`] and has the same errors. A turn that was asked to stop appends nothing.
    async fn append(&self, append: Append) -> Result<Committed, StoreError>;

    /// Ends a turn. Durable when it returns.
    ///
    /// Retries while the database is locked or unavailable. So it returns only when the commit is written, the lease is
    /// lost, a retry cannot help, or the store is closed. [`Store::retract`] does the same.
    ///
    /// [`StoreError::Fenced`] if the lease was lost. [`StoreError::StopRequested`] if the turn was asked to stop but
    /// wants to complete.
    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError>;

    /// Like [`Store::commit`], but returns when every process can see the end, and the lease is free. The receipt
    /// resolves when the end is on disk. No client may be told of it before.
    async fn commit_visibly(&self, commit: Commit) -> Result<(Committed, Receipt), StoreError>;

    /// Gives up a turn whose end could not be written. It is soon recorded as interrupted, at the latest by the next
    /// admission.
    fn abandon(&self, lease: Lease);

    /// Removes a turn that was refused after its admission, with all that it wrote. Removes the conversation too if the
    /// turn made it.
    async fn retract(&self, lease: Lease) -> Result<(), StoreError>;

    /// Gives up a place in the queue. A turn that was visible while queued ends with this failure; any other turn is
    /// forgotten. Does nothing if the turn is not waiting.
    async fn withdraw(&self, scope: &Scope, turn: TurnId, why: TurnFailure, now: Timestamp) -> Result<(), StoreError>;

    /// Cancels a turn, whichever process runs it. A waiting turn ends at once. A running turn is asked to stop; if it
    /// was asked longer than `grace` ago, it is ended. A parked turn ends at once.
    async fn stop(
        &self,
        scope: &Scope,
        turn: TurnId,
        grace: Duration,
        now: Timestamp,
    ) -> Result<StopOutcome, StoreError>;

    /// Parks a running turn until people have answered its questions. The lease is lost: nothing can be written under
    /// it any more. Questions of an earlier park of the turn are forgotten. Durable when it returns.
    ///
    /// Retries like [`Store::commit`] and has the same errors. A turn that was asked to stop is not parked.
    async fn park(&self, park: Park) -> Result<(), StoreError>;

    /// Answers questions of a parked turn. [`ApprovalChoice::Session`] and [`ApprovalChoice::Always`] also store a
    /// grant. Durable when it returns.
    async fn answer(
        &self,
        scope: &Scope,
        turn: TurnId,
        question: Question,
        choice: ApprovalChoice,
        now: Timestamp,
    ) -> Result<AnswerOutcome, StoreError>;

    /// Goes on with a parked turn in this process, under a new lease. `None` if the turn is not parked, if a question
    /// is open, or if another caller was faster. Its answers stay readable until it ends. Durable when it returns.
    async fn resume(&self, turn: TurnId, now: Timestamp) -> Result<Option<Resumed>, StoreError>;

    /// Denies every open question that was asked before a moment. Then returns parked turns that can be resumed, of
    /// every tenant, oldest first, at most 100.
    async fn parked_turns(&self, asked_before: Timestamp, now: Timestamp) -> Result<Vec<TurnId>, StoreError>;

    /// Whether calls of a tool are made without a question, in this conversation or in the whole tenant.
    async fn is_granted(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        server: &str,
        tool: &str,
    ) -> Result<bool, StoreError>;

    /// All grants of a tenant, or of every tenant, oldest first.
    async fn grants(&self, tenant: Option<TenantId>) -> Result<Vec<Grant>, StoreError>;

    /// Revokes the grants of a tool, for the tenant and for its conversations. `*` means every tool of the server.
    /// Returns how many there were. Durable when it returns.
    async fn revoke_grants(&self, tenant: TenantId, server: &str, tool: &str) -> Result<u64, StoreError>;

    /// Adds streamed output to the journal of a running turn, so that it survives a crash. Returns before it is
    /// written. The receipt resolves when it is committed, or with [`StoreError::Fenced`] if the lease was lost. The
    /// receipt stays open while the database is locked.
    fn journal(&self, lease: Lease, shown: StreamedOutput) -> Receipt;

    /// True if no other process can have taken the lease over since it was given or confirmed. Compares clocks and
    /// reads nothing.
    fn is_fresh(&self, lease: &Lease) -> bool;

    /// Asks the database whether the turn still holds its lease; [`StoreError::Fenced`] if not. The returned lease is
    /// fresh if this process has renewed its leases lately. Cancel-safe.
    async fn confirm(&self, lease: Lease) -> Result<Lease, StoreError>;

    /// Records that the client got the whole answer of a turn. Returns before it is written.
    fn mark_delivered(&self, tenant: TenantId, turn: TurnId);

    /// Records how a stateless turn ended. Returns before it is written.
    fn note_stateless(&self, turn: StatelessTurn);

    /// One turn and its outcome. `None` if this scope cannot reach such a turn.
    async fn turn(&self, scope: &Scope, id: TurnId) -> Result<Option<TurnRecord>, StoreError>;

    /// The streamed output of a running turn since a place in its journal. `None` if the turn has appended since, does
    /// not run in that attempt, or cannot be reached by this scope. Then [`Store::turn`] has its state.
    async fn streamed_since(
        &self,
        scope: &Scope,
        turn: TurnId,
        since: StreamedThrough,
    ) -> Result<Option<StreamedPart>, StoreError>;

    /// Makes a turn unavailable as a response; `false` if it was unavailable already. Its messages stay.
    async fn forget_response(&self, scope: &Scope, turn: TurnId) -> Result<bool, StoreError>;

    /// Makes responses unavailable that ended before a moment, in all tenants, a limited number per call. Their
    /// messages stay.
    async fn expire_responses(&self, before: Timestamp) -> Result<Expired, StoreError>;

    /// The turns of this process that were asked to stop, and how. Includes turns that another process has ended.
    async fn stop_requests(&self) -> Result<Vec<(TurnId, StopKind)>, StoreError>;

    /// Subscribes to one notice. It comes soon after the change, whichever process made it. A subscription costs other
    /// processes nothing, and a store without subscriptions watches nothing.
    fn subscribe(&self, notice: Notice) -> Subscription;

    /// Makes a conversation without a turn. Durable when it returns.
    async fn create(&self, conversation: NewConversation) -> Result<CreateOutcome, StoreError>;

    /// Makes a branch without a turn, at the end of a conversation or at any message in any of its sessions. A branch
    /// from before a compaction has the original messages; a branch from after it has the summary. The source may be
    /// busy or ended, and is not changed. Durable when it returns.
    async fn branch(&self, branch: NewBranch) -> Result<BranchOutcome, StoreError>;

    /// Changes title, metadata or archived state of the conversation a name leads to. `None` if it leads nowhere. The
    /// version stays, because the messages do not change. Durable when it returns.
    async fn update(
        &self,
        scope: &Scope,
        alias: &Alias,
        change: Change,
        now: Timestamp,
    ) -> Result<Option<ConversationRow>, StoreError>;

    /// Gives a conversation a generated title, if it has none and no client has removed its title. Otherwise returns
    /// `false` and changes nothing. The version stays. Durable when it returns.
    async fn make_title(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        title: MadeTitle,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Ends the conversation a name leads to: it takes no turns until it is reopened. Durable when it returns.
    async fn end(
        &self,
        scope: &Scope,
        alias: &Alias,
        reason: EndReason,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError>;

    /// Reopens an ended conversation. Durable when it returns.
    async fn reopen(&self, scope: &Scope, alias: &Alias, now: Timestamp) -> Result<EndOutcome, StoreError>;

    /// Erases conversations with all their names, turns and responses, and reads the store again to see what is left.
    /// Names that a client chose can be used again; other names lead nowhere. A parked turn is erased too. The part
    /// that inheriting branches need stays, readable by them only, unless they are erased too.
    ///
    /// A conversation with its descendants is erased in one transaction. A session key or a tenant takes several, so
    /// that other writers do not wait for all of it. Durable when it returns.
    async fn erase(
        &self,
        scope: &Scope,
        what: Erasure,
        by: AskedBy,
        now: Timestamp,
    ) -> Result<EraseOutcome, StoreError>;

    /// The receipt of an erasure, with what is pending now. A caller that may not use every session key is shown only
    /// what it has asked for itself. The store keeps the newest [`crate::erasure::KEPT_RECEIPTS`] of a tenant.
    async fn erasure(&self, scope: &Scope, by: AskedBy, id: ErasureId) -> Result<Option<ErasureReceipt>, StoreError>;

    /// Erases one conversation, as [`Store::erase`] does, and says only which one it was.
    async fn delete(
        &self,
        scope: &Scope,
        alias: &Alias,
        children: Children,
        now: Timestamp,
    ) -> Result<DeleteOutcome, StoreError> {
        let erasure = Erasure::Conversation(alias.clone(), children, Facts::Erase);
        Ok(match self.erase(scope, erasure, AskedBy(None), now).await? {
            EraseOutcome::Erased(receipt) => {
                receipt.conversation.map_or(DeleteOutcome::NotFound, DeleteOutcome::Deleted)
            }
            EraseOutcome::Busy(turn) => DeleteOutcome::Busy(turn),
            EraseOutcome::NotFound => DeleteOutcome::NotFound,
        })
    }

    /// The conversation a name leads to, described at its head, or at the session with exactly this name.
    async fn conversation(&self, scope: &Scope, alias: &Alias, pin: Pin)
    -> Result<Option<ConversationRow>, StoreError>;

    /// A page of conversations, or of their sessions. Reads a bounded number of rows, even if a filter excludes most of
    /// them.
    async fn conversations(&self, scope: &Scope, filter: ListFilter) -> Result<Page<ConversationRow>, StoreError>;

    /// Part of the lineage graph of the conversation a name leads to: its ancestors, its own sessions, and their
    /// descendants.
    async fn lineage(&self, scope: &Scope, alias: &Alias, range: LineageRange) -> Result<LineageOutcome, StoreError>;

    /// What the conversations have answered that a call in this conversation made, in the order they were made. If
    /// several calls had this id, the last one counts. A child whose turn has not ended is reported as interrupted.
    /// Empty if there are none, or no such conversation.
    async fn children_of_call(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        call: &str,
    ) -> Result<Vec<ChildAnswer>, StoreError>;

    /// Adds what Herma itself asked a model for in a conversation's name: a summary, a title, memory. It counts in
    /// `usage_tree`, `cost` and [`Store::spent`], not in `usage`. The version and the revision stay. Returns before it
    /// is written. Does nothing if there is no such conversation.
    fn add_side_usage(&self, tenant: TenantId, conversation: ConversationId, usage: Usage, cost: Option<Cost>);

    /// What a conversation and its whole tree have used, for budgets. Zero if there is no such conversation.
    async fn spent(&self, tenant: TenantId, conversation: ConversationId) -> Result<Spent, StoreError>;

    /// Part of the full view of the conversation a name leads to. `None` if it leads nowhere.
    async fn messages(
        &self,
        scope: &Scope,
        alias: &Alias,
        range: MessageRange,
    ) -> Result<Option<MessagePage>, StoreError>;

    /// One message of the full view. `None` if the name leads nowhere or the conversation has no such message.
    /// Summaries are not found.
    async fn message(&self, scope: &Scope, alias: &Alias, id: MessageId) -> Result<Option<Arc<Message>>, StoreError>;

    /// Messages and titles that match, best first. If the title is an excerpt of the first message, only that message
    /// is found.
    async fn search(&self, scope: &Scope, search: Search) -> Result<SearchPage, StoreError>;

    /// Brings the search index up to date. The index also catches up by itself, and a search misses nothing before
    /// that. After a large import this makes searches faster.
    async fn index_all(&self) -> Result<(), StoreError>;

    /// Adds a fact to long-term memory. If there is one about the same key with the same text, that one is returned.
    /// Durable when it returns.
    async fn add_memory(&self, memory: NewMemory) -> Result<Memory, StoreError>;

    /// A page of facts, newest first.
    async fn memories(&self, filter: MemoryFilter) -> Result<MemoryPage, StoreError>;

    /// One fact. `None` if it does not exist for the caller.
    async fn memory(&self, scope: &Scope, id: MemoryId) -> Result<Option<Memory>, StoreError>;

    /// Changes the text of a fact. `None` if the fact does not exist for the caller. No turn keeps the old text as
    /// recalled. Durable when it returns.
    async fn change_memory(
        &self,
        scope: &Scope,
        id: MemoryId,
        text: Arc<str>,
        now: Timestamp,
    ) -> Result<Option<Memory>, StoreError>;

    /// Deletes a fact; `false` if it does not exist for the caller. No turn keeps it as recalled. Durable when it
    /// returns.
    async fn forget_memory(&self, scope: &Scope, id: MemoryId) -> Result<bool, StoreError>;

    /// Deletes all facts about a session key, and returns how many there were. Durable when it returns.
    async fn forget_memories(&self, scope: &Scope, session_key: &SessionKey) -> Result<u64, StoreError>;

    /// Finds what is remembered about a session key. Messages are found when they are indexed, which is soon after the
    /// turn's end. Never reads all messages or all facts.
    async fn remember(&self, query: MemoryQuery) -> Result<Remembered, StoreError>;

    /// Whether a block of recalled text may be shown in a turn: all that it quotes is still there under the session key
    /// of the turn's conversation, and was not changed since. [`Store::append`] and [`Store::commit`] store no other
    /// block: they leave it out, and write the rest.
    async fn still_quotable(&self, lease: Lease, recall: &Recall) -> Result<bool, StoreError>;

    /// Whether all that was said in a conversation up to a place may be remembered. `false` if a part of it, inherited
    /// parts included, is of a turn without memory, of a helper that did not ask for it, or of a turn that did not say
    /// so before its process died. [`Store::compact`] adds facts only if this holds for what it covers.
    async fn all_recorded(&self, tenant: TenantId, id: ConversationId, through: Seq) -> Result<bool, StoreError>;

    /// From now on the commits of this process hand over what was said to the outbox, if the turn is recorded.
    fn use_outbox(&self);

    /// A random name of this store, which never changes.
    async fn store_name(&self) -> Result<Arc<str>, StoreError>;

    /// Takes the next delivery that is due. `None` if there is none. No other process gets a delivery about the same
    /// key until this one is settled, its lease ends, or this process dies. Durable when it returns.
    async fn next_delivery(&self, now: Timestamp) -> Result<Option<Delivery>, StoreError>;

    /// Reports how a delivery ended; `false`, without any change, if its lease was lost. Durable when it returns.
    async fn settle_delivery(
        &self,
        claim: DeliveryClaim,
        outcome: DeliveryOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// What waits in the outbox, of all tenants.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// What the provider may still know about a session key, although it is erased here.
    async fn erased_not_delivered(
        &self,
        tenant: TenantId,
        session_key: &SessionKey,
    ) -> Result<ErasedNotDelivered, StoreError>;

    /// Says whether a model is to read the conversations under session keys that go on from now. If not, those that
    /// wait are forgotten. Durable when it returns.
    async fn want_readings(&self, wanted: bool) -> Result<(), StoreError>;

    /// The next part of a finished conversation that is to be read for facts, if one is due. No other caller gets it
    /// for [`READING_TIME`](crate::readings::READING_TIME). Durable when it returns.
    async fn next_reading(&self, now: Timestamp) -> Result<Option<Reading>, StoreError>;

    /// Ends a reading, and adds its facts. `false`, and nothing has changed, if another caller has got it meanwhile, or
    /// its conversation is gone. Durable when it returns.
    async fn end_reading(&self, reading: Reading, end: ReadingEnd, now: Timestamp) -> Result<bool, StoreError>;

    /// Deletes a message, or replaces it by what is left of it. Durable when it returns. Summaries cannot be rewritten,
    /// and a summary keeps what it says about the message.
    async fn rewrite(&self, rewrite: Rewrite) -> Result<RewriteOutcome, StoreError>;

    /// Ends the model's view of a conversation at an earlier place. The full view keeps everything. Durable when it
    /// returns.
    async fn rewind(&self, rewind: Rewind) -> Result<RewindOutcome, StoreError>;

    /// Shows the model again what was rewound since the last turn. Durable when it returns.
    async fn restore_rewound(&self, scope: &Scope, alias: &Alias, now: Timestamp) -> Result<RewindOutcome, StoreError>;

    /// Puts a summary in place of old messages, and moves the head if the mode says so. Durable when it returns.
    ///
    /// [`StoreError::Fenced`] if the compaction belongs to a lease that was lost.
    async fn compact(&self, compaction: NewCompaction) -> Result<CompactOutcome, StoreError>;

    /// Undoes the head's last compaction, so that the model is shown the original messages again. Durable when it
    /// returns.
    async fn undo(&self, undo: Undo) -> Result<UndoOutcome, StoreError>;

    /// Records a failed compaction in the ledger. Returns before it is written.
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

    /// Pins a message, or unpins it. Every compaction keeps a pinned message word for word. A tool call and its results
    /// are pinned together.
    async fn pin(
        &self,
        scope: &Scope,
        alias: &Alias,
        message: MessageId,
        pinned: bool,
    ) -> Result<PinOutcome, StoreError>;

    /// The pinned messages of a conversation, in order.
    async fn pinned(&self, tenant: TenantId, conversation: ConversationId) -> Result<Vec<Arc<Message>>, StoreError>;

    /// Imports conversations from another program, or what is new in them. Durable when it returns.
    async fn import(&self, import: Import) -> Result<ImportOutcome, StoreError>;

    /// A page of the events of the tenant's conversations that the caller may see, from all processes. The store keeps
    /// the newest [`crate::KEPT_EVENTS`].
    async fn events(&self, scope: &Scope, from: EventsFrom, limit: usize) -> Result<EventPage, StoreError>;

    /// Changes soon after new events, whichever process wrote them. The store watches for them only while a receiver
    /// exists.
    fn watch_events(&self) -> watch::Receiver<i64>;

    /// Copies the conversation a name leads to. `None` if it leads nowhere. Waiting turns are left out. A running turn
    /// is copied as if it had been cut off.
    async fn copy_out(&self, scope: &Scope, alias: &Alias) -> Result<Option<Copying>, StoreError>;

    /// Restores a conversation that was copied out. Durable when it returns.
    async fn restore(&self, restoration: Restoration) -> Result<RestoreOutcome, StoreError>;

    /// Checks that the store can be written now: makes a small durable write.
    async fn check(&self) -> Result<(), StoreError>;

    /// Finishes the operations that were asked for and closes the database.
    async fn close(&self);
}
