//! Long-term memory: [`facts`] that callers read and change, and the [`recall`] into turns.

mod facts;
mod recall;

pub use facts::Memories;
pub use herma_memory::RecallLimits;
pub use recall::{MemorySettings, ProviderSettings};
pub(crate) use recall::{newest_question, unrecorded};
