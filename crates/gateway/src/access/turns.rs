//! How many turns an API key has at the same time: each process counts by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herma_model::{ApiKeyId, Principal};

use crate::error::GatewayError;

/// The turns that run or wait in this process, of keys that have a limit.
#[derive(Default)]
pub(crate) struct KeyTurns(Mutex<HashMap<ApiKeyId, u32>>);

impl KeyTurns {
    /// Counts a turn of a principal, until the result is dropped. `None` if its key has no limit.
    pub(crate) fn begin(self: &Arc<Self>, principal: &Principal) -> Result<Option<KeyTurn>, GatewayError> {
        let (Some(key), Some(limit)) = (principal.key, principal.limits.max_turns) else { return Ok(None) };
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = turns.entry(key).or_default();
        if *running >= limit {
            let message = format!("{limit} turns of this API key run or wait already, which is its limit");
            return Err(GatewayError::over_key_limit(message, Duration::from_secs(1)));
        }
        *running += 1;
        Ok(Some(KeyTurn { turns: Arc::clone(self), key }))
    }
}

/// A turn that counts for its API key.
pub(crate) struct KeyTurn {
    turns: Arc<KeyTurns>,
    key: ApiKeyId,
}

impl Drop for KeyTurn {
    fn drop(&mut self) {
        let mut turns = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = turns.get_mut(&self.key) {
            *running -= 1;
            if *running == 0 {
                turns.remove(&self.key);
            }
        }
    }
}
