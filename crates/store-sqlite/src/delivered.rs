//! The turns that this process has delivered lately.
//!
//! A retry may join a delivered turn for a while. After that, its entry in the index of joinable turns is useless.
//! Entries are removed in batches, because turns that were delivered together are on the same pages.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use herma_model::TurnId;
use herma_model::limits::RETRY_WINDOW;

/// The smallest number of turns that are removed from the index at a time.
const BATCH: usize = 64;

/// Delivered turns in the order of their delivery.
#[derive(Default)]
pub(crate) struct Delivered(Mutex<VecDeque<(Instant, TurnId)>>);

impl Delivered {
    /// Adds a turn. Returns those that no retry can join any more, if they are enough for a batch.
    pub(crate) fn add(&self, turn: TurnId, now: Instant) -> Vec<TurnId> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.push_back((now, turn));
        let is_old = |at: &Instant| now.duration_since(*at) > RETRY_WINDOW;
        if !turns.get(BATCH - 1).is_some_and(|(at, _)| is_old(at)) {
            return Vec::new();
        }
        let old = turns.partition_point(|(at, _)| is_old(at));
        turns.drain(..old).map(|(_, turn)| turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    #[test]
    fn turns_are_given_back_in_batches_when_no_retry_can_join_them() {
        let (delivered, begin) = (Delivered::default(), Instant::now());
        let turn = |number: usize| TurnId::from_uuid(Uuid::from_u128(number as u128));
        let later = begin + RETRY_WINDOW + Duration::from_secs(1);
        for number in 0..BATCH - 1 {
            assert!(delivered.add(turn(number), begin).is_empty());
        }
        assert!(delivered.add(turn(BATCH - 1), later).is_empty(), "one turn is missing for a batch");
        let old = delivered.add(turn(BATCH), later + RETRY_WINDOW + Duration::from_secs(1));
        assert_eq!(old, (0..BATCH).map(turn).collect::<Vec<_>>());
    }
}
