//! The operations of the port: each is sent to the writer or to a reader.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use herma_model::alias::Namespace;
use herma_model::copy::Piece;
use herma_model::{
    Alias, ApiKeyId, ApprovalChoice, ChildAnswer, Compaction, CompactionId, ConversationId, Cost, EndReason, ErasureId,
    Memory, MemoryId, Message, MessageId, Principal, Recall, Seq, SessionKey, StopKind, TenantId, Timestamp,
    TurnFailure, TurnId, Usage,
};
use herma_store::{
    Admission, AdmitOutcome, AnswerOutcome, ApiKeyRow, Append, AskedBy, Backlog, BranchOutcome, Change, Commit,
    Committed, CompactOutcome, ConversationRow, Copying, CreateOutcome, Delivery, DeliveryClaim, DeliveryOutcome,
    Durability, EndOutcome, EraseOutcome, ErasedNotDelivered, Erasure, ErasureReceipt, EventPage, EventsFrom, Expired,
    Extent, FailedCompaction, FoundHistory, Grant, HistoryEnds, HistoryScope, Import, ImportOutcome, KeyHash, Lease,
    LedgerPage, LineageOutcome, LineageRange, ListFilter, MadeTitle, MemoryFilter, MemoryPage, MemoryQuery,
    MessagePage, MessageRange, NewApiKey, NewBranch, NewCompaction, NewConversation, NewMemory, Notice, Page, Park,
    Pin, PinOutcome, Question, Reading, ReadingEnd, Receipt, Remembered, Resembling, Restoration, RestoreIntent,
    RestoreOutcome, Resumed, Rewind, RewindOutcome, Rewrite, RewriteOutcome, Scope, Search, SearchPage, Snapshot,
    Spent, StatelessTurn, StopOutcome, Store, StoreError, StreamedOutput, StreamedPart, StreamedThrough, Subscription,
    TurnRecord, Undo, UndoOutcome, receipt,
};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use super::{SqliteStore, noted_or_logged};

use crate::erase::receipts;
use crate::erase::steps::{Erasing, Step};
use crate::search::batch::{self, BatchLimit};
use crate::search::common::Vocabulary;
use crate::writer::{Answer, Callback, JobOutcome, WhenUnavailable};
use crate::{
    admissions, admit, approvals, branch, commit, compact, copy, current, delegates, describe, events, expiry, family,
    grants, histories, import, keys, ledger, list, listing, maintenance, memories, outbox, park, pins, queue, retract,
    retry, rewind, rewrite, search, snapshot, stop, takeover, title, transcript, turns, undo, usage,
};

#[async_trait]
impl Store for SqliteStore {
    async fn ensure_tenant(&self, name: &str, now: Timestamp) -> Result<TenantId, StoreError> {
        let name = name.to_owned();
        let wanted = name.clone();
        if let Some(found) = self.readers.read(move |connection| keys::find_tenant(connection, &wanted)).await? {
            return Ok(found);
        }
        self.write_beside_turns(move |connection, _| keys::ensure_tenant(connection, &name, now)).await
    }

    async fn tenants(&self) -> Result<Vec<Arc<str>>, StoreError> {
        self.readers.read(keys::tenants).await
    }

    async fn find_tenant(&self, name: &str) -> Result<Option<TenantId>, StoreError> {
        let name = name.to_owned();
        self.readers.read(move |connection| keys::find_tenant(connection, &name)).await
    }

    async fn create_key(&self, key: NewApiKey) -> Result<(), StoreError> {
        self.write_beside_turns(move |connection, _| keys::create(connection, &key)).await
    }

    async fn keys(&self) -> Result<Vec<ApiKeyRow>, StoreError> {
        self.readers.read(keys::list).await
    }

    async fn revoke_key(&self, id: ApiKeyId, now: Timestamp) -> Result<bool, StoreError> {
        self.write_beside_turns(move |connection, _| keys::revoke(connection, id, now)).await
    }

    async fn principal_of(&self, hash: KeyHash) -> Result<Option<Principal>, StoreError> {
        self.readers.read(move |connection| keys::principal_of(connection, hash)).await
    }

