//! A small world to try an engine in: two instances on one database, two tenants, and short ways to say what a gateway does.

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

/// Text that was shown, with a record of it.
pub fn noted(text: &str) -> StreamedOutput {
    StreamedOutput { text: text.to_owned(), record: format!("[{text}]") }
}

/// What is said of a turn that is called off.
pub fn cancelled() -> TurnFailure {
    TurnFailure::new(FailureCode::Cancelled, "the turn was cancelled")
}

/// Most times a conversation is read again before its lease is asked for; more means that nobody makes progress.
const MOST_TRIES: u32 = 200;

/// Two instances on one database, and a clock of its own that begins now.
pub struct World<S> {
    pub one: Arc<S>,
    pub two: Arc<S>,
    pub scope: Scope,
    pub stranger: Scope,
    /// Whether something was taken out of what was said, so that there may be gaps.
    pub(super) rewritten: Arc<AtomicBool>,
    /// When it began: what is older was there before.
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

/// A well-formed name.
pub fn name(text: &str) -> Alias {
    Alias::parse(text).unwrap()
}

/// A message of somebody, with an id that tells nothing.
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

/// An end that the model server counted.
pub fn finish() -> Finish {
    let usage = Usage { input: 10, output: 3, cached: 2, reasoning: 1, cache_write: 4 };
    Finish {
        reason: FinishReason::Stop,
        usage: Some(usage),
        model: Some("model-1".to_owned()),
        extra: Default::default(),
    }
}

/// The lease, or a panic that says what came instead.
pub fn running(outcome: AdmitOutcome) -> Running {
    match outcome {
        AdmitOutcome::Running(running) => *running,
        other => panic!("expected the lease, got {other:?}"),
    }
}

/// The ticket, or a panic that says what came instead.
pub fn queued(outcome: AdmitOutcome) -> Ticket {
    match outcome {
        AdmitOutcome::Queued { ticket, .. } => ticket,
        other => panic!("expected a place in the queue, got {other:?}"),
    }
}

/// The joined turn, or a panic that says what came instead.
pub fn joined(outcome: AdmitOutcome) -> TurnId {
    match outcome {
        AdmitOutcome::Joined(turn) => turn,
        other => panic!("expected to join a turn, got {other:?}"),
    }
}

/// The refusal, or a panic that says what came instead.
pub fn refused(outcome: AdmitOutcome) -> Refusal {
    match outcome {
        AdmitOutcome::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// What a turn answered with.
pub fn answer_of(record: &TurnRecord) -> Vec<Arc<Message>> {
    record.said().cloned().collect()
}

/// What the messages of a snapshot say, in order.
pub fn texts(snapshot: &Snapshot) -> Vec<String> {
    snapshot.messages.iter().map(|message| text_of(message.said.payload.as_json())).collect()
}

/// The content of a payload that [`message`] or a partial made.
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

    /// A moment after every earlier one.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Lets time pass.
    pub fn pass(&self, span: Duration) {
        self.clock.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// One user message for the conversation of a name.
    pub fn ask(&self, to: &str, text: &str) -> Admission {
        let alias = name(to);
        let target = Target::Alias { alias, namespace: Namespace::Session, must_exist: false };
        Admission { target, ..self.ask_anew(text) }
    }

    /// One user message for a conversation of its own.
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
            retry: RetryIdentity { fingerprint, sdk_attempt: 0, unseen: false, idempotency: None },
            client: ClientConnection::default(),
            may_reopen: true,
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
            },
            response: None,
            durability: Durability::Now,
            api: "contract",
            now: self.now(),
        }
    }

    /// One user message for a branch that begins where a turn ended.
    pub fn ask_branch(&self, source: TurnId, text: &str) -> Admission {
        Admission { target: Target::Branch { source }, ..self.ask_anew(text) }
    }

    /// A whole turn in a branch of its own.
    pub async fn branch(&self, store: &S, source: TurnId, question: &str, answer: &str) -> Running {
        let turn = running(self.admit(store, self.ask_branch(source, question)).await);
        self.answer(store, &turn, answer).await;
        turn
    }

