//! The fixture of the suite: two instances on one database, two tenants, and helpers that do what a gateway does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use herma_model::alias::Namespace;
use herma_model::generation::Finish;
use herma_model::message::Utterance;
use herma_model::turn::FailureCode;
use herma_model::{
    Alias, ConversationId, CreatorKind, FinishReason, KeyScope, Message, MessageId, MessageStatus, NewMessage, Payload,
    Role, SessionId, SessionKind, Timestamp, TurnFailure, TurnId, TurnState, Usage,
};
use uuid::Uuid;

use super::Engine;
use crate::{
    Admission, AdmitOutcome, Append, Archived, ClientConnection, Commit, Committed, ConversationRow, Creation,
    Durability, Extent, Intent, Lease, ListFilter, Pin, Refusal, RetryIdentity, Running, Scope, Seen, Snapshot, Store,
    StoreError, StreamedOutput, Target, Ticket, TurnOutcome, TurnPolicy, TurnRecord,
};

/// Streamed text, with a record of it.
pub fn noted(text: &str) -> StreamedOutput {
    StreamedOutput { text: text.to_owned(), record: format!("[{text}]") }
}

/// The failure of a cancelled turn.
pub fn cancelled() -> TurnFailure {
    TurnFailure::new(FailureCode::Cancelled, "the turn was cancelled")
}

/// How often an admission reads the conversation again. If more is needed, no turn makes progress.
const MAX_TRIES: u32 = 200;

/// Two instances on one database, and a clock that begins now.
pub struct World<S> {
    pub one: Arc<S>,
    pub two: Arc<S>,
    pub scope: Scope,
    pub stranger: Scope,
    /// Whether messages were removed, so that there may be gaps.
    pub(super) rewritten: Arc<AtomicBool>,
    /// When the test began. Older conversations were in the database before.
    pub(super) began: Timestamp,
    clock: Arc<AtomicI64>,
}

impl<S> Clone for World<S> {
    fn clone(&self) -> Self {
        Self {
            one: Arc::clone(&self.one),
            two: Arc::clone(&self.two),
            scope: self.scope.clone(),
            stranger: self.stranger.clone(),
            rewritten: Arc::clone(&self.rewritten),
            began: self.began,
            clock: Arc::clone(&self.clock),
        }
    }
}

/// Parses a valid name.
pub fn name(text: &str) -> Alias {
    Alias::parse(text).unwrap()
}

/// A message of this role, with a random id.
pub fn message(role: Role, text: &str) -> NewMessage {
    let role_name = role.as_str();
    let said = Utterance {
        role,
        status: MessageStatus::Complete,
        payload: Payload::from_json(format!("{{\"role\":\"{role_name}\",\"content\":\"{text}\"}}")),
        extra: None,
        digest: Utterance::text_digest(role, text),
        calls: Arc::from([]),
        tokens: 7,
    };
    NewMessage { id: MessageId::from_uuid(Uuid::now_v7()), said }
}

/// The end of an answer, with token counts of the model server.
pub fn finish() -> Finish {
    let usage = Usage { input: 10, output: 3, cached: 2, reasoning: 1, cache_write: 4 };
    Finish {
        reason: FinishReason::Stop,
        usage: Some(usage),
        model: Some("model-1".to_owned()),
        extra: Default::default(),
    }
}

/// Returns the lease; panics on any other outcome.
pub fn running(outcome: AdmitOutcome) -> Running {
    match outcome {
        AdmitOutcome::Running(running) => *running,
        other => panic!("expected the lease, got {other:?}"),
    }
}

/// Returns the ticket; panics on any other outcome.
pub fn queued(outcome: AdmitOutcome) -> Ticket {
    match outcome {
        AdmitOutcome::Queued { ticket, .. } => ticket,
        other => panic!("expected a place in the queue, got {other:?}"),
    }
}

/// Returns the joined turn; panics on any other outcome.
pub fn joined(outcome: AdmitOutcome) -> TurnId {
    match outcome {
        AdmitOutcome::Joined(turn) => turn,
        other => panic!("expected to join a turn, got {other:?}"),
    }
}

