//! What conversations have used, for budgets.

/// At most this many descendants of a conversation are summed up. Further ones are left out of the sum.
pub const MOST_DESCENDANTS: usize = 10_000;

/// Tokens that were used. What Herma itself asked a model for in a conversation's name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// By the conversation alone.
    pub conversation: u64,
    /// By the whole tree that the conversation belongs to, from its topmost ancestor down.
    pub tree: u64,
}
