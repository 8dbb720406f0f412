//! `[budgets]`: how many tokens may be used.

use crate::page::Page;
use crate::reading::section::Section;

/// Most tokens of input and output together. 0: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetsConfig {
    /// Of one turn.
    pub turn_tokens: u64,
    /// Of one conversation.
    pub conversation_tokens: u64,
    /// Of one conversation and everything below it.
    pub tree_tokens: u64,
}

impl BudgetsConfig {
    pub(crate) fn read(section: &mut Section) -> Self {
        Self {
            turn_tokens: section.or("turn_tokens", 0),
            conversation_tokens: section.or("conversation_tokens", 0),
            tree_tokens: section.or("tree_tokens", 0),
        }
    }

    pub(crate) fn write(&self, page: &mut Page) {
        let tokens = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        page.heading(&["budgets"], "Most tokens, in and out. 0: no limit. A used up budget is an error of the turn.");
        page.set("turn_tokens", tokens(self.turn_tokens), "Of one turn.");
        page.set("conversation_tokens", tokens(self.conversation_tokens), "Of one conversation.");
        page.set("tree_tokens", tokens(self.tree_tokens), "Of one conversation with all delegated work and branches.");
    }
}