/// Returns the refusal; panics on any other outcome.
pub fn refused(outcome: AdmitOutcome) -> Refusal {
    match outcome {
        AdmitOutcome::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The messages that a turn answered with.
pub fn answer_of(record: &TurnRecord) -> Vec<Arc<Message>> {
    record.said().cloned().collect()
}

/// The texts of a snapshot's messages, in order.
pub fn texts(snapshot: &Snapshot) -> Vec<String> {
    snapshot.messages.iter().map(|message| text_of(message.said.payload.as_json())).collect()
}

/// The content of a payload that [`message`] or a partial answer made.
pub fn text_of(json: &str) -> String {
    let (_, rest) = json.split_once("\"content\":\"").expect("a message with content");
    rest.split('"').next().unwrap().to_owned()
}

impl<S: Store> World<S> {
    pub async fn new<E: Engine<Store = S>>(engine: &E) -> Self {
        let (one, two) = (engine.open().await, engine.open().await);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let clock = Arc::new(AtomicI64::new(i64::try_from(began).unwrap()));
        let now = Timestamp(clock.load(Ordering::Relaxed));
        let tenant = one.ensure_tenant("tenant", now).await.unwrap();
        let other = two.ensure_tenant("stranger", now).await.unwrap();
        let scope = |tenant| Scope { tenant, keys: KeyScope::All, expected: None };
        Self { one, two, scope: scope(tenant), stranger: scope(other), rewritten: Arc::default(), began: now, clock }
    }

    /// A time after all earlier ones.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Moves the clock forward.
    pub fn advance_clock(&self, span: Duration) {
        self.clock.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// A turn with one user message, for the conversation that a name leads to.
    pub fn ask(&self, to: &str, text: &str) -> Admission {
        let alias = name(to);
        let target = Target::Alias { alias, namespace: Namespace::Session, must_exist: false };
        Admission { target, ..self.ask_anew(text) }
    }

    /// A turn with one user message, for a new conversation.
    pub fn ask_anew(&self, text: &str) -> Admission {
        let fingerprint = Uuid::now_v7().into_bytes();
        let turn = TurnId::with_room(Uuid::now_v7());
        let id = MessageId::brought(turn, 1, 0);
        Admission {
            scope: self.scope.clone(),
            turn,
            ticket: None,
            intent: Intent::Lease,
            target: Target::New,
            seen: Seen::Nothing,
            messages: vec![NewMessage { id, ..message(Role::User, text) }],
            session_key: None,
            policy: TurnPolicy::Queue,
            queue_limit: 100,
            takes_over: false,
            interrupt_grace: Duration::from_secs(2),
            retry: RetryIdentity { fingerprint, sdk_attempt: 0, is_named: true, unseen: false, idempotency: None },
            client: ClientConnection::default(),
            may_reopen: true,
            opening: None,
            own_history_alone: false,
            expected_history: None,
            retry_of: None,
            anew_of: None,
            creation: Creation {
                conversation: ConversationId::from_uuid(Uuid::now_v7()),
                session: SessionId::from_uuid(Uuid::now_v7()),
                kind: SessionKind::Main,
                creator: CreatorKind::Api,
                source: Arc::from("contract"),
                owner: None,
                reason: None,
                parent: None,
                parent_tool_call: None,
                chat: None,
            },
            response: None,
            durability: Durability::Now,
            api: "contract",
            now: self.now(),
        }
    }

    /// A turn with one user message, for a branch that begins where another turn ended.
    pub fn ask_branch(&self, source: TurnId, text: &str) -> Admission {
        Admission { target: Target::Branch { source }, ..self.ask_anew(text) }
    }

    /// Runs a whole turn in a new branch.
    pub async fn branch(&self, store: &S, source: TurnId, question: &str, answer: &str) -> Running {
        let turn = running(self.admit(store, self.ask_branch(source, question)).await);
        self.answer(store, &turn, answer).await;
        turn
    }

    /// Asks for the lease as a gateway does: reads and asks, and reads again if that was stale. Waits until the lease
    /// is on disk.
    pub async fn admit(&self, store: &S, mut admission: Admission) -> AdmitOutcome {
        for _ in 0..MAX_TRIES {
            admission.seen = self.seen(store, &admission).await;
            admission.now = self.now();
            match store.admit(admission.clone()).await.unwrap() {
                AdmitOutcome::Stale => {}
                AdmitOutcome::Running(mut running) => {
                    running.durable.wait().await.unwrap();
                    return AdmitOutcome::Running(running);
                }
                outcome => return outcome,
            }
        }
        panic!("always stale");
    }

    /// What the caller of this admission sees of its conversation now.
    pub async fn seen(&self, store: &S, admission: &Admission) -> Seen {
        let (alias, namespace, extent) = match &admission.target {
            Target::New => return Seen::Nothing,
            Target::Alias { alias, namespace, .. } => (alias.clone(), *namespace, Extent::View),
            Target::Branch { source } => (name(&source.to_string()), Namespace::Session, Extent::At(*source)),
            Target::Anew { .. } => return Seen::Nothing,
        };
        let snapshot = store.open(&admission.scope, &alias, namespace, extent).await.unwrap();
        snapshot.map_or(Seen::Nothing, |snapshot| Seen::At(snapshot.facts.id, snapshot.version))
    }

    /// Starts a turn, which gets the lease.
    pub async fn start(&self, store: &S, to: &str, text: &str) -> Running {
        running(self.admit(store, self.ask(to, text)).await)
    }

    /// Queues a turn; returns it with its ticket.
    pub async fn queue(&self, store: &S, admission: Admission) -> Admission {
        let ticket = queued(self.admit(store, admission.clone()).await);
        Admission { ticket: Some(ticket), ..admission }
    }

    /// Appends a message to a running turn.
    pub async fn append(&self, store: &S, turn: &Running, nth: usize, text: &str) -> Result<Committed, StoreError> {
        let id = MessageId::answered(turn.turn, turn.attempt, nth);
        let messages = vec![NewMessage { id, ..message(Role::Assistant, text) }];
        let stored = self.turn(turn.turn).await;
        let session = stored.map_or_else(|| turn.facts.head.id.clone(), |turn| turn.facts.head.id.clone());
        let (lease, now) = (turn.lease, self.now());
        store
            .append(Append { lease, session, messages, usage: None, cost: None, record: None, recall: None, now })
            .await
    }

    /// Ends a turn with an answer.
    pub async fn answer(&self, store: &S, turn: &Running, text: &str) -> Committed {
        self.try_answer(store, turn, text).await.unwrap()
    }

    /// Tries to end a turn with an answer.
    pub async fn try_answer(&self, store: &S, turn: &Running, text: &str) -> Result<Committed, StoreError> {
        let id = MessageId::answered(turn.turn, turn.attempt, 0);
        let messages = vec![NewMessage { id, ..message(Role::Assistant, text) }];
        let outcome = TurnOutcome::Completed { messages, finish: finish() };
        store.commit(self.commit(turn, outcome)).await
    }

    /// Ends a turn without an answer.
    pub async fn leave(&self, store: &S, turn: &Running, state: TurnState, shown: Option<&str>) -> Committed {
        self.try_leave(store, turn, state, shown).await.unwrap()
    }

    /// Tries to end a turn without an answer.
    pub async fn try_leave(
        &self,
        store: &S,
        turn: &Running,
        state: TurnState,
        shown: Option<&str>,
    ) -> Result<Committed, StoreError> {
        let code = match state {
            TurnState::Interrupted => FailureCode::Interrupted,
            TurnState::Cancelled => FailureCode::Cancelled,
            _ => FailureCode::UpstreamError,
        };
        let id = MessageId::answered(turn.turn, turn.attempt, 0);
        let messages = shown.map(|text| NewMessage { id, said: Utterance::partial_text(text) }).into_iter().collect();
        let outcome = TurnOutcome::Unanswered { state, failure: TurnFailure::new(code, "it was not to be"), messages };
        store.commit(self.commit(turn, outcome)).await
    }

    /// The commit of a turn.
    pub fn commit(&self, turn: &Running, outcome: TurnOutcome) -> Commit {
        Commit {
            recall: None,
            lease: turn.lease,
            session: turn.facts.head.id.clone(),
            outcome,
            system: None,
            record: None,
            cost: None,
            history: None,
            title: None,
            now: self.now(),
        }
    }

    /// Gives up a place in the queue.
    pub async fn withdraw(&self, store: &S, scope: &Scope, turn: TurnId) {
        store.withdraw(scope, turn, cancelled(), self.now()).await.unwrap();
    }

    /// Runs a whole turn.
    pub async fn talk(&self, store: &S, to: &str, question: &str, answer: &str) -> Running {
        let turn = self.start(store, to, question).await;
        self.answer(store, &turn, answer).await;
        turn
    }

    /// The conversation that a name leads to, as the tenant sees it.
    pub async fn read(&self, to: &str) -> Option<Snapshot> {
        self.two.open(&self.scope, &name(to), Namespace::Session, Extent::View).await.unwrap()
    }

    /// The row of the conversation that a name leads to, as the tenant sees it.
    pub async fn row(&self, to: &str) -> Option<ConversationRow> {
        self.two.conversation(&self.scope, &name(to), Pin::Head).await.unwrap()
    }

    /// One turn as the tenant sees it.
    pub async fn turn(&self, id: TurnId) -> Option<TurnRecord> {
        self.two.turn(&self.scope, id).await.unwrap()
    }

    /// All conversations of a scope.
    pub async fn all(&self, scope: &Scope) -> Vec<ConversationRow> {
        let filter = ListFilter { archived: Archived::Any, limit: 1000, ..ListFilter::default() };
        self.two.conversations(scope, filter).await.unwrap().rows
    }

    /// Waits until an instance has finished its deferred writes.
    pub async fn settle(&self, store: &S) {
        for _ in 0..3 {
            store.check().await.unwrap();
        }
    }

    /// The same lease with the fence before it.
    pub fn older_lease(lease: Lease) -> Lease {
        Lease { fence: herma_model::Fence(lease.fence.0 - 1), ..lease }
    }
}
