//! A model call of Herma's own, for a summary or a title. No client is shown its answer, and only a whole one is used.

use std::convert::Infallible;
use std::ops::ControlFlow;

use herma_model::generation::ModelFailureKind;
use herma_model::{Answer, ConversationId, ModelCall, ModelFailure, TenantId, TurnFailure, Usage};
use herma_turn::{CallPlace, Ending, Stop, ToolRules};
use herma_upstream::ModelServer;

use crate::admission::defect;
use crate::driver::{Host, drive};
use crate::gateway::Gateway;
use crate::log::TurnEvent;
use crate::models::{ResolvedModel, ServerId};
use crate::spans::Traced;
use crate::warning;

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The model server failed.
    Failed(ModelFailure),
    /// The answer was too long, and was not read to its end. This is its beginning.
    TooLong(String),
}

impl Gateway {
    /// Adds the usage of such a call to the conversation for which it was made.
    pub(crate) fn count_side_usage(
        &self,
        tenant: TenantId,
        conversation: ConversationId,
        model: &ResolvedModel<'_>,
        usage: Usage,
    ) {
        if usage != Usage::default() {
            self.store.add_side_usage(tenant, conversation, usage, self.settings.cost(model, Some(usage)));
        }
    }

    /// Reads the whole answer of a call to this server. Stops early if the text so far is already far too long.
    /// Cancel-safe.
    pub(crate) async fn whole_answer(
        &self,
        server: ServerId,
        call: ModelCall,
        traced: &Traced<'_>,
        is_far_too_long: impl Fn(&str) -> bool,
    ) -> Result<Answer, NoAnswer> {
        let mut own = OwnCall { gateway: self, call, traced, is_far_too_long, failure: None };
        let Ok(ending) = drive(&**self.servers.of(server), ToolRules::default(), &mut own).await;
        match ending {
            Ending::Answered(answer) => Ok(*answer),
            Ending::TooLong(failure) => Err(NoAnswer::Failed(failure)),
            Ending::Unanswered { failure, shown, .. } => Err(match own.failure {
                Some(failure) => NoAnswer::Failed(failure),
                None => shown.map_or_else(|| NoAnswer::Failed(nonsense(&failure)), NoAnswer::TooLong),
            }),
            Ending::Refused(failure) => Err(NoAnswer::Failed(nonsense(&failure))),
            Ending::AfterLastStep | Ending::Parked => Err(NoAnswer::Failed(nonsense(&defect()))),
        }
    }
}

fn nonsense(failure: &TurnFailure) -> ModelFailure {
    ModelFailure::new(ModelFailureKind::Nonsense, &*failure.message)
}

/// The call while it is made.
struct OwnCall<'a, F> {
    gateway: &'a Gateway,
    call: ModelCall,
    traced: &'a Traced<'a>,
    is_far_too_long: F,
    failure: Option<ModelFailure>,
}

impl<F: Fn(&str) -> bool> Host for OwnCall<'_, F> {
    type Error = Infallible;

    fn call(&self, _: CallPlace) -> ModelCall {
        self.call.clone()
    }

    /// Never resolves. The call is stopped by dropping its future.
    async fn wait(&mut self, _: &str) -> Result<Option<Stop>, Infallible> {
        std::future::pending().await
    }

    async fn may_show(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    async fn show(&mut self, _: Vec<TurnEvent>, shown: &str) -> Result<ControlFlow<()>, Infallible> {
        Ok(if (self.is_far_too_long)(shown) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn call_failed(&mut self, failure: &ModelFailure, server: &dyn ModelServer, model: &str) {
        self.gateway.counters.model_failed(failure);
        warning::model_call_failed(failure, server, model, self.traced);
        self.failure = Some(failure.clone());
    }

    fn traced(&self) -> Traced<'_> {
        *self.traced
    }
}
