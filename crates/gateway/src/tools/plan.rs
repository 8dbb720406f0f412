//! What happens to each call of a message: it is made, a person is asked about it, or it is settled at once.

use std::sync::Arc;

use herma_model::generation::ToolCall;
use herma_model::{Answer, ApprovalAnswer, ApprovalChoice, EarlierCall, OwnCall, ToolMode};
use herma_store::{Pin, Scope, StoreError};
use herma_tools::Approval;

use super::offer::{Offered, TurnTools};
use super::wording::{self, Settled};
use crate::admission::own_alias;
use crate::request::AskWhere;
use crate::stored_turn::StoredTurn;

/// A call of Herma's own tools, and what happens to it.
pub(crate) struct PlannedCall {
    pub(crate) call: OwnCall,
    /// The name by which the model called it.
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arc<str>,
    pub(crate) then: Then,
    /// What a person answered.
    pub(crate) answer: Option<ApprovalAnswer>,
    /// Whether an earlier turn made the call.
    pub(crate) is_earlier: bool,
}

impl PlannedCall {
    /// The call, for a result that does not stand beside it.
    pub(crate) fn earlier_call(&self) -> EarlierCall {
        EarlierCall {
            server: Arc::clone(&self.call.server),
            tool: Arc::clone(&self.call.tool),
            arguments: Arc::clone(&self.arguments),
        }
    }

    /// A stored call that a person has decided about, or that waited for such a decision about another call.
    pub(crate) fn decided(
        own: OwnCall,
        call: &ToolCall,
        choice: Option<ApprovalChoice>,
        answer: Option<ApprovalAnswer>,
        tools: &TurnTools,
    ) -> Self {
        let then = match (choice, tools.find(&call.name)) {
            (Some(ApprovalChoice::Deny), _) if answer.is_none_or(|answer| answer.expired) => {
                Then::Settle(wording::denied("nobody answered in time whether it is allowed"))
            }
            (Some(ApprovalChoice::Deny), _) => Then::Settle(wording::denied("the user did not allow it")),
            (_, None) => Then::Settle(wording::unknown_tool(&call.name)),
            (_, Some(offered)) => Then::Make(offered.clone()),
        };
        let (name, arguments) = (Arc::from(call.name.as_str()), Arc::from(call.arguments.as_str()));
        Self { call: own, name, arguments, then, answer, is_earlier: false }
    }
}

/// What happens to a call.
pub(crate) enum Then {
    /// It is made.
    Make(Offered),
    /// A person is asked about it.
    Ask,
    /// It has this result and is not made.
    Settle(Settled),
}

impl StoredTurn<'_> {
    /// Plans the calls of Herma's own tools in an answer.
    pub(crate) async fn plan(&self, answer: &Answer) -> Result<Vec<PlannedCall>, StoreError> {
        let own = answer.tool_calls.iter().filter(|call| !self.tools.is_clients(&call.name));
        let mut planned = Vec::new();
        for call in own {
            planned.push(self.plan_call(call).await?);
        }
        let most = self.most_output(planned.len());
        for planned in planned.iter_mut().filter(|planned| planned.call.delegates()) {
            planned.call.max_output = Some(most);
        }
        // No call is made before all questions are answered.
        let waits = planned.iter().any(|planned| matches!(planned.then, Then::Ask));
        for planned in planned.iter_mut().filter(|_| waits) {
            planned.call.waits = true;
            planned.call.asks = matches!(planned.then, Then::Ask);
        }
        Ok(planned)
    }

    async fn plan_call(&self, call: &ToolCall) -> Result<PlannedCall, StoreError> {
        let (server, tool, then) = match self.tools.find(&call.name) {
            None => ("", &*call.name, Then::Settle(wording::unknown_tool(&call.name))),
            Some(offered) => (offered.server(), offered.tool(), self.decide(offered).await?),
        };
        Ok(PlannedCall {
            call: OwnCall {
                id: Arc::from(call.id.as_str()),
                server: Arc::from(server),
                tool: Arc::from(tool),
                asks: false,
                waits: false,
                max_output: None,
            },
            name: Arc::from(call.name.as_str()),
            arguments: Arc::from(call.arguments.as_str()),
            then,
            answer: None,
            is_earlier: false,
        })
    }

    /// The mode of the conversation, if it counts for this turn. A person may change it while the turn runs.
    async fn tool_mode(&self) -> Result<Option<ToolMode>, StoreError> {
        if !self.request.options.obeys_tool_mode {
            return Ok(None);
        }
        let Ok(alias) = own_alias(&self.turn.session.facts.id.to_string()) else { return Ok(Some(ToolMode::Ask)) };
        let scope = Scope::of(&self.request.caller.principal);
        let row = self.gateway.store.conversation(&scope, &alias, Pin::Head).await?;
        Ok(Some(row.and_then(|row| row.editor.mode).unwrap_or(ToolMode::Ask)))
    }

    async fn decide(&self, offered: &Offered) -> Result<Then, StoreError> {
        match (offered.approval(), self.tool_mode().await?) {
            (Approval::Deny, _) => {
                return Ok(Then::Settle(wording::denied("the operator does not allow this tool")));
            }
            (_, Some(ToolMode::ReadOnly)) if !offered.is_read_only() => {
                return Ok(Then::Settle(wording::denied("the session is read-only")));
            }
            (Approval::Auto, _) | (Approval::Ask, Some(ToolMode::Auto)) => return Ok(Then::Make(offered.clone())),
            (Approval::Ask, _) => {}
        }
        let (tenant, conversation) = (self.request.caller.principal.tenant, self.turn.session.facts.id);
        if self.gateway.store.is_granted(tenant, conversation, offered.server(), offered.tool()).await? {
            return Ok(Then::Make(offered.clone()));
        }
        let can_ask = match &self.request.options.approvals {
            AskWhere::Nowhere => false,
            AskWhere::ByTurn => true,
            AskWhere::InAnswer(servers) => servers.iter().any(|server| server == offered.server()),
        };
        Ok(match can_ask {
            true => Then::Ask,
            false => Then::Settle(wording::denied("it needs an approval, and nobody can be asked here")),
        })
    }
}
