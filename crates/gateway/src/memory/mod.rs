//! Long-term memory: [`facts`] that callers read and change, the [`recall`] into turns, the [`reader`] of finished
//! conversations, and what an outside provider is told ([`handing_over`]).

mod facts;
pub(crate) mod handing_over;
pub(crate) mod reader;
mod recall;

pub use facts::Memories;
pub use herma_memory::{ApiKey as MemoryApiKey, HonchoSettings, RecallLimits};
pub use recall::{MemorySettings, ProviderSettings};
pub(crate) use recall::{Remembering, is_recorded, newest_question, unrecorded};