    /// Asks as a gateway does: reads, asks, and reads again if that was stale. Waits until a lease is on disk.
    pub async fn admit(&self, store: &S, mut admission: Admission) -> AdmitOutcome {
        for _ in 0..MOST_TRIES {
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

    /// What a caller of this admission sees of its conversation now.
    pub async fn seen(&self, store: &S, admission: &Admission) -> Seen {
        let (alias, namespace, extent) = match &admission.target {
            Target::New => return Seen::Nothing,
            Target::Alias { alias, namespace, .. } => (alias.clone(), *namespace, Extent::View),
            Target::Branch { source } => (name(&source.to_string()), Namespace::Session, Extent::At(*source)),
        };
        let snapshot = store.open(&admission.scope, &alias, namespace, extent).await.unwrap();
        snapshot.map_or(Seen::Nothing, |snapshot| Seen::At(snapshot.facts.id, snapshot.version))
    }

    /// A turn that gets the lease.
    pub async fn start(&self, store: &S, to: &str, text: &str) -> Running {
        running(self.admit(store, self.ask(to, text)).await)
    }

    /// A turn that has to wait, and its place.
    pub async fn queue(&self, store: &S, admission: Admission) -> Admission {
        let ticket = queued(self.admit(store, admission.clone()).await);
        Admission { ticket: Some(ticket), ..admission }
    }

    /// Writes a message of a turn that goes on.
    pub async fn append(&self, store: &S, turn: &Running, nth: usize, text: &str) -> Result<Committed, StoreError> {
        let id = MessageId::answered(turn.turn, turn.attempt, nth);
        let messages = vec![NewMessage { id, ..message(Role::Assistant, text) }];
        let stored = self.turn(turn.turn).await;
        let session = stored.map_or_else(|| turn.facts.head.id.clone(), |turn| turn.facts.head.id.clone());
        store.append(Append { lease: turn.lease, session, messages, record: None, now: self.now() }).await
    }

    /// Ends a turn with an answer.
    pub async fn answer(&self, store: &S, turn: &Running, text: &str) -> Committed {
        self.try_answer(store, turn, text).await.unwrap()
    }

    /// Ends a turn with an answer, if it may.
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

    /// Ends a turn without an answer, if it may.
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
        let partial = shown.map(|text| NewMessage { id, said: Utterance::partial_text(text) });
        let outcome = TurnOutcome::Unanswered { state, failure: TurnFailure::new(code, "it was not to be"), partial };
        store.commit(self.commit(turn, outcome)).await
    }

    /// The end of a turn.
    pub fn commit(&self, turn: &Running, outcome: TurnOutcome) -> Commit {
        Commit {
            lease: turn.lease,
            session: turn.facts.head.id.clone(),
            outcome,
            system: None,
            record: None,
            title: None,
            now: self.now(),
        }
    }

    /// Gives up a place in line.
    pub async fn withdraw(&self, store: &S, scope: &Scope, turn: TurnId) {
        store.withdraw(scope, turn, cancelled(), self.now()).await.unwrap();
    }

    /// A whole turn.
    pub async fn talk(&self, store: &S, to: &str, question: &str, answer: &str) -> Running {
        let turn = self.start(store, to, question).await;
        self.answer(store, &turn, answer).await;
        turn
    }

    /// The conversation of a name as the tenant sees it.
    pub async fn read(&self, to: &str) -> Option<Snapshot> {
        self.two.open(&self.scope, &name(to), Namespace::Session, Extent::View).await.unwrap()
    }

    /// The row of a name as the tenant sees it.
    pub async fn row(&self, to: &str) -> Option<ConversationRow> {
        self.two.conversation(&self.scope, &name(to), Pin::Head).await.unwrap()
    }

    /// One turn as the tenant sees it.
    pub async fn turn(&self, id: TurnId) -> Option<TurnRecord> {
        self.two.turn(&self.scope, id).await.unwrap()
    }

    /// Every conversation of a scope.
    pub async fn all(&self, scope: &Scope) -> Vec<ConversationRow> {
        let filter = ListFilter { archived: Archived::Any, limit: 1000, ..ListFilter::default() };
        self.two.conversations(scope, filter).await.unwrap().rows
    }

    /// Waits until what an instance was to write soon has been written.
    pub async fn settle(&self, store: &S) {
        for _ in 0..3 {
            store.check().await.unwrap();
        }
    }

    /// The same lease, as it was before a newer one.
    pub fn older(lease: Lease) -> Lease {
        Lease { fence: herma_model::Fence(lease.fence.0 - 1), ..lease }
    }
}
