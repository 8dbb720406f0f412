//! Adding messages to a conversation: a turn that calls no model.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::turn::FailureCode;
use herma_model::{ConversationFacts, FinishReason, HistoryEnd, Message, Payload, TenantId, TurnFailure, TurnId};
use herma_store::{
    Change, Commit, ConversationRow, Lease, Revision, Running, Scope, Snapshot, StoreError, TurnOutcome,
};
use herma_turn::Stop;
use tokio::sync::watch;

use crate::admission::{Admitted, AdmittedTurn, PendingAdmission, own_alias};
use crate::compaction::transcript;
use crate::error::{GatewayError, Missing};
use crate::gateway::{Gateway, Registered};
use crate::input::repeated_output;
use crate::live::LiveTurn;
use crate::log::TurnLog;
use crate::memory::unrecorded;
use crate::mint;
use crate::request::TurnRequest;
use crate::run::{LeaseGuard, lost};
use crate::running::history_after;

/// Messages that were added to a conversation, durably.
#[derive(Debug)]
pub struct Appended {
    /// The turn that added them.
    pub turn: TurnId,
    /// The tenant of the conversation.
    pub tenant: TenantId,
    /// The conversation.
    pub facts: Arc<ConversationFacts>,
    /// The messages as they are stored.
    pub messages: Vec<Arc<Message>>,
    /// The conversation's revision after that. `None` if an earlier request added them.
    pub revision: Option<Revision>,
    /// True if an earlier request of the same identity added them.
    pub was_there: bool,
}

impl Gateway {
    /// Adds all messages of a request to its conversation, after waiting in the queue like any turn. The request's
    /// system messages replace those of the conversation. No model is called.
    pub async fn append(self: &Arc<Self>, request: TurnRequest) -> Result<Appended, GatewayError> {
        let place = self.place()?;
        let gateway = Arc::clone(self);
        // A task of its own, so that it is not cut off if the caller goes away.
        let added = tokio::spawn(async move {
            let added = gateway.add(&request).await;
            drop(place);
            added
        });
        added.await.unwrap_or_else(|_| Err(GatewayError::Turn(crate::admission::defect())))
    }

    /// Makes a conversation that begins with the messages of a request, and attaches metadata to it. A repeated request
    /// finds the conversation that it made, and changes nothing.
    pub async fn create_with(
        self: &Arc<Self>,
        request: TurnRequest,
        metadata: Option<Arc<str>>,
    ) -> Result<(Appended, ConversationRow), GatewayError> {
        let principal = request.caller.principal.clone();
        let added = self.append(request).await?;
        let id = own_alias(&added.facts.id.to_string())?;
        let change = Change { metadata: metadata.filter(|_| !added.was_there), ..Change::default() };
        let row = self.sessions(&principal).change(&id, change).await?;
        Ok((added, row))
    }

    async fn add(&self, request: &TurnRequest) -> Result<Appended, GatewayError> {
        let turn = mint::turn();
        let log = Arc::new(TurnLog::default());
        let (stop, mut stopped) = watch::channel(None::<Stop>);
        let registered = Registered::new(self, turn, LiveTurn { log: Arc::clone(&log), stop });
        let (registered, stop) = (&registered, &mut stopped);
        let mut pending = PendingAdmission {
            gateway: self,
            request,
            turn,
            takes_over: false,
            key_turn: None,
            registered,
            log: &log,
            stop,
        };
        match pending.decide().await? {
            Admitted::Joined(earlier) | Admitted::NeverBegan(earlier) => self.added_before(request, earlier).await,
            Admitted::Running(admitted) => self.write(request, *admitted).await,
        }
    }

    async fn write(&self, request: &TurnRequest, admitted: AdmittedTurn) -> Result<Appended, GatewayError> {
        let AdmittedTurn { running, before, .. } = admitted;
        let repeated = before.as_ref().and_then(|before| repeated_output(request, transcript(before))).cloned();
        let history = history_end(before.as_ref(), &running.messages);
        let mut guard = LeaseGuard::new(self, running.lease, running.facts.id);
        if let (Some(repeated), true) = (&repeated, running.messages.is_empty()) {
            return self.take_back_repeated(request, running, repeated, guard).await;
        }
        let system = request.new_system().map(Arc::<[Payload]>::from);
        let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Default::default() };
        let commit = Commit {
            lease: running.lease,
            session: running.facts.head.id.clone(),
            outcome: TurnOutcome::Completed { messages: Vec::new(), finish },
            system,
            record: None,
            cost: None,
            history,
            title: None,
            recall: unrecorded(request).map(Arc::new),
            now: mint::now(),
        };
        let committed = match self.store.commit(commit).await {
            Ok(committed) => committed,
            Err(error) => return Err(self.take_back(error, running.lease, guard).await),
        };
        guard.is_over();
        Ok(Appended {
            turn: running.turn,
            tenant: request.caller.principal.tenant,
            facts: running.facts,
            messages: repeated.into_iter().chain(running.messages).collect(),
            revision: Some(committed.revision),
            was_there: false,
        })
    }

    /// Removes the turn of a request that only repeats the last answer. The answer is what was added.
    async fn take_back_repeated(
        &self,
        request: &TurnRequest,
        running: Running,
        repeated: &Arc<Message>,
        mut guard: LeaseGuard<'_>,
    ) -> Result<Appended, GatewayError> {
        self.store.retract(running.lease).await.map_err(lost)?;
        guard.is_over();
        Ok(Appended {
            turn: repeated.turn,
            tenant: request.caller.principal.tenant,
            facts: running.facts,
            messages: vec![Arc::clone(repeated)],
            revision: None,
            was_there: true,
        })
    }

    /// Removes the turn if another turn's interrupt stopped it before its commit.
    async fn take_back(&self, error: StoreError, lease: Lease, mut guard: LeaseGuard<'_>) -> GatewayError {
        if matches!(error, StoreError::StopRequested(_)) && self.store.retract(lease).await.is_ok() {
            guard.is_over();
        }
        lost(error)
    }

    /// The outcome of an earlier request with the same identity.
    async fn added_before(&self, request: &TurnRequest, turn: TurnId) -> Result<Appended, GatewayError> {
        let scope = Scope::of(&request.caller.principal);
        let record = self.store.turn(&scope, turn).await?.ok_or(GatewayError::NotFound(Missing::Turn))?;
        if record.state.is_unanswered() {
            let unknown = || TurnFailure::new(FailureCode::Internal, "what was to be added was not");
            return Err(GatewayError::Turn(record.failure.unwrap_or_else(unknown)));
        }
        let tenant = request.caller.principal.tenant;
        Ok(Appended { turn, tenant, facts: record.facts, messages: record.input, revision: None, was_there: true })
    }
}

/// What clients have seen of a conversation after messages were added to it.
fn history_end(before: Option<&Snapshot>, added: &[Arc<Message>]) -> Option<HistoryEnd> {
    let last = added.last()?.said.digest_shown();
    history_after(before, added).map(|history| HistoryEnd { history, last })
}
