//! The port to a model server. The HTTP client and the offline model implement it.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use herma_model::{ModelCall, ModelEvent, ModelFailure, TraceContext};

/// The events of a call. Events that arrived together come together. Nothing follows `Finished`, `Answered` or a
/// failure.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<Vec<ModelEvent>, ModelFailure>> + Send>>;

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name to call it by.
    pub id: String,
    /// When it was created, in seconds since 1970; 0 if the server does not say.
    pub created: i64,
    /// Its owner; empty if the server does not say.
    pub owned_by: String,
}

/// The bytes of a streamed answer, as they arrive. Nothing follows a failure.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, ModelFailure>> + Send>>;

/// The endpoint that receives a request unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedTo {
    /// `/completions`: completes a text, without roles.
    Completions,
    /// `/embeddings`.
    Embeddings,
}

/// The answer to a request that was passed on.
pub enum PassedAnswer {
    /// A JSON document.
    Whole(Vec<u8>),
    /// An event stream.
    Stream(ByteStream),
}

/// Answers model calls.
#[async_trait]
pub trait ModelServer: Send + Sync + 'static {
    /// Starts a call. Returns when the answer has begun (streaming) or is complete (not streaming).
    ///
    /// A streaming call yields texts and deltas, and then `Finished`. Any other call yields `Answered` only.
    /// Cancel-safe: dropping the future or the stream aborts the call.
    async fn call(&self, call: ModelCall) -> Result<ModelStream, ModelFailure>;

    /// Sends a request unchanged and returns its answer unchanged. Cancel-safe: dropping the future or the stream
    /// aborts the call.
    async fn pass_on(
        &self,
        to: PassedTo,
        body: Bytes,
        trace: Option<&TraceContext>,
    ) -> Result<PassedAnswer, ModelFailure>;

    /// The models that the server offers, in the server's order. Cancel-safe.
    async fn models(&self) -> Result<Vec<ModelInfo>, ModelFailure>;

    /// The host of the server, for traces. `None` if there is no host. Contains no secret.
    fn host(&self) -> Option<&str> {
        None
    }

    /// Describes the server for start-up lines. Contains no secret.
    fn describe(&self) -> String;
}
