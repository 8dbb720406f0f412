//! Stateless turns that run or ended a short time ago, so that a repeated request is not answered twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use herma_model::TurnId;
use herma_model::limits::{MAX_RETRY_ATTEMPT, RETRY_WINDOW};
use herma_store::{ClientConnection, RetryIdentity};

use crate::access::KeyTurn;
use crate::error::GatewayError;
use crate::log::{TurnEvent, TurnLog};

/// Most turns that are remembered. Beyond this limit, a repeated request is a new one.
const MOST_REMEMBERED: usize = 2048;

/// The stateless turns that this process remembers, by the digests that recognise their requests.
#[derive(Default)]
pub(crate) struct StatelessTurns {
    known: Mutex<HashMap<[u8; 16], Arc<RememberedTurn>>>,
}

/// A turn whose request may be repeated.
pub(crate) struct RememberedTurn {
    turn: TurnId,
    /// The number of the SDK's own retry that began it; 0 for a first try.
    sdk_attempt: u32,
    body: Option<[u8; 16]>,
    log: Arc<TurnLog>,
    state: Mutex<RememberedState>,
}

/// What has happened to a remembered turn.
#[derive(Default)]
struct RememberedState {
    /// When it ended.
    ended: Option<Instant>,
    /// True if it ended without an answer. A repeated request is then a new turn.
    failed: bool,
    /// True if a client was sent its whole answer.
    delivered: bool,
    /// The numbers of the retries that joined it, as bits.
    joined: u64,
}

/// Whether a request repeats a remembered turn.
pub(crate) enum Recognised {
    /// It is new. Its end must be noted in the entry.
    New(RunningEntry),
    /// It repeats this turn.
    Same(Arc<RememberedTurn>),
    /// Its idempotency key was used with another body.
    Mismatch,
    /// It is new, and its API key has as many turns as it may have. Nothing is remembered of it.
    Refused(GatewayError),
}

/// The entry of a running turn. If it is dropped before [`RunningEntry::ended`], the turn counts as failed.
pub(crate) struct RunningEntry(Arc<RememberedTurn>);

impl RunningEntry {
    /// Notes that the turn has ended.
    pub(crate) fn ended(&self, with_answer: bool) {
        let mut state = self.0.state();
        state.ended = Some(Instant::now());
        state.failed = !with_answer;
    }
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.failed |= state.ended.is_none();
        state.ended.get_or_insert_with(Instant::now);
    }
}

impl RememberedTurn {
    fn state(&self) -> std::sync::MutexGuard<'_, RememberedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.state().ended.is_some_and(|at| at.elapsed() > RETRY_WINDOW)
    }

    /// Repeats the turn's events, from the first to the last.
    pub(crate) async fn repeat_to(&self, log: &TurnLog) {
        let mut events = self.log.subscribe();
        loop {
            let event = events.next().await;
            let ended = matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_));
            log.push(event);
            if ended {
                return;
            }
        }
    }
}

impl StatelessTurns {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 16], Arc<RememberedTurn>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recognises a repeated request, or remembers a new one. `key_turn` says whether its API key may have another
    /// turn.
    pub(crate) fn recognise(
        &self,
        identity: &RetryIdentity,
        client: &ClientConnection,
        key_turn: Option<&KeyTurn>,
        turn: TurnId,
        log: &Arc<TurnLog>,
    ) -> Recognised {
        let mut known = self.lock();
        known.retain(|_, known| !known.is_over());
        let key = identity.idempotency.as_ref();
        if let Some((key, earlier)) = key.and_then(|key| Some((key, known.get(&key.scopes[0])?))) {
            if !earlier.body.is_some_and(|body| key.repeats(&body)) {
                return Recognised::Mismatch;
            }
            if !earlier.state().failed {
                return Recognised::Same(Arc::clone(earlier));
            }
        }
        if let Some(earlier) = known.get(&identity.fingerprint).filter(|earlier| joins(earlier, identity, client)) {
            return Recognised::Same(Arc::clone(earlier));
        }
        if let Some(refusal) = key_turn.and_then(KeyTurn::refusal) {
            return Recognised::Refused(refusal);
        }
        let (sdk_attempt, body) = (identity.sdk_attempt, key.map(|key| key.body));
        let new = Arc::new(RememberedTurn { turn, sdk_attempt, body, log: Arc::clone(log), state: Mutex::default() });
        if known.len() < MOST_REMEMBERED {
            known.insert(identity.fingerprint, Arc::clone(&new));
            known.extend(key.map(|key| (key.scopes[0], Arc::clone(&new))));
        }
        Recognised::New(RunningEntry(new))
    }

    /// Notes that a client was sent a turn's whole answer. From now on only an idempotency key, or a retry that has not
    /// seen the answer, leads to it. False if no such turn is remembered.
    pub(crate) fn delivered(&self, turn: TurnId) -> bool {
        let known = self.lock();
        let found = known.values().find(|known| known.turn == turn);
        found.inspect(|known| known.state().delivered = true).is_some()
    }
}

/// Whether a request joins a turn that has an answer, or will have one. It must be an SDK's own retry, or a request
/// whose client has gone and whose retry began the turn. Each attempt number joins once.
fn joins(earlier: &RememberedTurn, identity: &RetryIdentity, client: &ClientConnection) -> bool {
    let attempt = identity.sdk_attempt;
    if attempt > MAX_RETRY_ATTEMPT {
        return false;
    }
    let mut state = earlier.state();
    let is_retry = attempt > 0 && (!state.delivered || identity.unseen);
    let was_overtaken = || earlier.sdk_attempt > attempt && client.is_closed();
    if !is_retry && !was_overtaken() {
        return false;
    }
    let bit = 1_u64 << attempt;
    let is_new = state.joined & bit == 0;
    state.joined |= bit;
    is_new && !state.failed
}
