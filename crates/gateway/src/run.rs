//! A turn of a conversation, from its lease to its commit.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use herma_model::alias::Namespace;
use herma_model::generation::Finish;
use herma_model::turn::FailureCode;
use herma_model::{
    Alias, Answer, CallEnd, CallId, CallStatus, ConversationId, Digest, HistoryEnd, MessageStatus, NewMessage, Step,
    TurnFailure, TurnState, Utterance,
};
use herma_store::{
    Commit, Committed, Lease, MadeTitle, PendingApproval, Receipt, Resumed, Snapshot, StoreError, TurnOutcome, Version,
};
use herma_telemetry::{Span, SpanKind};
use herma_turn::{Ending, Machine, Stop};
use herma_wire::chat::client_utterance;
use tokio::sync::watch;

use crate::access::KeyTurn;
use crate::admission::{AdmittedTurn, defect};
use crate::answer::{client_answer, unknown_finish, wants_json, whole_answer};
use crate::compaction;
use crate::crash;
use crate::driver::drive_from;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::journal::{Journal, record_of_answered, record_of_unanswered};
use crate::log::{Finished, SessionView, TurnEvent, TurnLog};
use crate::memory::unrecorded;
use crate::mint;
use crate::parked::ResumedWith;
use crate::replay::replay;
use crate::request::{ConversationRef, TurnRequest};
use crate::running::{End, RunningTurn};
use crate::spans;
use crate::stored_turn::{StoredTurn, tell};

/// A turn that holds its lease.
pub(crate) struct Run<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) request: &'a TurnRequest,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
    /// How it counts for its API key. Given back before its listeners are told the end: a client may ask again at once.
    pub(crate) key_turn: &'a mut Option<KeyTurn>,
}

/// Proof that the listeners of a turn know its end.
pub(crate) struct EndTold;

