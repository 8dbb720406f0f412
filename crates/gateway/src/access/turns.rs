//! How many turns an API key has at the same time: each process counts by itself.
//!
//! A request holds a place for as long as its turn runs or waits. A request that may repeat an earlier one is let in
//! beyond the limit, because the earlier one's outcome may be its answer. Invariant: without a place such a request gets
//! no turn. The store is asked for the earlier one alone. A request that has joined a turn gives its place back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use herma_model::{ApiKeyId, Principal};

use crate::error::GatewayError;

/// How many requests of a key may look for the turn that they repeat, or listen to it, without a place.
const MOST_REPEATS: u32 = 16;

/// What a key has in this process.
#[derive(Default)]
struct KeyCounts {
    /// Turns that run or wait, or may begin to.
    turns: u32,
    /// Requests without a place.
    repeats: u32,
}

/// The turns that run or wait in this process, of keys that have a limit.
#[derive(Default)]
pub(crate) struct KeyTurns(Mutex<HashMap<ApiKeyId, KeyCounts>>);

impl KeyTurns {
    /// Counts a request of a principal, until the result is dropped. `None` if its key has no limit. `may_repeat` says
    /// whether it may repeat an earlier request.
    pub(crate) fn begin(
        self: &Arc<Self>,
        principal: &Principal,
        may_repeat: bool,
    ) -> Result<Option<KeyTurn>, GatewayError> {
        let (Some(key), Some(limit)) = (principal.key, principal.limits.max_turns) else { return Ok(None) };
        let mut keys = self.lock();
        let counts = keys.entry(key).or_default();
        let has_place = counts.turns < limit;
        match has_place {
            true => counts.turns += 1,
            false if may_repeat && counts.repeats < MOST_REPEATS => counts.repeats += 1,
            false => return Err(over_limit(limit)),
        }
        Ok(Some(KeyTurn { turns: Arc::clone(self), key, limit, has_place }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ApiKeyId, KeyCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that counts for its API key.
pub(crate) struct KeyTurn {
    turns: Arc<KeyTurns>,
    key: ApiKeyId,
    limit: u32,
    has_place: bool,
}

impl KeyTurn {
    /// Why the request gets no turn of its own, if it has no place.
    pub(crate) fn refusal(&self) -> Option<GatewayError> {
        (!self.has_place).then(|| over_limit(self.limit))
    }

    /// The request has joined a turn, which has a place of its own.
    pub(crate) fn joined(&mut self) {
        let mut keys = self.turns.lock();
        if let Some(counts) = keys.get_mut(&self.key).filter(|counts| self.has_place && counts.repeats < MOST_REPEATS) {
            counts.turns -= 1;
            counts.repeats += 1;
            self.has_place = false;
        }
    }

    /// The turn that it had joined is gone, so it needs a place again. It gets one if one is free.
    pub(crate) fn asks_again(&mut self) {
        let mut keys = self.turns.lock();
        if let Some(counts) = keys.get_mut(&self.key).filter(|counts| !self.has_place && counts.turns < self.limit) {
            counts.repeats -= 1;
            counts.turns += 1;
            self.has_place = true;
        }
    }
}

impl Drop for KeyTurn {
    fn drop(&mut self) {
        let mut keys = self.turns.lock();
        if let Some(counts) = keys.get_mut(&self.key) {
            match self.has_place {
                true => counts.turns -= 1,
                false => counts.repeats -= 1,
            }
            if counts.turns == 0 && counts.repeats == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

fn over_limit(limit: u32) -> GatewayError {
    let message = format!("{limit} turns of this API key run or wait already, which is its limit");
    GatewayError::over_key_limit(message, Duration::from_secs(1))
}
