//! The turns of this process that run or wait, and how to undo changes of them.
//!
//! Jobs change them before their transaction is committed. If it is rolled back, they are as they were before.

use std::collections::{HashMap, HashSet};

use herma_model::Fence;

/// Turns by their row key, with their fence. Waiting turns have fence 0.
#[derive(Default)]
pub(crate) struct LiveTurns {
    turns: HashMap<i64, Fence>,
    /// What the changes of the current transaction have replaced, in their order.
    replaced: Vec<(i64, Option<Fence>)>,
}

impl LiveTurns {
    /// Adds a turn, or gives it another fence.
    pub(crate) fn insert(&mut self, turn: i64, fence: Fence) {
        let before = self.turns.insert(turn, fence);
        self.replaced.push((turn, before));
    }

    /// Removes a turn, if it is there.
    pub(crate) fn remove(&mut self, turn: i64) {
        if let Some(before) = self.turns.remove(&turn) {
            self.replaced.push((turn, Some(before)));
        }
    }

    /// Removes a turn for good: a rollback of the current transaction does not bring it back.
    pub(super) fn give_up(&mut self, turn: i64) {
        self.turns.remove(&turn);
        self.replaced.retain(|(replaced, _)| *replaced != turn);
    }

    pub(crate) fn contains(&self, turn: i64) -> bool {
        self.turns.contains_key(&turn)
    }

    pub(super) fn fence(&self, turn: i64) -> Option<Fence> {
        self.turns.get(&turn).copied()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = i64> {
        self.turns.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many changes there were since the last commit, for [`LiveTurns::undo`].
    pub(super) fn changes(&self) -> usize {
        self.replaced.len()
    }

    /// Undoes all changes but the first ones.
    pub(super) fn undo(&mut self, kept: usize) {
        for (turn, before) in self.replaced.drain(kept.min(self.replaced.len())..).rev() {
            match before {
                Some(fence) => self.turns.insert(turn, fence),
                None => self.turns.remove(&turn),
            };
        }
    }

    /// Makes the changes so far final, because they were committed.
    pub(super) fn settle(&mut self) {
        self.replaced.clear();
    }

    /// Forgets all turns but these.
    pub(super) fn retain(&mut self, stored: &HashSet<i64>) {
        self.turns.retain(|turn, _| stored.contains(turn));
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_undoes_changes_in_reverse_and_not_what_was_given_up() {
        let mut live = LiveTurns::default();
        live.insert(1, Fence(0));
        live.insert(2, Fence(5));
        live.settle();
        let before = live.changes();
        live.insert(1, Fence(7));
        live.remove(1);
        live.insert(3, Fence(1));
        live.remove(2);
        live.give_up(2);
        live.undo(before);
        assert_eq!((live.fence(1), live.fence(2), live.fence(3)), (Some(Fence(0)), None, None));
    }
}