    async fn open(
        &self,
        scope: &Scope,
        alias: &Alias,
        namespace: Namespace,
        extent: Extent,
    ) -> Result<Option<Snapshot>, StoreError> {
        let (tenant, wanted) = (scope.tenant, alias.clone());
        let (scope, alias) = (scope.clone(), alias.clone());
        let open = move |connection: &Connection| snapshot::open(connection, &scope, &alias, namespace, extent);
        let read = move |connection: &Connection| match snapshot::has_admission(connection, tenant, &wanted, namespace)?
        {
            true => Ok(Err(open)),
            false => open(connection).map(Ok),
        };
        match self.readers.read(read).await? {
            Ok(snapshot) => Ok(snapshot),
            Err(open) => {
                self.write_out_admissions().await;
                self.readers.read(open).await
            }
        }
    }

    async fn current(&self, scope: &Scope, session_key: &SessionKey) -> Result<Option<ConversationId>, StoreError> {
        let (scope, session_key) = (scope.clone(), session_key.clone());
        self.readers.read(move |connection| current::of_key(connection, &scope, &session_key)).await
    }

    async fn find_history(
        &self,
        scope: &Scope,
        within: HistoryScope,
        ends: HistoryEnds,
    ) -> Result<Option<FoundHistory>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| histories::find(connection, &scope, &within, &ends)).await
    }

    async fn find_resembling(
        &self,
        scope: &Scope,
        within: HistoryScope,
        wanted: Resembling,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| histories::resembling(connection, &scope, &within, &wanted)).await
    }

    async fn admit(&self, admission: Admission) -> Result<AdmitOutcome, StoreError> {
        let (answer, answered) = Answer::channel();
        self.writer.submit_short(WhenUnavailable::Refuse, move |connection, instance| {
            let answer = answer.clone();
            let mut outcome = match admit::admit(connection, instance, &admission) {
                outcome @ (Ok(AdmitOutcome::Refused(_)) | Err(_)) => {
                    return JobOutcome::Undo(Box::new(move |_| answer.send(outcome)));
                }
                Ok(outcome) => outcome,
            };
            let is_visible_while_queued =
                admission.response.as_ref().is_some_and(|response| response.visible_while_queued);
            let is_waiting = matches!(outcome, AdmitOutcome::Queued { .. });
            let durable = match &mut outcome {
                AdmitOutcome::Running(running) if admission.durability == Durability::Now => {
                    let (durable, promise) = receipt();
                    running.durable = promise;
                    Some(durable)
                }
                _ => None,
            };
            let committed: Callback = Box::new(move |committed| answer.send(committed.map(|()| outcome)));
            match durable {
                None if is_visible_while_queued && is_waiting && admission.ticket.is_none() => {
                    JobOutcome::KeepDurably(committed)
                }
                None => JobOutcome::Keep(committed),
                Some(durable) => JobOutcome::KeepThenDurably(
                    committed,
                    Box::new(move |synced| {
                        let _ = durable.send(synced);
                    }),
                ),
            }
        });
        answered.await.unwrap_or_else(|_| Err(self.not_taken()))
    }

    async fn append(&self, append: Append) -> Result<Committed, StoreError> {
        self.under_lease(append.lease, move |connection, _| commit::append(connection, &append)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let hand_over = self.hand_over();
        self.under_lease(commit.lease, move |connection, instance| {
            commit::commit(connection, instance, &commit, hand_over)
        })
        .await
    }

    async fn commit_visibly(&self, commit: Commit) -> Result<(Committed, Receipt), StoreError> {
        let hand_over = self.hand_over();
        self.visibly_under_lease(commit.lease, move |connection, instance| {
            commit::commit(connection, instance, &commit, hand_over)
        })
        .await
    }

    fn abandon(&self, lease: Lease) {
        // Other processes see that this one is alive, so it has to end the turn itself as far as it can.
        self.writer.submit_lazy(WhenUnavailable::Wait, move |connection, instance| {
            instance.forget_given_up(lease);
            maintenance::keep_or_log(maintenance::sweep(connection, instance, maintenance::now()))
        });
    }

    async fn retract(&self, lease: Lease) -> Result<(), StoreError> {
        let now = maintenance::now();
        self.under_lease(lease, move |connection, instance| {
            admissions::write_out(connection, lease.conversation)?;
            retract::retract(connection, instance, lease, now)
        })
        .await
    }

    async fn withdraw(&self, scope: &Scope, turn: TurnId, why: TurnFailure, now: Timestamp) -> Result<(), StoreError> {
        let scope = scope.clone();
        self.write(move |connection, instance| queue::withdraw(connection, instance, &scope, turn, &why, now)).await
    }

    async fn stop(
        &self,
        scope: &Scope,
        turn: TurnId,
        grace: Duration,
        now: Timestamp,
    ) -> Result<StopOutcome, StoreError> {
        let scope = scope.clone();
        self.write(move |connection, instance| stop::stop(connection, instance, &scope, turn, grace, now)).await
    }

    async fn park(&self, park: Park) -> Result<(), StoreError> {
        self.under_lease(park.lease, move |connection, instance| {
            admissions::write_out(connection, park.lease.conversation)?;
            park::park(connection, instance, &park)
        })
        .await
    }

    async fn answer(
        &self,
        scope: &Scope,
        turn: TurnId,
        question: Question,
        choice: ApprovalChoice,
        now: Timestamp,
    ) -> Result<AnswerOutcome, StoreError> {
        let scope = scope.clone();
        self.write(move |connection, _| approvals::answer(connection, &scope, turn, &question, choice, now)).await
    }

    async fn resume(&self, turn: TurnId, now: Timestamp) -> Result<Option<Resumed>, StoreError> {
        self.write(move |connection, instance| park::resume(connection, instance, turn, now)).await
    }

    async fn parked_turns(&self, asked_before: Timestamp, _now: Timestamp) -> Result<Vec<TurnId>, StoreError> {
        if self.readers.read(move |connection| approvals::are_late(connection, asked_before)).await? {
            self.write(move |connection, _| approvals::deny_late(connection, asked_before)).await?;
        }
        self.readers.read(approvals::complete_turns).await
    }

    async fn is_granted(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        server: &str,
        tool: &str,
    ) -> Result<bool, StoreError> {
        let (server, tool) = (server.to_owned(), tool.to_owned());
        self.readers.read(move |connection| grants::is_granted(connection, tenant, conversation, &server, &tool)).await
    }

    async fn grants(&self, tenant: Option<TenantId>) -> Result<Vec<Grant>, StoreError> {
        self.readers.read(move |connection| grants::list(connection, tenant)).await
    }

    async fn revoke_grants(&self, tenant: TenantId, server: &str, tool: &str) -> Result<u64, StoreError> {
        let (server, tool) = (server.to_owned(), tool.to_owned());
        self.write(move |connection, _| grants::revoke(connection, tenant, &server, &tool)).await
    }

    fn journal(&self, lease: Lease, shown: StreamedOutput) -> Receipt {
        let (written, journalled) = receipt();
        let written = Answer::by(written);
        self.writer.submit_lazy_again(WhenUnavailable::Wait, move |connection, _| {
            let written = written.clone();
            let write = || {
                admissions::write_out(connection, lease.conversation)?;
                takeover::append_journal(connection, lease.turn, lease.fence.0, &shown)
            };
            match write() {
                Ok(()) => JobOutcome::Keep(Box::new(move |committed| written.send(committed))),
                Err(error) => JobOutcome::Undo(Box::new(move |_| written.send(Err(error)))),
            }
        });
        journalled
    }

    fn is_fresh(&self, lease: &Lease) -> bool {
        self.renewals.fresh_series() == Some(lease.renewal_series)
    }

    async fn confirm(&self, lease: Lease) -> Result<Lease, StoreError> {
        // Take the series before the read: a renewal that is committed by now is seen by every later takeover.
        let series = self.renewals.fresh_series().unwrap_or(lease.renewal_series);
        self.read(move |connection| takeover::require_lease(connection, lease)).await?;
        Ok(Lease { renewal_series: series, ..lease })
    }

    fn mark_delivered(&self, tenant: TenantId, turn: TurnId) {
        self.writer.submit_lazy_again(WhenUnavailable::Wait, move |connection, instance| {
            let noted = instance.deliveries.add(connection, tenant, turn);
            let old = instance.deliveries.take_old(Instant::now());
            noted_or_logged(noted.and_then(|()| retry::forget(connection, &old)))
        });
    }

    fn note_stateless(&self, turn: StatelessTurn) {
        self.write_lazily(move |connection| turns::note_stateless(connection, &turn));
    }

    async fn turn(&self, scope: &Scope, id: TurnId) -> Result<Option<TurnRecord>, StoreError> {
        let scope = scope.clone();
        self.read(move |connection| turns::turn(connection, &scope, id)).await
    }

    async fn streamed_since(
        &self,
        scope: &Scope,
        turn: TurnId,
        since: StreamedThrough,
    ) -> Result<Option<StreamedPart>, StoreError> {
        let scope = scope.clone();
        self.read(move |connection| turns::streamed_since(connection, &scope, turn, since)).await
    }

    async fn forget_response(&self, scope: &Scope, turn: TurnId) -> Result<bool, StoreError> {
        let scope = scope.clone();
        self.write_erasing(move |connection, _| turns::forget_response(connection, &scope, turn)).await
    }

    async fn expire_responses(&self, before: Timestamp) -> Result<Expired, StoreError> {
        if !self.readers.read(expiry::is_due).await? {
            return Ok(Expired { responses: 0, is_all: true });
        }
        self.write_erasing(move |connection, _| expiry::step(connection, before)).await
    }

    async fn stop_requests(&self) -> Result<Vec<(TurnId, StopKind)>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.writer.submit(move |_, instance| {
            let live: Vec<i64> = instance.live.keys().collect();
            let owner = instance.registered_key();
            // Answer only after the commit: until then, the rows would be older than the list.
            JobOutcome::Keep(Box::new(move |committed| {
                let _ = answer.send(committed.map(|()| owner.map(|owner| (owner, live))));
            }))
        });
        match answered.await.unwrap_or_else(|_| Err(self.not_taken()))? {
            None => Ok(Vec::new()),
            Some((owner, live)) => {
                self.readers.read(move |connection| turns::stop_requests(connection, owner, &live)).await
            }
        }
    }

    fn subscribe(&self, notice: Notice) -> Subscription {
        self.notices.subscribe(notice)
    }

    async fn create(&self, conversation: NewConversation) -> Result<CreateOutcome, StoreError> {
        self.write(move |connection, _| describe::create(connection, &conversation)).await
    }

    async fn branch(&self, branch: NewBranch) -> Result<BranchOutcome, StoreError> {
        self.write(move |connection, _| branch::branch(connection, &branch)).await
    }

    async fn update(
        &self,
        scope: &Scope,
        alias: &Alias,
        change: Change,
        now: Timestamp,
    ) -> Result<Option<ConversationRow>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.write(move |connection, _| describe::update(connection, &scope, &alias, &change, now)).await
    }

    async fn make_title(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        title: MadeTitle,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.write(move |connection, _| title::make_for(connection, tenant, conversation, &title, now)).await
    }

    async fn end(
        &self,
        scope: &Scope,
        alias: &Alias,
        reason: EndReason,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.write(move |connection, instance| describe::end(connection, instance, &scope, &alias, Some(reason), now))
            .await
    }

    async fn reopen(&self, scope: &Scope, alias: &Alias, now: Timestamp) -> Result<EndOutcome, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.write(move |connection, instance| describe::end(connection, instance, &scope, &alias, None, now)).await
    }

    async fn erase(
        &self,
        scope: &Scope,
        what: Erasure,
        by: AskedBy,
        now: Timestamp,
    ) -> Result<EraseOutcome, StoreError> {
        let mut erasing = Erasing::new(scope, what, by, now);
        loop {
            let step;
            (erasing, step) = self
                .write_erasing(move |connection, instance| {
                    let step = erasing.step(connection, instance)?;
                    Ok((erasing, step))
                })
                .await?;
            match step {
                Step::Again => {}
                Step::Done => break,
                Step::Busy(turn) => return Ok(EraseOutcome::Busy(turn)),
                Step::Nothing => return Ok(EraseOutcome::NotFound),
            }
        }
        let Erasing { id, trace, conversation, .. } = erasing;
        let found = self.readers.read(move |connection| trace.find_leftovers(connection)).await?;
        let receipt = self
            .write_beside_turns(move |connection, _| {
                receipts::settle(connection, id, found)?;
                receipts::own(connection, id)
            })
            .await?;
        Ok(EraseOutcome::Erased(ErasureReceipt { conversation, ..receipt }))
    }

    async fn erasure(&self, scope: &Scope, by: AskedBy, id: ErasureId) -> Result<Option<ErasureReceipt>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| receipts::find(connection, &scope, by, id)).await
    }

    async fn conversation(
        &self,
        scope: &Scope,
        alias: &Alias,
        pin: Pin,
    ) -> Result<Option<ConversationRow>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.read(move |connection| listing::conversation(connection, &scope, &alias, pin)).await
    }

    async fn conversations(&self, scope: &Scope, filter: ListFilter) -> Result<Page<ConversationRow>, StoreError> {
        let scope = scope.clone();
        self.read(move |connection| list::page(connection, &scope, &filter)).await
    }

    async fn lineage(&self, scope: &Scope, alias: &Alias, range: LineageRange) -> Result<LineageOutcome, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.read(move |connection| family::page(connection, &scope, &alias, range)).await
    }

    async fn children_of_call(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        call: &str,
    ) -> Result<Vec<ChildAnswer>, StoreError> {
        let call = call.to_owned();
        let read = move |connection: &_| delegates::children_of_call(connection, tenant, conversation, &call);
        self.read(read).await
    }

    fn add_side_usage(&self, tenant: TenantId, conversation: ConversationId, usage: Usage, cost: Option<Cost>) {
        self.write_lazily(move |connection| usage::add_side(connection, tenant, conversation, usage, cost));
    }

    async fn spent(&self, tenant: TenantId, conversation: ConversationId) -> Result<Spent, StoreError> {
        self.readers.read(move |connection| usage::spent(connection, tenant, conversation)).await
    }

    async fn messages(
        &self,
        scope: &Scope,
        alias: &Alias,
        range: MessageRange,
    ) -> Result<Option<MessagePage>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.read(move |connection| transcript::page(connection, &scope, &alias, range)).await
    }

    async fn message(&self, scope: &Scope, alias: &Alias, id: MessageId) -> Result<Option<Arc<Message>>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.read(move |connection| transcript::message(connection, &scope, &alias, id)).await
    }

    async fn search(&self, scope: &Scope, search: Search) -> Result<SearchPage, StoreError> {
        let scope = scope.clone();
        self.read(move |connection| search::page(connection, &scope, &search)).await
    }

    async fn index_all(&self) -> Result<(), StoreError> {
        let newest = self.read(search::newest).await?;
        let owner = search::indexer::random_owner();
        let vocabulary = Arc::new(Mutex::new(Vocabulary::new()));
        // The batch after message `from`, or else the one that is due.
        let batch = |from: Option<i64>| {
            let vocabulary = Arc::clone(&vocabulary);
            self.readers.read(move |connection| {
                let vocabulary = &mut *vocabulary.lock().unwrap_or_else(PoisonError::into_inner);
                match from {
                    Some(from) => batch::following(connection, vocabulary, from, BatchLimit::LARGE),
                    None => batch::next(connection, vocabulary, BatchLimit::LARGE),
                }
            })
        };
        let mut next = batch(None).await?;
        while let Some(current) = next.filter(|batch| batch.is_of(newest)) {
            let next_from = current.next_from();
            let written = async {
                let write = move |connection: &Connection| {
                    let number = search::write(connection, &current, owner, maintenance::now())?;
                    Ok(number.map(|number| current.written(number)))
                };
                let written = self.write_undurably(write).await?;
                let is_written = written.is_some();
                written.into_iter().for_each(|written| self.remembered.feed(written));
                Ok::<_, StoreError>(is_written)
            };
            // While one batch is written, the next one is read and split into terms.
            next = match next_from {
                Some(from) => {
                    let (written, following) = tokio::join!(written, batch(Some(from)));
                    if written? { following? } else { batch(None).await? }
                }
                None => {
                    written.await?;
                    batch(None).await?
                }
            };
        }
        Ok(())
    }

    async fn add_memory(&self, memory: NewMemory) -> Result<Memory, StoreError> {
        self.write_beside_turns(move |connection, _| memories::add(connection, &memory)).await
    }

    async fn memories(&self, filter: MemoryFilter) -> Result<MemoryPage, StoreError> {
        self.readers.read(move |connection| memories::list(connection, &filter)).await
    }

    async fn memory(&self, scope: &Scope, id: MemoryId) -> Result<Option<Memory>, StoreError> {
        let scope = scope.clone();
        self.readers.read(move |connection| memories::show(connection, &scope, id)).await
    }

    async fn change_memory(
        &self,
        scope: &Scope,
        id: MemoryId,
        text: Arc<str>,
        now: Timestamp,
    ) -> Result<Option<Memory>, StoreError> {
        let scope = scope.clone();
        self.write_erasing(move |connection, _| memories::change(connection, &scope, id, &text, now)).await
    }

    async fn forget_memory(&self, scope: &Scope, id: MemoryId) -> Result<bool, StoreError> {
        let scope = scope.clone();
        self.write_erasing(move |connection, _| memories::forget(connection, &scope, id)).await
    }

    async fn forget_memories(&self, scope: &Scope, session_key: &SessionKey) -> Result<u64, StoreError> {
        let (scope, session_key) = (scope.clone(), session_key.clone());
        self.write_erasing(move |connection, _| memories::forget_key(connection, &scope, &session_key)).await
    }

    async fn remember(&self, query: MemoryQuery) -> Result<Remembered, StoreError> {
        let known = match self.remembered.answer(&query) {
            Ok(remembered) => return Ok(remembered),
            Err(known) => known,
        };
        let cache = Arc::clone(&self.remembered);
        self.readers.read(move |connection| cache.read(connection, &query, known)).await
    }

    async fn want_readings(&self, wanted: bool) -> Result<(), StoreError> {
        self.write_beside_turns(move |connection, _| memories::readings::want(connection, wanted)).await
    }

    async fn next_reading(&self, now: Timestamp) -> Result<Option<Reading>, StoreError> {
        self.write_beside_turns(move |connection, instance| memories::readings::next(connection, instance, now)).await
    }

    async fn end_reading(&self, reading: Reading, end: ReadingEnd, now: Timestamp) -> Result<bool, StoreError> {
        self.write_beside_turns(move |connection, _| memories::readings::end(connection, &reading, &end, now)).await
    }

    async fn still_quotable(&self, lease: Lease, recall: &Recall) -> Result<bool, StoreError> {
        let recall = recall.clone();
        self.readers
            .read(move |connection| memories::recalls::still_holds(connection, lease.conversation, &recall))
            .await
    }

    async fn all_recorded(&self, tenant: TenantId, id: ConversationId, through: Seq) -> Result<bool, StoreError> {
        self.readers.read(move |connection| memories::recorded::all_through(connection, tenant, id, through)).await
    }

    fn use_outbox(&self) {
        self.uses_outbox.store(true, Ordering::Release);
    }

    async fn store_name(&self) -> Result<Arc<str>, StoreError> {
        self.readers.read(outbox::store_name).await
    }

    async fn next_delivery(&self, now: Timestamp) -> Result<Option<Delivery>, StoreError> {
        if !self.readers.read(move |connection| outbox::claims::is_due(connection, now)).await? {
            return Ok(None);
        }
        self.write_beside_turns(move |connection, instance| outbox::claims::next(connection, instance, now)).await
    }

    async fn settle_delivery(
        &self,
        claim: DeliveryClaim,
        outcome: DeliveryOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let erasures = Arc::clone(&self.writer.erasures);
        self.write_beside_turns(move |connection, _| {
            // A session key may leave the file with the row.
            erasures.add();
            outbox::claims::settle(connection, claim, &outcome, now)
        })
        .await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        self.readers.read(outbox::backlog).await
    }

    async fn erased_not_delivered(
        &self,
        tenant: TenantId,
        session_key: &SessionKey,
    ) -> Result<ErasedNotDelivered, StoreError> {
        let key = session_key.clone();
        self.readers.read(move |connection| outbox::erased_not_delivered(connection, tenant, &key)).await
    }

    async fn rewrite(&self, rewrite: Rewrite) -> Result<RewriteOutcome, StoreError> {
        self.write_erasing(move |connection, instance| rewrite::rewrite(connection, instance, &rewrite)).await
    }

    async fn rewind(&self, rewind: Rewind) -> Result<RewindOutcome, StoreError> {
        self.write(move |connection, instance| rewind::rewind(connection, instance, &rewind)).await
    }

    async fn restore_rewound(&self, scope: &Scope, alias: &Alias, now: Timestamp) -> Result<RewindOutcome, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.write(move |connection, instance| rewind::restore(connection, instance, &scope, &alias, now)).await
    }

    async fn compact(&self, compaction: NewCompaction) -> Result<CompactOutcome, StoreError> {
        self.write(move |connection, instance| compact::compact(connection, instance, &compaction)).await
    }

    async fn undo(&self, undo: Undo) -> Result<UndoOutcome, StoreError> {
        self.write(move |connection, instance| undo::undo(connection, instance, &undo)).await
    }

    fn record_failed(&self, failed: FailedCompaction) {
        self.write_lazily(move |connection| {
            admissions::write_out_all(connection)?;
            ledger::record_failed(connection, &failed)
        });
    }

    async fn compactions(
        &self,
        scope: &Scope,
        alias: &Alias,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Option<LedgerPage>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.read(move |connection| ledger::page(connection, &scope, &alias, before, limit)).await
    }

    async fn compaction(
        &self,
        scope: &Scope,
        alias: &Alias,
        id: CompactionId,
    ) -> Result<Option<Compaction>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        self.read(move |connection| ledger::one(connection, &scope, &alias, id)).await
    }

    async fn pin(
        &self,
        scope: &Scope,
        alias: &Alias,
        message: MessageId,
        pinned: bool,
    ) -> Result<PinOutcome, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        let change = if pinned { pins::pin } else { pins::unpin };
        self.write(move |connection, _| change(connection, &scope, &alias, message)).await
    }

    async fn pinned(&self, tenant: TenantId, conversation: ConversationId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.readers.read(move |connection| pins::pinned(connection, tenant, conversation)).await
    }

    async fn import(&self, import: Import) -> Result<ImportOutcome, StoreError> {
        self.write(move |connection, _| import::import_all(connection, &import)).await
    }

    async fn events(&self, scope: &Scope, from: EventsFrom, limit: usize) -> Result<EventPage, StoreError> {
        let scope = scope.clone();
        let (page, total) = self.read(move |connection| events::page(connection, &scope, from, limit)).await?;
        if total > self.synced_events.load(Ordering::Acquire) {
            // What was read is in the log by now, whichever process wrote it. One sync makes all of it durable.
            self.write_beside_turns(|_, _| Ok(())).await?;
            self.synced_events.fetch_max(total, Ordering::AcqRel);
        }
        Ok(page)
    }

    fn watch_events(&self) -> watch::Receiver<i64> {
        self.new_events.subscribe()
    }

    async fn copy_out(&self, scope: &Scope, alias: &Alias) -> Result<Option<Copying>, StoreError> {
        let (scope, alias) = (scope.clone(), alias.clone());
        if self.readers.read(admissions::is_any).await? {
            self.write_out_admissions().await;
        }
        let (found, is_found) = oneshot::channel();
        let (taker, pieces) = mpsc::channel(copy::WAITING);
        let readers = self.readers.clone();
        tokio::spawn(async move {
            let pieces = taker.clone();
            let read = readers.read(move |connection| copy::out(connection, &scope, &alias, found, &pieces)).await;
            if let Err(error) = read {
                let _ = taker.send(Err(error)).await;
            }
        });
        match is_found.await {
            Ok(found) => Ok(found.map(|is_inherited| Copying { is_inherited, pieces })),
            // The reader failed before it answered; its error is in the channel.
            Err(_) => Err(first_error(pieces).await),
        }
    }

    async fn restore(&self, restoration: Restoration) -> Result<RestoreOutcome, StoreError> {
        let is_meant = restoration.intent == RestoreIntent::Restore;
        let keep = move |outcome: &RestoreOutcome| is_meant && *outcome == RestoreOutcome::Made;
        self.write_if(move |connection| copy::restore(connection, &restoration), keep).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        // Tests what every turn needs: this process's lock file, its row, and a log that can be synced.
        self.write_beside_turns(|connection, instance| instance.renew(connection, maintenance::now()).map(drop)).await
    }

    async fn close(&self) {
        self.notices.close();
        // Close one after the other, and the writer last. The last connection to close copies the log into the
        // database. A read-only connection cannot do that, and no connection does it if two close at the same moment.
        self.readers.close();
        self.stop.store(true, Ordering::Release);
        let mut threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let writer = Arc::clone(&self.writer);
        let ended = tokio::task::spawn_blocking(move || {
            if let Some(maintenance) = threads.pop() {
                maintenance.thread().unpark();
                let _ = maintenance.join();
            }
            writer.stop();
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        let _ = ended.await;
    }
}

/// The error of a reader that failed before it answered.
async fn first_error(mut pieces: mpsc::Receiver<Result<Piece, StoreError>>) -> StoreError {
    match pieces.recv().await {
        Some(Err(error)) => error,
        Some(Ok(_)) | None => StoreError::Unavailable("a read was broken off".to_owned()),
    }
}
