//! A model call of the gateway's own: nobody is shown what comes, and it is of use as a whole or not at all.

use futures_util::{StreamExt, TryFutureExt};
use herma_model::generation::ModelFailureKind;
use herma_model::{Answer, ModelCall, ModelFailure};
use herma_turn::{Effect, Ending, Event, Machine};

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
        let model = call.model.clone();
        let mut events = std::pin::pin!(self.upstream.call(call).try_flatten_stream());
        let mut machine = Machine::default();
        while let Some(event) = events.next().await {
            let event = event.map_err(|failure| self.unanswered(failure, &model))?;
            if let Some(Effect::End(Ending::Answered(answer))) = machine.on(Event::Model(event)) {
                return Ok(*answer);
            }
            if is_far_too_long(machine.shown()) {
                return Err(NoAnswer::TooLong(machine.shown().to_owned()));
            }
        }
        let cut_off = "the model server stopped before its answer was complete";
        Err(self.unanswered(ModelFailure::new(ModelFailureKind::CutOff, cut_off), &model))
    }

    fn unanswered(&self, failure: ModelFailure, model: &str) -> NoAnswer {
        warning::model_call_failed(&failure, model, None);
        NoAnswer::Failed(failure)
    }
}
