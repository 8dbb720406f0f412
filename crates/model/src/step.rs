//! What happens in a turn, as a sequence of steps.
//!
//! A turn is everything from one input to one final answer. Its steps are durable, and in order: a turn that is read
//! again, by any front door and after any crash, has the same ones. How the turn ended is not a step: it is the state of
//! the turn, with its finish or its failure.
//!
//! A new kind of step is a new variant here. Every `match` on it is exhaustive, so the compiler names the places that
//! have to know it: the machine and the driver of turns, the store's reader, and each front door.

use std::sync::Arc;

use crate::{CompactionId, Message};

/// One step of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The conversation was compacted to make room for the turn.
    Compacted(CompactionId),
    /// The model said this. Its status is partial if the turn ended in the middle of it.
    Said(Arc<Message>),
}

impl Step {
    /// The message that the step is, if it is one.
    pub const fn message(&self) -> Option<&Arc<Message>> {
        match self {
            Self::Said(message) => Some(message),
            Self::Compacted(_) => None,
        }
    }

    /// The compaction that the step is, if it is one.
    pub const fn compaction(&self) -> Option<CompactionId> {
        match self {
            Self::Compacted(id) => Some(*id),
            Self::Said(_) => None,
        }
    }
}
