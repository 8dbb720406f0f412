//! Long-term memory of session keys.
//!
//! - [`MemoryProvider`] is the port: it is asked what is remembered before a turn.
//! - [`Builtin`] is the provider that needs nothing but the store.
//! - [`Honcho`] is the provider that asks a Honcho server. It is told what was said by [`outbox`], after the turns.
//! - [`recall()`] asks a provider, within a time and a budget, and makes the block that the model is shown.
//!
//! Nothing here knows of turns, front doors or a particular database. A provider never stops a turn: if it is late or
//! fails, there is no block, and [`Recall::status`](herma_model::Recall) says why.

mod block;
mod builtin;
mod honcho;
pub mod outbox;
mod provider;
mod recall;
mod words;

pub use block::{BEGIN, END};
pub use builtin::Builtin;
pub use honcho::{ApiKey, Honcho, HonchoSettings};
pub use outbox::{Delivered, DeliveryProblem, Recorder};
pub use provider::{MemoryError, MemoryProvider, RecallRequest, Recollection, Speaker};
pub use recall::{RecallLimits, recall};