impl Run<'_> {
    /// Runs the turn to its end and tells its listeners. `None` if it is parked and has not ended. Not cancel-safe: if
    /// the future is dropped, the turn is given up.
    pub(crate) async fn finish(&mut self, admitted: Box<AdmittedTurn>) -> Option<EndTold> {
        let turn = Box::new(RunningTurn::of(*admitted, self.request));
        let guard = LeaseGuard::new(self.gateway, turn.running.lease, turn.session.facts.id);
        crash::point(crash::ADMITTED);
        self.run(turn, guard, None).await
    }

    /// Resumes a parked turn. Otherwise like [`Run::finish`].
    pub(crate) async fn resume(&mut self, resumed: Resumed, with: ResumedWith) -> Option<EndTold> {
        let (turn, record, approvals) = RunningTurn::resumed(resumed, with.alias, self.request);
        let mut turn = Box::new(turn);
        let guard = LeaseGuard::new(self.gateway, turn.running.lease, turn.session.facts.id);
        turn.usage = with.usage;
        turn.session.requested = with.requested;
        tell(self.request, self.log, turn.started());
        for event in replay(&record, &turn.session) {
            tell(self.request, self.log, event);
        }
        turn.is_told = true;
        self.run(turn, guard, Some(approvals)).await
    }

    async fn run(
        &mut self,
        mut turn: Box<RunningTurn>,
        mut guard: LeaseGuard<'_>,
        approvals: Option<Vec<PendingApproval>>,
    ) -> Option<EndTold> {
        let event = match self.answer(&mut turn, approvals).await {
            Ok(Ending::Parked) => {
                guard.is_over();
                return None;
            }
            Ok(ending) => self.end(turn, ending, guard).await,
            Err(error) => failed(lost(error)),
        };
        crash::point(crash::COMMITTED);
        *self.key_turn = None;
        self.log.push(event);
        Some(EndTold)
    }

    async fn answer(
        &mut self,
        turn: &mut RunningTurn,
        approvals: Option<Vec<PendingApproval>>,
    ) -> Result<Ending, StoreError> {
        let gateway = self.gateway;
        let tools = gateway.offer(self.request, &turn.session.facts).await;
        let rules = tools.rules(self.request);
        self.note_replacement(turn).await?;
        if let Some(off) = unrecorded(self.request) {
            turn.recall.get_or_insert_with(|| Arc::new(off));
        } else if let Some(key) = turn.session.facts.session_key.clone() {
            // On the heap, so that turns without a session key do not carry its state.
            Box::pin(gateway.recall_into(self.request, turn, key)).await;
        }
        let decided = match approvals {
            Some(approvals) => turn.decided_by_people(&approvals, &tools),
            None => turn.decided_by_request(&self.request.input.approvals, &tools),
        };
        let (mut machine, first) = match decided.is_empty() {
            true => Machine::begin(rules),
            false => Machine::go_on(rules),
        };
        let model = gateway.settings.resolve_model(self.request.options.model.as_deref());
        let _at_model = gateway.at_model(model.server, Some(turn.session.facts.id));
        let mut journal = Journal::of(self.request);
        journal.next_message(self.log);
        let mut host = StoredTurn {
            gateway,
            request: self.request,
            log: self.log,
            stop: self.stop,
            turn,
            journal,
            tools,
            decided,
            children_left: Arc::new(AtomicU32::new(gateway.settings.tools.delegate.max_children)),
        };
        drive_from(gateway.server_of(&model), &mut machine, first, &mut host).await
    }

    /// Writes down what the client has put in place of a part of its history. The client knows of it, so its listeners
    /// are not told.
    async fn note_replacement(&self, turn: &mut RunningTurn) -> Result<(), StoreError> {
        let (Some(replacement), Some(snapshot)) = (turn.replacement.take(), &turn.before) else { return Ok(()) };
        let lease = turn.running.lease;
        let noted = self.gateway.note_client_compaction(self.request, snapshot, lease, &replacement).await?;
        if let Some((compacted, base)) = noted {
            turn.compacted(&compacted, base);
        }
        Ok(())
    }

    /// Writes the end to the store. Returns the last event for the listeners.
    async fn end(&self, turn: Box<RunningTurn>, ending: Ending, guard: LeaseGuard<'_>) -> TurnEvent {
        crash::point(crash::ANSWERED);
        match ending {
            Ending::Answered(answer) => {
                let tools = &self.request.options.client_tools;
                let mut said = client_utterance(&answer, MessageStatus::Complete, tools);
                let has_earlier = turn.steps.iter().any(|step| step.model_message().is_some());
                let unstored = match has_earlier {
                    true => Unstored::Text(answer.content.clone()),
                    false => Unstored::Whole,
                };
                let last = LastCall { finish: answer.finish.clone(), unstored };
                let whole = Box::new(self.whole(&turn, *answer));
                if has_earlier {
                    said = said.with_shown_digest(client_utterance(&whole, MessageStatus::Complete, tools).digest);
                }
                let message = NewMessage { id: turn.next_id(), said };
                self.complete(turn, vec![message], last, whole, guard).await
            }
            Ending::AfterLastStep => {
                let finish = turn.last_finish.clone().unwrap_or_else(unknown_finish);
                let Some(last) = turn.last_said() else { return failed(GatewayError::Turn(defect())) };
                let mut answer = client_answer(&last.said, finish);
                // The append of the message has counted its model call.
                answer.finish.usage = None;
                let call = LastCall { finish: answer.finish.clone(), unstored: Unstored::Text(None) };
                let earlier = turn.steps.iter().filter_map(Step::model_message).filter(|said| said.id != last.id);
                let json = wants_json(&self.request.options.params);
                let whole = Box::new(whole_answer(earlier, answer, turn.usage, json));
                self.complete(turn, Vec::new(), call, whole, guard).await
            }
            Ending::Parked => failed(GatewayError::Turn(defect())),
            Ending::Unanswered { state, failure, shown } => {
                self.end_unanswered(turn, state, failure, shown, guard).await
            }
            Ending::TooLong(failure) => {
                let why = "there is nothing left to summarise";
                let status = failure.status;
                let failure = TurnFailure { upstream_status: status, ..compaction::exceeded(&failure.message, why) };
                self.take_back(turn, failure, guard).await
            }
            Ending::Refused(failure) => self.take_back(turn, failure, guard).await,
        }
    }

    /// The answer as the client is shown it: all messages of the turn as one.
    fn whole(&self, turn: &RunningTurn, last: Answer) -> Answer {
        let earlier = turn.steps.iter().filter_map(Step::model_message);
        whole_answer(earlier, last, turn.usage, wants_json(&self.request.options.params))
    }

    /// What the client of a turn has seen when it has the answer.
    fn seen_with(&self, turn: &RunningTurn, shown: Option<Digest>, answer: &Answer) -> Option<HistoryEnd> {
        let tools = &self.request.options.client_tools;
        let last = shown.unwrap_or_else(|| client_utterance(answer, MessageStatus::Complete, tools).digest);
        turn.history.map(|seen| HistoryEnd { history: seen.answered_by(last), last })
    }

    /// Ends a turn with an answer. `last` is how its last model call ended, `whole` what clients are shown.
    async fn complete(
        &self,
        turn: Box<RunningTurn>,
        messages: Vec<NewMessage>,
        last: LastCall,
        whole: Box<Answer>,
        mut guard: LeaseGuard<'_>,
    ) -> TurnEvent {
        let shown = messages.last().map(|message| message.said.digest_shown());
        let outcome = TurnOutcome::Completed { messages, finish: last.finish.clone() };
        let record = record_of_answered(self.request, self.log);
        let mut naming = self.gateway.naming(self.request, &turn, &whole);
        let (is_named, title) = (naming.is_settled(), naming.title.take());
        let history = self.seen_with(&turn, shown, &whole);
        match self.commit(&turn, outcome, CommitExtras { record, title, history }, &mut guard).await {
            Ok((committed, durable)) => {
                let mut steps = turn.steps.clone();
                steps.extend(Step::of_messages(&committed.messages, &[]));
                let said = steps.iter().rev().find_map(Step::model_message);
                let Some(message) = said.map(Arc::clone) else { return failed(GatewayError::Turn(defect())) };
                let finished = Finished {
                    turn: turn.running.turn,
                    tenant: turn.running.lease.tenant,
                    started_at: turn.running.started_at,
                    session: Some(SessionView { revision: Some(committed.revision), ..turn.session.clone() }),
                    answer: *whole,
                    steps,
                    message,
                };
                let end = End::Answered(last.finish.usage);
                let (alias, seen) = (turn.alias.clone(), turn.running.version);
                let mut snapshot = turn.into_snapshot(&committed, end, history);
                snapshot.untitled &= !is_named;
                compaction::prepare(self.gateway, self.request, &snapshot);
                naming.ask(self.gateway);
                self.keep(&alias, snapshot, seen, history);
                self.told_when_durable(TurnEvent::Finished(Arc::new(finished)), durable, guard).await
            }
            Err(StoreError::StopRequested(kind)) => {
                let shown = match last.unstored {
                    Unstored::Whole => whole.content,
                    Unstored::Text(text) => text,
                };
                let ending = Ending::stopped(kind.into(), shown);
                Box::pin(self.end(turn, ending, guard)).await
            }
            Err(error) => failed(lost(error)),
        }
    }

    /// Removes a refused turn from the store, as if it had never been admitted.
    async fn take_back(&self, turn: Box<RunningTurn>, failure: TurnFailure, mut guard: LeaseGuard<'_>) -> TurnEvent {
        let has_messages = turn.steps.iter().any(|step| step.stored_message().is_some());
        if self.request.is_visible_while_queued() || has_messages {
            // Clients may know its id, or it has called tools: it stays, as a failed turn.
            return self.end_unanswered(turn, TurnState::Failed, failure, None, guard).await;
        }
        match self.gateway.store.retract(turn.running.lease).await {
            Ok(()) => guard.is_over(),
            Err(error) => tracing::warn!(%error, "a refused turn could not be taken back"),
        }
        failed(GatewayError::Turn(failure))
    }

    async fn end_unanswered(
        &self,
        turn: Box<RunningTurn>,
        state: TurnState,
        failure: TurnFailure,
        shown: Option<String>,
        mut guard: LeaseGuard<'_>,
    ) -> TurnEvent {
        // Text that no client was shown is not stored.
        let shown = shown.filter(|_| self.request.options.streaming);
        let messages = self.last_messages(&turn, shown.as_deref()).await;
        let outcome = TurnOutcome::Unanswered { state, failure: failure.clone(), messages };
        let record = record_of_unanswered(self.request, self.log);
        let extras = CommitExtras { record, title: None, history: None };
        match self.commit(&turn, outcome, extras, &mut guard).await {
            Ok((committed, durable)) => {
                let (alias, seen) = (turn.alias.clone(), turn.running.version);
                self.keep(&alias, turn.into_snapshot(&committed, End::Unanswered(state), None), seen, None);
                self.told_when_durable(failed(GatewayError::Turn(failure)), durable, guard).await
            }
            Err(error) => failed(lost(error)),
        }
    }

    /// The last messages of a turn without an answer: results of calls that were cut off, and the streamed text.
    async fn last_messages(&self, turn: &RunningTurn, shown: Option<&str>) -> Vec<NewMessage> {
        let mut results: Vec<Utterance> = turn.unwritten.iter().map(|result| result.said.clone()).collect();
        let is_known = |call: &CallId| turn.unwritten.iter().any(|result| result.said.calls.contains(call));
        let decided = turn.cut_off_decisions().into_iter();
        results.extend(decided.filter(|said| !said.calls.iter().any(is_known)));
        for call in turn.unsettled_calls().into_iter().filter(|call| !is_known(&call.id)) {
            let text = self.gateway.cut_off_call(turn, &call).await;
            let uncertain = CallEnd::at_once(CallStatus::Uncertain);
            results.push(Utterance::tool_result(&call.id, &text, &uncertain));
        }
        let said = results.into_iter().chain(shown.map(Utterance::partial_text));
        turn.next_ids().zip(said).map(|(id, said)| NewMessage { id, said }).collect()
    }

    /// Caches the conversation as it is now. Not if another change than this turn's end was made after version `seen`.
    /// `answered` is the end of the client's history if the turn was answered.
    fn keep(&self, alias: &Alias, snapshot: Snapshot, seen: Version, answered: Option<HistoryEnd>) {
        if snapshot.version != Version(seen.0 + 1) {
            return;
        }
        let namespace = match &self.request.destination.conversation {
            ConversationRef::Named { namespace, .. } => *namespace,
            ConversationRef::New
            | ConversationRef::ByHistory
            | ConversationRef::Stateless
            | ConversationRef::After(_) => Namespace::Session,
        };
        let trail = answered.and_then(|end| Some(self.request.history_trail()?.answered_by(end.last)));
        self.gateway.cache.put(self.request.caller.principal.tenant, namespace, alias, snapshot, trail);
    }

    /// Writes the end, so that all see it. [`Run::told_when_durable`] waits until it is on disk.
    async fn commit(
        &self,
        turn: &RunningTurn,
        outcome: TurnOutcome,
        CommitExtras { record, title, history }: CommitExtras,
        guard: &mut LeaseGuard<'_>,
    ) -> Result<(Committed, Syncing), StoreError> {
        let cost = match &outcome {
            TurnOutcome::Completed { finish, .. } => {
                let model = self.gateway.settings.resolve_model(self.request.options.model.as_deref());
                self.gateway.settings.cost(&model, finish.usage)
            }
            TurnOutcome::Unanswered { .. } => None,
        };
        let commit = Commit {
            lease: turn.running.lease,
            session: turn.session.facts.head.id.clone(),
            outcome,
            system: turn.new_system.clone(),
            cost,
            record,
            history,
            title,
            recall: turn.unstored_recall(),
            now: mint::now(),
        };
        let span = self.request.trace.begin(SpanKind::Internal, || spans::COMMIT);
        let began = Instant::now();
        // The next turn in line need not wait for the disk. And a turn that is alone has done the rest of its work when
        // the disk is ready. Any other turn saves a wake-up.
        let is_awaited = self.gateway.live.lines.is_awaited(turn.session.facts.id);
        let committed = match is_awaited || self.gateway.live_turns() <= 1 {
            true => self.gateway.store.commit_visibly(commit).await,
            false => self.gateway.store.commit(commit).await.map(|committed| (committed, Receipt::durable())),
        };
        if committed.is_ok() {
            guard.is_over();
            self.gateway.note_commit();
        }
        committed.map(|(committed, receipt)| (committed, Syncing { receipt, began, span }))
    }

    /// Has the next turn in line go on, and waits until the end of this one is on disk. Returns the turn's last event.
    async fn told_when_durable(&self, event: TurnEvent, mut end: Syncing, guard: LeaseGuard<'_>) -> TurnEvent {
        drop(guard);
        crash::point(crash::VISIBLE);
        let synced = end.receipt.wait().await;
        drop(end.span);
        self.gateway.counters.committed(end.began.elapsed());
        match synced {
            Ok(()) => event,
            Err(error) => failed(lost(error)),
        }
    }
}

