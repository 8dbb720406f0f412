//! The port to a model server. Whatever answers a call, over the network or not, stands behind it.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use herma_model::{ModelCall, ModelEvent, ModelFailure};

/// What comes back from a call. Nothing follows `Finished`, `Answered` or a failure.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelFailure>> + Send>>;

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name to call it by.
    pub id: String,
    /// When it was made, in seconds since 1970; 0 if the server does not say.
    pub created: i64,
    /// Whose it is; empty if the server does not say.
    pub owned_by: String,
}

/// The bytes of a streamed answer, as they come. Nothing follows a failure.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, ModelFailure>> + Send>>;

/// Where a request is passed on to as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassedTo {
    /// `/completions`: texts completed, without roles.
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

/// Something that answers model calls.
#[async_trait]
pub trait ModelServer: Send + Sync + 'static {
    /// Starts a call; returns when the server has begun to answer (streaming) or has answered.
    ///
    /// A streaming call yields deltas and then `Finished`, another yields `Answered` alone. Cancel-safe:
    /// dropping the future or the stream aborts the call.
    async fn call(&self, call: ModelCall) -> Result<ModelStream, ModelFailure>;

    /// Passes a request on as it is, and its answer back. Cancel-safe: dropping it, or its stream, aborts the call.
    async fn pass_on(&self, to: PassedTo, body: Bytes) -> Result<PassedAnswer, ModelFailure>;

    /// The models it offers, in its own order. Cancel-safe.
    async fn models(&self) -> Result<Vec<ModelInfo>, ModelFailure>;

    /// What it is, for start-up lines. Contains no secret.
    fn describe(&self) -> String;
}
