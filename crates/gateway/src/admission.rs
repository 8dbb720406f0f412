//! From a request to the lease of its conversation.
//!
//! The gateway reads the history, from memory or from the store, and aligns the request with it. The store gives the
//! lease only if the conversation is still at the version that was read. Otherwise all of this is done again. So the
//! model is always shown the conversation as it was when the lease was taken.
//!
//! - [`ask`]: reads, aligns and asks the store, until there is a decision.
//! - [`by_history`]: finds the conversation of a request that names none.
//! - [`outcome`]: what follows from each answer of the store.
//! - [`own_turn`]: whether a request with the input of an unanswered turn is a turn of its own.
//! - [`parallel`]: parallel calls that a client sends back one after the other.
//! - [`identity`]: how a request is recognised if it comes again.
//! - [`window`]: refuses a request that cannot fit into the model's window.
//! - [`failure`]: what clients are told of a request that got no lease.

mod ask;
mod by_history;
mod failure;
mod identity;
mod outcome;
mod own_turn;
mod parallel;
mod window;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use herma_model::{Alias, HistoryDigest, TurnId};
use herma_store::{Running, Scope, Snapshot};
use herma_turn::{Replacement, Stop};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::KeyTurn;
use crate::error::{GatewayError, KeyProblem};
use crate::gateway::{Gateway, Registered};
use crate::log::TurnLog;
use crate::mint;
use crate::request::TurnRequest;
use crate::waiting::Waiting;

use failure::given_up;
pub(crate) use failure::{cancelled, defect};
pub(crate) use identity::retry_identity;
pub(crate) use window::check_window;

/// How long an interrupted turn may still run before it is cut off.
pub(crate) const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// How the admission of a request ended.
pub(crate) enum Admitted {
    /// The request has the lease.
    Running(Box<AdmittedTurn>),
    /// The request repeats this turn, and the outcome of the turn is its answer.
    Joined(TurnId),
    /// The request repeats this turn, which was visible while queued and ended before it began. The request takes over
    /// its id.
    NeverBegan(TurnId),
}

/// A turn with its lease, and the conversation as it was when the lease was taken.
pub(crate) struct AdmittedTurn {
    pub(crate) running: Running,
    /// True if it is a further attempt of a turn that was not the last one: it begins anew at the end.
    pub(crate) is_anew: bool,
    /// The history before this turn.
    pub(crate) before: Option<Snapshot>,
    /// The name under which the conversation is cached.
    pub(crate) alias: Alias,
    /// The whole history of its client, if the request carries it.
    pub(crate) client_history: Option<HistoryDigest>,
    /// What the client has put in place of a part of the history.
    pub(crate) replacement: Option<Box<Replacement>>,
}

/// A request that has no lease yet.
pub(crate) struct PendingAdmission<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) request: &'a TurnRequest,
    pub(crate) turn: TurnId,
    /// True if the id belongs to an earlier turn of the same request ([`Admitted::NeverBegan`]).
    pub(crate) takes_over: bool,
    /// How it counts for its API key, if the key has a limit.
    pub(crate) key_turn: Option<&'a KeyTurn>,
    /// The request's entry among the live turns.
    pub(crate) registered: &'a Registered<'a>,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
}

impl PendingAdmission<'_> {
    /// Asks for the lease until there is a decision, and withdraws the turn from the queue if it does not get the
    /// lease. Not cancel-safe: a dropped future leaves the turn in the queue.
    pub(crate) async fn decide(&mut self) -> Result<Admitted, GatewayError> {
        let scope = Scope::of(&self.request.caller.principal);
        if let Some(key) = &self.request.caller.session_key
            && !scope.keys.allows(key)
        {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        let until = Instant::now() + self.gateway.settings.queue_timeout;
        let mut waiting = Waiting::new(until);
        // A panic must not leave the turn in the queue: it would block the turns behind it.
        let asked = AssertUnwindSafe(self.ask(&scope, &mut waiting)).catch_unwind().await;
        let outcome = asked.unwrap_or_else(|_| Err(GatewayError::Turn(defect())));
        if matches!(outcome, Ok(Admitted::Running(_))) {
            return outcome;
        }
        self.withdraw(&scope, waiting, outcome).await
    }

    /// Takes a turn without the lease out of the queue, if it waits there. Returns what its client is told.
    async fn withdraw(
        &self,
        scope: &Scope,
        mut waiting: Waiting<'_>,
        outcome: Result<Admitted, GatewayError>,
    ) -> Result<Admitted, GatewayError> {
        let Some(line) = waiting.line.take() else { return outcome };
        let why = outcome.as_ref().err().map_or_else(defect, given_up);
        // The entries among the live turns go first. When the store says that the turn has ended, a repeated request
        // may come at once and be registered under the same id.
        let attempt_of = waiting.attempt_of.take().map(|attempt| attempt.turn());
        self.registered.leave();
        let _ = self.gateway.store.withdraw(scope, self.turn, why.clone(), mint::now()).await;
        line.give_up();
        if outcome.is_ok() {
            return outcome;
        }
        if let Some(turn) = attempt_of {
            // The turn is again in the state before this attempt, or it was cancelled. The store knows which.
            return Ok(Admitted::Joined(turn));
        }
        if self.request.is_visible_while_queued() {
            // A client that reads the turn now is told the same as one that reads it later.
            return Err(GatewayError::Turn(why));
        }
        outcome
    }
}

/// An id of Herma's own as a name.
pub(crate) fn own_alias(name: &str) -> Result<Alias, GatewayError> {
    Alias::parse(name).map_err(|_| GatewayError::unknown())
}
