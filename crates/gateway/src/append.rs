//! Adding to a conversation what was said elsewhere: a turn that asks nobody.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::turn::FailureCode;
use herma_model::{
    Alias, ConversationFacts, CreatorKind, FinishReason, Message, Payload, Principal, SessionKey, SessionKind,
    TenantId, TurnFailure, TurnId,
};
use herma_store::{
    BranchOutcome, BranchPoint, Commit, CreateOutcome, Creation, Lease, NewBranch, NewConversation, Outcome, Scope,
    StoreError,
};
use herma_turn::Stop;
use tokio::sync::watch;

use crate::admission::{Admitted, Door, Lead};
use crate::error::{GatewayError, KeyProblem};
use crate::gateway::{Gateway, Registered};
use crate::live::LiveTurn;
use crate::log::TurnLog;
use crate::mint;
use crate::request::TurnRequest;
use crate::run::{Held, lost};

/// What was added to a conversation, durably.
#[derive(Debug)]
pub struct Appended {
    /// The turn that added it.
    pub turn: TurnId,
    /// Whose.
    pub tenant: TenantId,
    /// The conversation.
    pub facts: Arc<ConversationFacts>,
    /// The messages as they are stored.
    pub messages: Vec<Arc<Message>>,
    /// Whether an earlier request of the same identity added it.
    pub was_there: bool,
}

/// A conversation that somebody makes.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The name that was chosen for it.
    pub alias: Option<Alias>,
    /// What it is.
    pub kind: SessionKind,
    /// The session it comes from.
    pub parent: Option<Alias>,
    /// Its session key.
    pub session_key: Option<SessionKey>,
    /// What people call it.
    pub title: Option<String>,
    /// What a client attaches, a JSON object.
    pub metadata: Option<Arc<str>>,
}

impl NewSession {
    /// A person's own conversation, under a session key if there is one.
    pub const fn main(session_key: Option<SessionKey>) -> Self {
        Self { alias: None, kind: SessionKind::Main, parent: None, session_key, title: None, metadata: None }
    }
}

/// A branch that somebody makes.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// Any name of what it leaves.
    pub source: Alias,
    /// Where it leaves it.
    pub at: BranchPoint,
    /// The name that was chosen for it.
    pub alias: Option<Alias>,
    /// What people call it.
    pub title: Option<String>,
    /// What a client attaches, a JSON object.
    pub metadata: Option<Arc<str>>,
}

/// What an API client makes without a turn.
fn creation(principal: &Principal) -> Creation {
    Creation {
        conversation: mint::conversation(),
        session: mint::session(),
        kind: SessionKind::Main,
        creator: CreatorKind::Api,
        source: Arc::from("api"),
        owner: principal.key,
        reason: None,
        parent: None,
    }
}

impl Gateway {
    /// Adds the messages of a request to its conversation, all of them, when it is their turn. The request's system messages hold from then
    /// on. Nobody is asked for an answer.
    pub async fn append(self: &Arc<Self>, request: TurnRequest) -> Result<Appended, GatewayError> {
        let place = self.place()?;
        let gateway = Arc::clone(self);
        // A task of its own: once asked for, it happens or not as a whole, whoever waits for it.
        let added = tokio::spawn(async move {
            let added = gateway.add(&request).await;
            drop(place);
            added
        });
        added.await.unwrap_or_else(|_| Err(GatewayError::Turn(crate::admission::defect())))
    }

    /// Makes a conversation in which nothing was said yet; a branch begins with what was said in its parent.
    pub async fn create(&self, principal: &Principal, new: NewSession) -> Result<CreateOutcome, GatewayError> {
        let scope = Scope::of(principal);
        if new.session_key.as_ref().is_some_and(|key| !scope.keys.allows(key)) {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        let creation = Creation { kind: new.kind, parent: new.parent, ..creation(principal) };
        let NewSession { alias, session_key, title, metadata, .. } = new;
        let new = NewConversation { scope, alias, creation, session_key, title, metadata, now: mint::now() };
        Ok(self.store.create(new).await?)
    }

    /// Makes a branch in which nothing was said yet. Its source never notices.
    pub async fn branch(&self, principal: &Principal, new: NewFork) -> Result<BranchOutcome, GatewayError> {
        let NewFork { source, at, alias, title, metadata } = new;
        let (scope, creation) = (Scope::of(principal), creation(principal));
        let branch = NewBranch { scope, source, at, alias, creation, title, metadata, now: mint::now() };
        Ok(self.store.branch(branch).await?)
    }

    async fn add(&self, request: &TurnRequest) -> Result<Appended, GatewayError> {
        let turn = mint::turn();
        let log = Arc::new(TurnLog::default());
        let (stop, mut stopped) = watch::channel(None::<Stop>);
        let registered = Registered::new(self, turn, LiveTurn { log: Arc::clone(&log), stop });
        let (registered, stop) = (&registered, &mut stopped);
        let mut door = Door { gateway: self, request, turn, takes_over: false, registered, log: &log, stop };
        match door.pass().await? {
            Admitted::Joined(earlier) | Admitted::NeverBegan(earlier) => self.added_before(request, earlier).await,
            Admitted::Running(lead) => self.write(request, *lead).await,
        }
    }

    async fn write(&self, request: &TurnRequest, lead: Lead) -> Result<Appended, GatewayError> {
        let Lead { running, .. } = lead;
        let mut held = Held::new(self, running.lease, running.facts.id);
        let system = (!request.system.is_empty()).then(|| Arc::<[Payload]>::from(request.system.as_slice()));
        let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Default::default() };
        let commit = Commit {
            lease: running.lease,
            session: running.facts.head.id.clone(),
            outcome: Outcome::Completed { messages: Vec::new(), finish },
            system,
            record: None,
            title: None,
            now: mint::now(),
        };
        if let Err(error) = self.store.commit(commit).await {
            return Err(self.take_back(error, running.lease, held).await);
        }
        held.is_over();
        let tenant = request.principal.tenant;
        Ok(Appended { turn: running.turn, tenant, facts: running.facts, messages: running.messages, was_there: false })
    }

    /// Leaves nothing of what another turn's interrupt stopped before it was written.
    async fn take_back(&self, error: StoreError, lease: Lease, mut held: Held<'_>) -> GatewayError {
        if matches!(error, StoreError::StopRequested(_)) && self.store.retract(lease).await.is_ok() {
            held.is_over();
        }
        lost(error)
    }

    /// The outcome of the same request, made before.
    async fn added_before(&self, request: &TurnRequest, turn: TurnId) -> Result<Appended, GatewayError> {
        let scope = Scope::of(&request.principal);
        let record = self.store.turn(&scope, turn).await?.ok_or(GatewayError::NotFound)?;
        if record.state.is_unanswered() {
            let unknown = || TurnFailure::new(FailureCode::Internal, "what was to be added was not");
            return Err(GatewayError::Turn(record.failure.unwrap_or_else(unknown)));
        }
        let tenant = request.principal.tenant;
        Ok(Appended { turn, tenant, facts: record.facts, messages: record.input, was_there: true })
    }
}
