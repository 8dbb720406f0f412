//! A model call of Herma's own, for a summary or a title. Its answer is shown to no client, and is of use only as a whole.

use std::convert::Infallible;
use std::ops::ControlFlow;

use herma_model::generation::ModelFailureKind;
use herma_model::{Answer, Delta, ModelCall, ModelFailure, TurnFailure};
use herma_turn::{AllowedTools, ContextFit, Ending, Event, Need, Stop};

use crate::driver::{Host, drive};
use crate::gateway::Gateway;
use crate::warning;

/// Why there is no answer.
pub(crate) enum NoAnswer {
    /// The model server failed.
    Failed(ModelFailure),
    /// It was not read to its end; this is what had come.
    TooLong(String),
}

impl Gateway {
    /// The whole answer, unless so much has come that there is no use in reading on. Cancel-safe.
    pub(crate) async fn whole_answer(
        &self,
        call: ModelCall,
        is_far_too_long: impl Fn(&str) -> bool,
    ) -> Result<Answer, NoAnswer> {
        let mut own = OwnCall { call, is_far_too_long, failure: None };
        let Ok(ending) = drive(&*self.upstream, AllowedTools::default(), &mut own).await;
        match ending {
            Ending::Answered(answer) => Ok(*answer),
            Ending::TooLong(failure) => Err(NoAnswer::Failed(failure)),
            Ending::Unanswered { failure, shown, .. } => Err(match own.failure {
                Some(failure) => NoAnswer::Failed(failure),
                None => shown.map_or_else(|| NoAnswer::Failed(nonsense(&failure)), NoAnswer::TooLong),
            }),
            Ending::Refused(failure) => Err(NoAnswer::Failed(nonsense(&failure))),
        }
    }
}

fn nonsense(failure: &TurnFailure) -> ModelFailure {
    ModelFailure::new(ModelFailureKind::Nonsense, &*failure.message)
}

/// The call while it is made.
struct OwnCall<F> {
    call: ModelCall,
    is_far_too_long: F,
    failure: Option<ModelFailure>,
}

impl<F: Fn(&str) -> bool> Host for OwnCall<F> {
    type Error = Infallible;

    async fn fit_context(&mut self, _: &Need) -> Result<Event, Infallible> {
        Ok(Event::ContextFit(ContextFit::NothingToCompact))
    }

    fn call(&self) -> ModelCall {
        self.call.clone()
    }

    /// It is stopped by dropping its future.
    async fn wait(&mut self, _: &str) -> Result<Option<Stop>, Infallible> {
        std::future::pending().await
    }

    async fn may_show(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    async fn show(&mut self, _: Delta, shown: &str) -> Result<ControlFlow<()>, Infallible> {
        Ok(if (self.is_far_too_long)(shown) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn call_failed(&mut self, failure: &ModelFailure, model: &str) {
        warning::model_call_failed(failure, model, None);
        self.failure = Some(failure.clone());
    }
}
