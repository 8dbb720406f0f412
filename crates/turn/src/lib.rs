//! One turn, without IO, clock or runtime: data in, decisions out.
//!
//! - [`allowed`]: which tools the model may call.
//! - [`mod@align`]: what of a request is new, given what the conversation already knows.
//! - [`pairing`]: whether tool results answer the calls that are open.
//! - [`seen`]: whether a request shows that its client has not seen the answer to it.
//! - [`context`]: what the model is shown.
//! - [`compaction`]: when the context is too long, and what of it stays.
//! - [`summary`]: asking for what stands in place of the rest, and judging it.
//! - [`sentences`]: where a summary that is too long can be cut.
//! - [`title`]: what a conversation is called that nobody gave a title.
//! - [`machine`]: the loop of a turn, from making room to its end.
//! - [`pieces`]: the pieces of an answer, put together.
//! - [`words`]: the few sentences of the gateway's own that a model ever sees.

pub mod align;
pub mod allowed;
pub mod compaction;
pub mod context;
pub mod machine;
pub mod pairing;
mod pieces;
pub mod seen;
mod sentences;
pub mod summary;
pub mod title;
pub mod words;

#[cfg(test)]
mod testing;

pub use align::{Alignment, align};
pub use allowed::AllowedTools;
pub use compaction::{Budget, Plan};
pub use context::{Transcript, build, truncated};
pub use machine::{ContextFit, Effect, Ending, Event, Machine, Need, Stop};
pub use pairing::{BadToolResult, check_tool_results};
pub use seen::repeats_history;
