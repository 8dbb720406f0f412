//! Token budgets: how much a turn, a conversation and a tree of conversations may cost.
//!
//! A budget is looked at before each model call. A turn that finds it used up ends after its last complete step; an
//! answer that is already there is never refused. Without budgets nothing is read.

use herma_model::turn::FailureCode;
use herma_model::{ConversationId, TenantId, TurnFailure, Usage};
use herma_store::StoreError;

use crate::gateway::Gateway;
use crate::log::SessionView;

/// Most tokens, of prompts and answers together. 0: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BudgetSettings {
    /// Of one turn.
    pub turn_tokens: u64,
    /// Of one conversation.
    pub conversation_tokens: u64,
    /// Of a conversation and everything below it, from the topmost ancestor down.
    pub tree_tokens: u64,
}

impl Gateway {
    /// Why a turn may not call the model again; `None` if it may. Cancel-safe.
    pub(crate) async fn over_budget(
        &self,
        tenant: TenantId,
        session: &SessionView,
        spent_in_turn: Option<Usage>,
    ) -> Result<Option<TurnFailure>, StoreError> {
        let budgets = self.settings.budgets;
        if let Some(failure) = exceeded("turn", spent_in_turn.map_or(0, Usage::total), budgets.turn_tokens) {
            return Ok(Some(failure));
        }
        if budgets.conversation_tokens == 0 && budgets.tree_tokens == 0 {
            return Ok(None);
        }
        let spent = self.store.spent(tenant, session.facts.id).await?;
        let conversation = exceeded("conversation", spent.conversation, budgets.conversation_tokens);
        Ok(conversation.or_else(|| exceeded("tree of conversations", spent.tree, budgets.tree_tokens)))
    }

    /// Whether Herma may not call a model in a conversation's name. Cancel-safe.
    pub(crate) async fn is_over_side_budget(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
    ) -> Result<bool, StoreError> {
        let budgets = self.settings.budgets;
        if budgets.conversation_tokens == 0 && budgets.tree_tokens == 0 {
            return Ok(false);
        }
        let spent = self.store.spent(tenant, conversation).await?;
        let conversation = exceeded("conversation", spent.conversation, budgets.conversation_tokens);
        Ok(conversation.or_else(|| exceeded("tree of conversations", spent.tree, budgets.tree_tokens)).is_some())
    }
}

fn exceeded(what: &str, spent: u64, budget: u64) -> Option<TurnFailure> {
    if budget == 0 || spent < budget {
        return None;
    }
    let message = format!("the token budget of this {what} is used up: {spent} of {budget} tokens");
    Some(TurnFailure::new(FailureCode::BudgetExceeded, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_when_it_is_reached_and_zero_is_no_limit() {
        assert_eq!(exceeded("turn", 10, 0), None);
        assert_eq!(exceeded("turn", 9, 10), None);
        let failure = exceeded("turn", 10, 10).unwrap();
        assert_eq!(failure.message, "the token budget of this turn is used up: 10 of 10 tokens");
    }
}
