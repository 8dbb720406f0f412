//! Which turns of no conversation run or ended a moment ago, so that a request that is sent again is not answered twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use herma_model::TurnId;
use herma_model::limits::{MAX_RETRY_ATTEMPT, RETRY_WINDOW};
use herma_store::{ClientConnection, RetryIdentity};

use crate::log::{TurnEvent, TurnLog};

/// Most turns that are remembered. Beyond it, a request that is sent again is a new one.
const MOST_REMEMBERED: usize = 2048;

/// The turns of no conversation that this process remembers, by what recognises their requests.
#[derive(Default)]
pub(crate) struct StatelessTurns {
    known: Mutex<HashMap<[u8; 16], Arc<Known>>>,
}

/// A turn that may be asked for again.
pub(crate) struct Known {
    turn: TurnId,
    /// The number of the SDK's own retry that began it; 0 for a first try.
    sdk_attempt: u32,
    body: Option<[u8; 16]>,
    log: Arc<TurnLog>,
    life: Mutex<Life>,
}

/// What has become of it.
#[derive(Default)]
struct Life {
    /// When it ended.
    ended: Option<Instant>,
    /// Whether it ended without an answer: then it is tried again.
    failed: bool,
    /// Whether its answer was written to its end.
    delivered: bool,
    /// The numbers of the retries that joined it, as bits.
    joined: u64,
}

/// What a request turns out to be.
pub(crate) enum Recognised {
    /// A new one. What became of it must be said.
    New(Remembered),
    /// One that was made before.
    Same(Arc<Known>),
    /// Its idempotency key was used with another body.
    Mismatch,
}

/// A turn's entry while it runs.
pub(crate) struct Remembered(Arc<Known>);

impl Remembered {
    /// The turn has ended.
    pub(crate) fn ended(&self, with_answer: bool) {
        let mut life = self.0.life();
        life.ended = Some(Instant::now());
        life.failed = !with_answer;
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        let mut life = self.0.life();
        life.failed |= life.ended.is_none();
        life.ended.get_or_insert_with(Instant::now);
    }
}

impl Known {
    fn life(&self) -> std::sync::MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.life().ended.is_some_and(|at| at.elapsed() > RETRY_WINDOW)
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
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 16], Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recognises a request, or remembers it as a new one.
    pub(crate) fn recognise(
        &self,
        identity: &RetryIdentity,
        client: &ClientConnection,
        turn: TurnId,
        log: &Arc<TurnLog>,
    ) -> Recognised {
        let mut known = self.lock();
        known.retain(|_, known| !known.is_over());
        let key = identity.idempotency.as_ref();
        if let Some((key, earlier)) = key.and_then(|key| Some((key, known.get(&key.scopes[0])?))) {
            if earlier.body != Some(key.body) {
                return Recognised::Mismatch;
            }
            if !earlier.life().failed {
                return Recognised::Same(Arc::clone(earlier));
            }
        }
        if let Some(earlier) = known.get(&identity.fingerprint).filter(|earlier| joins(earlier, identity, client)) {
            return Recognised::Same(Arc::clone(earlier));
        }
        let (sdk_attempt, body) = (identity.sdk_attempt, key.map(|key| key.body));
        let new = Arc::new(Known { turn, sdk_attempt, body, log: Arc::clone(log), life: Mutex::default() });
        if known.len() < MOST_REMEMBERED {
            known.insert(identity.fingerprint, Arc::clone(&new));
            known.extend(key.map(|key| (key.scopes[0], Arc::clone(&new))));
        }
        Recognised::New(Remembered(new))
    }

    /// A turn's answer was written to its end: only an idempotency key leads to it now. False if it is not one of these.
    pub(crate) fn delivered(&self, turn: TurnId) -> bool {
        let known = self.lock();
        let found = known.values().find(|known| known.turn == turn);
        found.inspect(|known| known.life().delivered = true).is_some()
    }
}

/// Whether a request joins a turn that has an answer, or will have one. It is an SDK's own retry, or was overtaken by
/// the retry that began the turn: then its client is gone. Each attempt number joins once.
fn joins(earlier: &Known, identity: &RetryIdentity, client: &ClientConnection) -> bool {
    let attempt = identity.sdk_attempt;
    if attempt > MAX_RETRY_ATTEMPT {
        return false;
    }
    let mut life = earlier.life();
    let is_retry = attempt > 0 && (!life.delivered || identity.unseen);
    let was_overtaken = || earlier.sdk_attempt > attempt && client.is_closed();
    if !is_retry && !was_overtaken() {
        return false;
    }
    let bit = 1_u64 << attempt;
    let is_new = life.joined & bit == 0;
    life.joined |= bit;
    is_new && !life.failed
}