/// The end of a turn, visible to all and on its way to the disk.
struct Syncing {
    receipt: Receipt,
    began: Instant,
    span: Span,
}

/// The last model call of a turn with an answer.
struct LastCall {
    /// How it ended.
    finish: Finish,
    /// The part of the answer that only the commit stores.
    unstored: Unstored,
}

/// The text of an answer that is lost if its turn is stopped before the commit, unless it is stored as partial.
enum Unstored {
    /// All that clients are shown.
    Whole,
    /// This.
    Text(Option<String>),
}

/// What is written with the end of a turn besides its outcome.
struct CommitExtras {
    /// In what pieces its answer was streamed.
    record: Option<String>,
    /// The new title of its conversation.
    title: Option<MadeTitle>,
    /// What its client has seen with the answer.
    history: Option<HistoryEnd>,
}

/// A lease in use. Dropping it gives up an unfinished turn, also after a panic, and wakes the next turn in line.
pub(crate) struct LeaseGuard<'a> {
    gateway: &'a Gateway,
    lease: Lease,
    conversation: ConversationId,
    over: bool,
}

impl<'a> LeaseGuard<'a> {
    pub(crate) fn new(gateway: &'a Gateway, lease: Lease, conversation: ConversationId) -> Self {
        Self { gateway, lease, conversation, over: false }
    }

    /// Notes that the turn's end is written and the lease is free.
    pub(crate) fn is_over(&mut self) {
        self.over = true;
    }
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.gateway.store.abandon(self.lease);
        }
        self.gateway.live.wake_first(self.conversation);
    }
}

fn failed(error: GatewayError) -> TurnEvent {
    TurnEvent::Failed(Arc::new(error))
}

/// What the client of a turn that could not be committed is told: it was interrupted, or the store failed.
pub(crate) fn lost(error: StoreError) -> GatewayError {
    match error {
        StoreError::Fenced | StoreError::StopRequested(_) => {
            GatewayError::Turn(TurnFailure::new(FailureCode::Interrupted, "another turn took this conversation over"))
        }
        other => GatewayError::Store(other),
    }
}
