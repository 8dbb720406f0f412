//! Long-term memory: [`facts`] that callers read and change, the [`recall`] into turns, and the [`reader`] of
//! finished conversations.

mod facts;
pub(crate) mod reader;
mod recall;

pub use facts::Memories;
pub use herma_memory::RecallLimits;
pub use recall::{MemorySettings, ProviderSettings};
pub(crate) use recall::{newest_question, unrecorded};
