//! Requests that go to the model server unchanged. Nothing of them is stored.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use herma_model::{ModelFailure, Usage};
use herma_telemetry::Trace;
use herma_upstream::{ByteStream, PassedAnswer, PassedTo};
use herma_wire::passed_on;
use tokio::sync::OwnedSemaphorePermit;

use crate::counters::Counters;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::models::ResolvedModel;
use crate::spans::{ModelSpan, Purpose, Traced};
use crate::warning;

/// What the model server answered. It holds a place below the limit of live turns until it is dropped.
pub struct PassedOn {
    /// The answer as it came.
    pub answer: PassedAnswer,
    /// The tokens that a whole answer reports, if it does.
    pub usage: Option<Usage>,
    /// The place that the request takes.
    pub place: OwnedSemaphorePermit,
}

/// Why a request was not answered.
#[derive(Debug)]
pub enum NotPassedOn {
    /// Herma did not pass it on.
    Refused(GatewayError),
    /// The model server failed or refused it.
    Failed(ModelFailure),
}

impl Gateway {
    /// The model that a request asks for.
    pub fn model_for<'a>(&'a self, asked: Option<&'a str>) -> Result<ResolvedModel<'a>, GatewayError> {
        let model = self.settings.resolve_model(asked);
        if model.name.is_empty() { Err(GatewayError::no_model()) } else { Ok(model) }
    }

    /// Passes a request on to the server of its model, and counts how it ended. Cancel-safe: dropping the future ends
    /// the call.
    pub async fn pass_on(
        &self,
        to: PassedTo,
        model: &ResolvedModel<'_>,
        body: Bytes,
        trace: &Trace,
    ) -> Result<PassedOn, NotPassedOn> {
        let place = self.place().map_err(NotPassedOn::Refused)?;
        let (server, operation) = (self.server_of(model), operation(to));
        let traced = Traced { trace, conversation: None, purpose: Purpose::PassedOn };
        // The span of a stream ends when the stream begins.
        let mut span = ModelSpan::begin(&traced, server, operation, model.name);
        match server.pass_on(to, body, span.passed_on().as_ref()).await {
            Ok(PassedAnswer::Whole(json)) => {
                self.counters.passed_on();
                let usage = passed_on::tokens(&json).map(|(input, output)| Usage { input, output, ..Usage::default() });
                self.counters.tokens(usage.unwrap_or_default());
                Ok(PassedOn { answer: PassedAnswer::Whole(json), usage, place })
            }
            Ok(PassedAnswer::Stream(bytes)) => {
                let answer = PassedAnswer::Stream(counted(bytes, self.counters.clone()));
                Ok(PassedOn { answer, usage: None, place })
            }
            Err(failure) => {
                span.failed(&failure);
                self.counters.model_failed(&failure);
                warning::model_call_failed(&failure, server, model.name, &traced);
                self.counters.not_passed_on(&failure);
                Err(NotPassedOn::Failed(failure))
            }
        }
    }
}

/// The operation by OpenTelemetry's name for it.
const fn operation(to: PassedTo) -> &'static str {
    match to {
        PassedTo::Completions => "text_completion",
        PassedTo::Embeddings => "embeddings",
    }
}

/// The same stream. Its end is counted.
fn counted(bytes: ByteStream, counters: Counters) -> ByteStream {
    Box::pin(unfold(Some((bytes, counters)), async |under_way| {
        let (mut bytes, counters) = under_way?;
        let piece = bytes.next().await;
        match &piece {
            Some(Ok(_)) => return piece.map(|piece| (piece, Some((bytes, counters)))),
            Some(Err(failure)) => counters.not_passed_on(failure),
            None => counters.passed_on(),
        }
        piece.map(|piece| (piece, None))
    }))
}
