//! Requests that go to the model server as they are. Nothing of them is stored.

use bytes::Bytes;
use herma_model::ModelFailure;
use herma_upstream::{PassedAnswer, PassedTo};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::warning;

/// What the model server answered. It counts among what this process does until it is dropped.
pub struct PassedOn {
    /// The answer as it came.
    pub answer: PassedAnswer,
    /// The place that the request takes.
    pub place: OwnedSemaphorePermit,
}

/// Why a request was not answered.
#[derive(Debug)]
pub enum NotPassedOn {
    /// Herma did not pass it on.
    Refused(GatewayError),
    /// The model server failed, or refused it.
    Failed(ModelFailure),
}

impl Gateway {
    /// The model server's name for the model that a request asks for.
    pub fn model_for(&self, asked: Option<&str>) -> Result<String, GatewayError> {
        let (model, _) = self.settings.resolve_model(asked);
        if model.is_empty() { Err(GatewayError::no_model()) } else { Ok(model) }
    }

    /// Passes a request on. Cancel-safe: dropping it ends the call.
    pub async fn pass_on(&self, to: PassedTo, model: &str, body: Bytes) -> Result<PassedOn, NotPassedOn> {
        let place = self.place().map_err(NotPassedOn::Refused)?;
        match self.upstream.pass_on(to, body).await {
            Ok(answer) => Ok(PassedOn { answer, place }),
            Err(failure) => {
                warning::model_call_failed(&failure, model, None);
                Err(NotPassedOn::Failed(failure))
            }
        }
    }
}
